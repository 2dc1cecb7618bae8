"""The text that a command is given: as an argument, in a file, or through stdin."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from deployments.errors import InvalidRequest

STDIN: Final = "-"


def add_text(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that `text_of` reads."""
    parser.add_argument("text", nargs="?", help="text or SSML; left out or -: from stdin")
    parser.add_argument("-f", "--file", metavar="FILE", help="read the text from a file (UTF-8) instead")


def text_of(arguments: argparse.Namespace) -> str:
    """The text that was given.

    Raises:
        InvalidRequest: There is none, there are two, or the file cannot be read or is not UTF-8.
    """
    given, file = arguments.text, arguments.file
    if given is not None and file is not None:
        raise InvalidRequest("There is a text and a file. Give one of them.", "text")
    text = given if given not in (None, STDIN) else _read(file or STDIN)
    if not text.strip():
        raise InvalidRequest("There is no text. Give it as an argument, with -f FILE or through stdin.", "text")
    return str(text)


def _read(name: str) -> str:
    if name == STDIN and sys.stdin.isatty():
        raise InvalidRequest("There is no text. Give it as an argument, with -f FILE or through stdin.", "text")
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"{name} cannot be read ({error.strerror}). Mend the path of the text.", "text") from error
    try:
        return data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{'The text from stdin' if name == STDIN else name} is not UTF-8 (byte {error.start}). Convert it, for "
            "example with: iconv -f GB18030 -t UTF-8.",
            "text",
        ) from error
