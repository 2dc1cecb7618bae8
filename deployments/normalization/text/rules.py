r"""The ordered reading rules: each is a row of a TSV file in rules/, a pattern and how its groups are read.

A pattern is a regular expression in which `{name}` stands for an entry of rules/macros.tsv. A reading is the text to
put in its place, in which `{1:int}` reads group 1 with the reader "int"; `{2:spell:点~}` puts the result where the "~"
stands and gives nothing when the group did not take part. Files apply in the order of their names, rows from top to
bottom; what a row has turned into words is out of reach of the digits of later rows.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from deployments.normalization.text import tables
from deployments.normalization.text.readers import readers
from deployments.normalization.text.tracked import Tracked

_MACRO = re.compile(r"\{([a-z_]+)\}")
_TABLE_MACROS = {"unit": "units.tsv", "measure": "measures.tsv", "currency": "currencies.tsv"}
_MAX_ROUNDS = 64  # a row applies again while it finds more, as in 比分11:7、11:6
_FIELD = re.compile(r"\{(\d):([a-z_]+)(?::([^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One reading rule.

    Attributes:
        name: File and line, for messages.
        pattern: What it applies to.
        reading: The words, with fields for the groups.
    """

    name: str
    pattern: re.Pattern[str]
    reading: str


class Rules:
    """All reading rules in order. Safe to use from several threads."""

    def __init__(self) -> None:
        self._readers = readers()
        macros = _macros()
        self.rules = tuple(
            rule
            for file in sorted(entry.name for entry in tables.RULES.iterdir() if entry.name[:1].isdigit())
            for rule in self._load(file, macros)
        )

    def apply(self, text: Tracked) -> Tracked:
        """Reads everything that a rule knows."""
        for rule in self.rules:
            for _ in range(_MAX_ROUNDS):
                if rule.pattern.search(text.text) is None:  # as nearly always; asking first is half the time
                    break
                before = text
                text = text.sub(rule.pattern, functools.partial(self._read, rule))
                if text.text == before.text:
                    break
        return text

    def _load(self, file: str, macros: dict[str, str]) -> list[Rule]:
        rules = []
        for row, (pattern, reading, *_) in enumerate(tables.rows(file, tables.RULES), 1):
            expanded = _MACRO.sub(lambda match: macros[match[1]], pattern)
            for _, reader, _ in _FIELD.findall(reading):
                if reader not in self._readers:
                    raise ValueError(f"{file}, rule {row}: no reader {reader!r}")
            rules.append(Rule(f"{file}:{row}", re.compile(expanded), reading))
        return rules

    def _read(self, rule: Rule, match: re.Match[str]) -> str:
        def fill(field: re.Match[str]) -> str:
            group = match[int(field[1])]
            if group is None:
                return ""
            words = self._readers[field[2]](group)
            return (field[3] or "~").replace("~", words) if words else ""

        return _FIELD.sub(fill, rule.reading)


def _macros() -> dict[str, str]:
    """The macros, each of which may use those above it."""
    macros = {name: f"(?:{_any_of(table)})" for name, table in _TABLE_MACROS.items()}
    for name, pattern, *_ in tables.rows("macros.tsv", tables.RULES):
        macros[name] = f"(?:{_MACRO.sub(lambda match: macros[match[1]], pattern)})"
    return macros


def _any_of(table: str) -> str:
    """Any first column of a table, the longest that fits."""
    return "|".join(sorted((re.escape(row[0]) for row in tables.rows(table)), key=len, reverse=True))
