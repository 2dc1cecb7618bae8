"""A hash of everything that decides how a voice sounds; part of every cache key."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Final

_FILES: Final = ("am/config.yaml", "voc/config.yaml", "audio_config.yaml", "am/mvn.npy", "am/se.npy")


def fingerprint(path: Path, acoustic_checkpoint: Path, vocoder_checkpoint: Path) -> str:
    """The hash of a voice's checkpoints, configurations, statistics and tables.

    Names and places of the folder do not count, contents do; the card says nothing about the sound and is left out.

    Args:
        path: Folder of the voice.
        acoustic_checkpoint: The file in use.
        vocoder_checkpoint: The file in use.

    Returns:
        SHA-256, 64 hexadecimal digits.
    """
    parts = {name: path / name for name in _FILES}
    parts |= {f"dict/{file.name}": file for file in (path / "dict").glob("*_dict.txt")}
    parts |= {"acoustic": acoustic_checkpoint, "vocoder": vocoder_checkpoint}
    digest = hashlib.sha256()
    for part, file in sorted(parts.items()):
        if file.is_file():
            digest.update(f"{part}\0{file_hash(file)}\n".encode())
    return digest.hexdigest()


def file_hash(file: Path) -> str:
    """SHA-256 of a file; a file that did not change since is not read again by this process."""
    status = file.stat()
    return _file_hash(file.resolve(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _file_hash(file: Path, size: int, mtime_ns: int) -> str:  # size and time are the key only
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
