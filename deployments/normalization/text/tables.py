"""Reads the TSV tables of this folder: one row a line, "#" starts a comment line, the last column may be a reason."""

from __future__ import annotations

import gc
import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path

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


def package(name: str) -> Path:
    """The folder of an installed package, found without importing it: only its data files are wanted.

    Args:
        name: Of the package.

    Returns:
        The folder.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"No package {name}; install this project with its dependencies.", name=name)
    return Path(spec.submodule_search_locations[0])


@contextmanager
def loading() -> Iterator[None]:
    """Suspends the search for cyclic garbage: tables are a million objects that stay, looking through them is slow."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
