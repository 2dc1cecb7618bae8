"""Reads the TSV tables of this folder: one row a line, "#" starts a comment line, the last column may be a reason."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

DATA = files("deployments.normalization.text") / "data"
RULES = files("deployments.normalization.text") / "rules"


def parse_rows(content: str) -> Iterator[tuple[str, ...]]:
    """Rows of a TSV text without comments and empty lines."""
    for line in content.splitlines():
        if line.strip() and not line.startswith("#"):
            yield tuple(line.split("\t"))


def rows(name: str, folder: Traversable = DATA) -> Iterator[tuple[str, ...]]:
    """Rows of a table that ships with the front end.

    Args:
        name: File name.
        folder: DATA or RULES.

    Returns:
        The columns of each row.
    """
    return parse_rows(text(name, folder))


def text(name: str, folder: Traversable = DATA) -> str:
    """A whole table as it stands; ".gz" files are unpacked."""
    raw = (folder / name).read_bytes()
    return (gzip.decompress(raw) if name.endswith(".gz") else raw).decode("utf-8")


def pairs(name: str) -> dict[str, str]:
    """A table of two (or more) columns as a mapping of the first to the second."""
    return {row[0]: row[1] for row in rows(name)}
