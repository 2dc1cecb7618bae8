"""A first look at a checkpoint file without torch, so that every process that opens a voice sees a broken one."""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from typing import IO, Final

from deployments.errors import VoiceInvalid

_AGAIN: Final = "Delete the file and download it again"
_ROOTS: Final = ("torch", "numpy", "collections")
"""Packages a pickle of weights refers to; torch.load(weights_only=True) is far stricter and has the last word."""

_NAMES: Final = ("_codecs encode", "builtins set", "builtins bytearray", "builtins complex")
_MAX_PICKLE_BYTES: Final = 64 * 1024 * 1024  # names and shapes alone, without the tensors' data
_OLD_FORMAT: Final = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that torch wrote first before 1.6


def check(path: Path) -> None:
    """Sees that a checkpoint is whole and refers to nothing but weights.

    Files in torch's zip format are checked for their end, their sizes and the names that their pickle refers to; of the
    format before torch 1.6 only the start is, the rest when the weights are loaded.

    Raises:
        VoiceInvalid: The file is empty, truncated, packed, not a checkpoint, or its pickle refers to other code.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(len(_OLD_FORMAT))
            if start == _OLD_FORMAT:
                return
            if not start.startswith(b"PK"):
                raise VoiceInvalid(f"{path} is no torch checkpoint (starts with {start[:8]!r}). {_AGAIN}.", str(path))
            with zipfile.ZipFile(stream) as archive:
                _check_zip(path, archive)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise VoiceInvalid(f"{path} is truncated or damaged ({error}). {_AGAIN}.", str(path)) from error
    except OSError as error:
        raise VoiceInvalid(f"{path} cannot be read ({error.strerror}). Mend its permissions.", str(path)) from error


def _check_zip(path: Path, archive: zipfile.ZipFile) -> None:
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise VoiceInvalid(f"{path} was packed again; torch.save does not compress. {_AGAIN}.", str(path))
    pickles = [entry for entry in entries if entry.filename.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1 or pickles[0].file_size > _MAX_PICKLE_BYTES:
        raise VoiceInvalid(f"{path} is a zip file but no torch checkpoint. {_AGAIN}.", str(path))
    with archive.open(pickles[0]) as stream:
        foreign = _foreign_name(stream)
    if foreign is not None:
        raise VoiceInvalid(
            f"{path} holds code or objects ({foreign}) that weights have no need of, and was not loaded. "
            "Take the file from its publisher; if it is your own, save the state dict alone.",
            str(path),
        )


def _foreign_name(stream: IO[bytes]) -> str | None:
    """The first name outside of the packages of weights that a pickle refers to."""
    for opcode, argument, _ in pickletools.genops(stream):
        if opcode.name in ("GLOBAL", "INST"):
            module = str(argument).partition(" ")[0]
            if module.partition(".")[0] not in _ROOTS and argument not in _NAMES:
                return str(argument).replace(" ", ".")
    return None
