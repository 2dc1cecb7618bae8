"""Markdown tables and numbers, to read in a terminal and to paste into a document."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

NONE: Final = "-"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns: the first to the left, the others, which hold numbers, to the right.

    Args:
        headers: One per column.
        rows: As many cells each.

    Raises:
        ValueError: A row has more or fewer cells than there are headers.
    """
    if odd := [row for row in rows if len(row) != len(headers)]:
        raise ValueError(f"a row has {len(odd[0])} cells under {len(headers)} headers: {odd[0]}")
    widths = [max(3, *(len(row[column]) for row in (headers, *rows))) for column in range(len(headers))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "| " + " | ".join((first, *others)) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
    return "\n".join((line(headers), rule, *(line(row) for row in rows)))


def number(value: Any, digits: int = 2) -> str:
    """A number with so many significant digits and no exponent; a dash for none."""
    if value is None:
        return NONE
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{max(0, decimals)}f}"
