"""Tables for a terminal, where Chinese characters are two columns wide."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

GAP = 2


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell.

    Args:
        rows: All with the same number of cells.
    """
    widths = [max(columns_of(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "".join(cell + " " * (width + GAP - columns_of(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def interlinear(pairs: Sequence[tuple[str, str]], columns: int) -> list[str]:
    """Pairs side by side, each one's second text under its first, folded where a line is full.

    Args:
        pairs: What stands above and below.
        columns: Width of the terminal; a pair that is wider has a line of its own.
    """
    blocks: list[list[tuple[str, str]]] = [[]]
    used = 0
    for pair in pairs:
        width = max(map(columns_of, pair)) + GAP
        if blocks[-1] and used + width > columns:
            blocks.append([])
            used = 0
        blocks[-1].append(pair)
        used += width
    return [line for block in blocks if block for line in aligned(list(zip(*block, strict=True)))]
