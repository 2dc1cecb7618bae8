"""Readings that the words around a character decide: the rows of data/contexts.tsv."""

from __future__ import annotations

import re

from deployments.normalization.text import tables

_END = "[，。！？；：、…”’）》\\n ]|$"


class Contexts:
    """Patterns by character. Safe to use from several threads."""

    def __init__(self) -> None:
        self._patterns: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for char, reading, pattern, *_ in tables.rows("contexts.tsv"):
            compiled = re.compile(pattern.replace("{end}", _END))
            if compiled.groups < 1:
                raise ValueError(f"contexts.tsv: {pattern} has no group for {char}")
            self._patterns.setdefault(char, []).append((compiled, reading))

    def find(self, sentence: str) -> dict[int, str]:
        """Decided readings by place; the first row that fits a place wins."""
        found: dict[int, str] = {}
        for char in set(sentence) & self._patterns.keys():
            for pattern, reading in self._patterns[char]:
                for match in pattern.finditer(sentence):
                    place = next(match.start(group) for group in range(1, pattern.groups + 1) if match[group] == char)
                    found.setdefault(place, reading)
        return found
