"""The symbols a voice was trained on, and segments of symbols turned into indices of its embedding tables.

No torch: the text front end asks the same tables which symbols exist.

Legend: T tokens (items of a segment).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from importlib import resources
from typing import Final

import numpy as np
from numpy.typing import NDArray

from deployments.errors import InvalidRequest

RESERVED: Final = ("_", "~", "[MASK]")
"""Rows at the end of every table that are never spoken: padding, end, mask (older voices lack the mask)."""

EMOTION_PREFIX: Final = "emotion_"
NO_EMOTION: Final = "emotion_none"

_ITEM: Final = re.compile(r"\{([^{}$\s]+)\$([^{}$\s]+)\$([^{}$\s]+)\$([^{}$\s]+)\$([^{}$\s]+)\$([^{}$\s]+)\}")


@dataclass(frozen=True, slots=True)
class SymbolIds:
    """One segment as indices.

    Attributes:
        ling_T4: int64 [T, 4]; phone, tone, syllable flag, word segment.
        emotion_T: int64 [T].
        speaker_T: int64 [T].
    """

    ling_T4: NDArray[np.int64]
    emotion_T: NDArray[np.int64]
    speaker_T: NDArray[np.int64]


@dataclass(frozen=True)
class SymbolTables:
    """The symbols of one voice: a symbol's index in its table is its row in the checkpoint's embedding.

    Each table ends with the reserved rows of `RESERVED`.

    Attributes:
        phone: Phones and breaks, without the "@" that the published code stores them with.
        tone: Tones.
        syllable_flag: Places in the syllable.
        word_segment: Places in the word.
        emotion: Emotions with the prefix "emotion_".
        speaker: Speakers.
    """

    phone: tuple[str, ...]
    tone: tuple[str, ...]
    syllable_flag: tuple[str, ...]
    word_segment: tuple[str, ...]
    emotion: tuple[str, ...]
    speaker: tuple[str, ...]

    @classmethod
    def of(cls, tables: Mapping[str, Sequence[str]]) -> SymbolTables:
        """Tables from rows in order: a leading "@" is dropped and the reserved rows are added where they are missing.

        Args:
            tables: Rows by name of the table; a name left out takes the published rows.

        Raises:
            ValueError: A symbol stands twice, is empty, holds a character of the item syntax, or follows a reserved
                row; or no speaker is given.
        """
        chosen = {**published_tables(), **tables}
        missing = [field.name for field in fields(cls) if not chosen.get(field.name)]
        if missing:
            raise ValueError(f"no symbols for {', '.join(missing)}")
        return cls(**{field.name: _rows(field.name, chosen[field.name]) for field in fields(cls)})

    def has(self, table: str, symbol: str) -> bool:
        """Whether a table ("phone", "tone", ...) has a symbol that can be spoken."""
        return symbol in self._ids[table]

    def index(self, table: str, symbol: str) -> int:
        """The row of a symbol.

        Raises:
            InvalidRequest: The table has no such symbol.
        """
        try:
            return self._ids[table][symbol]
        except KeyError:
            raise InvalidRequest(
                f"The voice has no {_words(table)} {symbol!r}. {self._fix(table)}", "symbols"
            ) from None

    def parse(self, symbols: str) -> SymbolIds:
        """Indices of a segment.

        Args:
            symbols: Items "{phone$tone$syllable_flag$word_segment$emotion$speaker}" separated by blanks, at least one.

        Returns:
            Arrays over the items.

        Raises:
            InvalidRequest: An item is malformed or names a symbol that the voice lacks; names the item, its place
                (from 1) and the symbol.
        """
        items = symbols.split()
        if not items:
            raise InvalidRequest("The segment has no symbols; give at least one item {phone$tone$...}.", "symbols")
        tables = tuple(self._ids.items())
        ids_T6 = np.empty((len(items), len(tables)), dtype=np.int64)
        for place, item in enumerate(items):
            match = _ITEM.fullmatch(item)
            if match is None:
                raise InvalidRequest(
                    f"Item {place + 1} of the symbols, {item!r}, is malformed; write "
                    "{phone$tone$syllable_flag$word_segment$emotion$speaker} with one blank between items.",
                    "symbols",
                )
            for column, ((table, ids), symbol) in enumerate(zip(tables, match.groups(), strict=True)):
                row = ids.get(symbol)
                if row is None:
                    raise InvalidRequest(
                        f"Item {place + 1} of the symbols, {item!r}: the voice has no {_words(table)} {symbol!r}. "
                        f"{self._fix(table)}",
                        "symbols",
                    )
                ids_T6[place, column] = row
        return SymbolIds(
            ling_T4=np.ascontiguousarray(ids_T6[:, :4]), emotion_T=ids_T6[:, 4].copy(), speaker_T=ids_T6[:, 5].copy()
        )

    def misfits(self, rows: Mapping[str, int]) -> tuple[str, ...]:
        """Which embeddings of a checkpoint do not belong to these tables.

        Voices trained without the mask symbol have one row less than their table; nothing else is right.

        Args:
            rows: Rows of the checkpoint's embedding by name of the table ("phone", "tone", ...).

        Returns:
            One text per table, for `checkpoint.explain_mismatch`; empty where all fit.
        """
        return tuple(
            f"{_words(table)} embedding: {count} rows in the file, {symbols - 1} or {symbols} expected"
            for table, count in rows.items()
            if count not in (symbols := len(getattr(self, table)), symbols - 1)
        )

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        """Row by symbol by table, in the order of an item's fields, without the reserved rows."""
        return {
            field.name: {symbol: row for row, symbol in enumerate(getattr(self, field.name)) if symbol not in RESERVED}
            for field in fields(self)
        }

    def _fix(self, table: str) -> str:
        known = list(self._ids[table])
        shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        return f"Use one of: {shown}."


@cache
def published_tables() -> dict[str, tuple[str, ...]]:
    """The tables that every published voice shares unless its folder has a dict/, in order, without reserved rows.

    Source: symbols.tsv (columns table, symbol; the order of the rows is the order of the embedding).
    """
    tables: dict[str, tuple[str, ...]] = {}
    text = resources.files("deployments.voices").joinpath("symbols.tsv").read_text(encoding="utf-8")
    for line in text.splitlines()[1:]:
        table, symbol = line.split("\t")
        tables[table] = (*tables.get(table, ()), symbol)
    return tables


def _rows(table: str, symbols: Sequence[str]) -> tuple[str, ...]:
    rows = tuple(symbol.removeprefix("@") for symbol in symbols)
    spoken = tuple(symbol for symbol in rows if symbol not in RESERVED)
    wrong = [symbol for symbol in spoken if not re.fullmatch(r"[^{}$\s]+", symbol)]
    if wrong:
        raise ValueError(f"{_words(table)} {wrong[0]!r} holds a blank or one of {{ }} $")
    if len(set(rows)) != len(rows):
        twice = next(symbol for place, symbol in enumerate(rows) if symbol in rows[:place])
        raise ValueError(f"{_words(table)} {twice!r} stands twice")
    if rows[: len(spoken)] != spoken:
        raise ValueError(f"a {_words(table)} follows the reserved rows {' '.join(RESERVED)}")
    if not spoken:
        raise ValueError(f"no {_words(table)} can be spoken")
    return (*spoken, *RESERVED)


def _words(table: str) -> str:
    return table.replace("_", " ")
