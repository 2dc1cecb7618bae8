"""Where the audio goes: which format a file's name asks for, and files that are whole or not there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from deployments.errors import InvalidRequest

STDOUT: Final = "-"
SUFFIXES: Final = {
    ".wav": "wav",
    ".mp3": "mp3",
    ".opus": "opus",
    ".ogg": "opus",
    ".aac": "aac",
    ".flac": "flac",
    ".pcm": "pcm",
}
FORMATS: Final = tuple(dict.fromkeys(SUFFIXES.values()))


def format_of(name: str, asked: str | None) -> str:
    """The format of the output: the one that was asked for, else by the suffix; wav for stdout.

    Raises:
        InvalidRequest: The suffix says nothing.
    """
    if asked is not None:
        return asked
    if name == STDOUT:
        return "wav"
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidRequest(
            f"{name} has {'the unknown suffix ' + suffix if suffix else 'no suffix'}. Use one of "
            f"{', '.join(SUFFIXES)}, or name the format with --format.",
            "output",
        )
    return SUFFIXES[suffix]


def check_output(name: str) -> None:
    """Refuses what cannot be written, before any work is done.

    Raises:
        InvalidRequest: The folder is missing, the name is a folder, or one of them may not be written to.
    """
    if name == STDOUT:
        if sys.stdout.isatty():
            raise InvalidRequest("Audio is not for a terminal. Give a file, or pass it on with a pipe.", "output")
        return
    path = Path(name).resolve()
    if path.is_dir():
        raise InvalidRequest(f"{name} is a folder. Give the name of a file.", "output")
    if not path.parent.is_dir():
        raise InvalidRequest(f"There is no folder {path.parent}. Make it first or give another output.", "output")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidRequest(f"{name} may not be written to. Mend its permissions or give another output.", "output")


def write_output(name: str, data: bytes) -> None:
    """Writes the audio; a file is replaced when all of it is written.

    Raises:
        OSError: It cannot be written.
    """
    if name == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    path = Path(name).resolve()
    if path.exists() and not path.is_file():  # a device or a pipe
        path.write_bytes(data)
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
