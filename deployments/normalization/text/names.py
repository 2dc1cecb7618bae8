"""Family names: characters that are read differently where a name begins."""

from __future__ import annotations

import re

from deployments.normalization.text import tables
from deployments.normalization.text.segment import Token


class Names:
    """Finds family names by what stands around them. Safe to use from several threads."""

    def __init__(self) -> None:
        self._readings = {row[0]: tuple(row[1].split()) for row in tables.rows("surnames.tsv")}
        titles = "|".join(row[0] for row in tables.rows("titles.tsv"))
        names = "|".join(sorted(self._readings, key=len, reverse=True))
        self._titled = re.compile(
            f"(?:^|[，。！？；、：“姓叫是找问请给和与向跟对让由])({names})(?=[一-鿿]{{0,2}}(?:{titles}))|(?<=姓)({names})"
        )

    def find(self, sentence: str, tokens: list[Token]) -> dict[int, str]:
        """Readings of family names by place.

        Args:
            sentence: Normalised text.
            tokens: Its words; those tagged as persons' names begin with a family name.

        Returns:
            Reading of each character that belongs to one.
        """
        found: dict[int, str] = {}
        for match in self._titled.finditer(sentence):
            group = 1 if match[1] else 2
            self._note(found, match[group], match.start(group))
        for token in tokens:
            if token.tag == "nr" and 2 <= len(token.text) <= 3:
                for size in (2, 1):
                    if len(token.text) > size and token.text[:size] in self._readings:
                        self._note(found, token.text[:size], token.start)
                        break
        return found

    def begins(self, name: str) -> dict[int, str]:
        """Readings of the family name that a name begins with, by place; none where they are the usual ones."""
        found: dict[int, str] = {}
        size = next((size for size in (2, 1) if name[:size] in self._readings), 0)
        if size:
            self._note(found, name[:size], 0)
        return found

    def _note(self, found: dict[int, str], name: str, start: int) -> None:
        for offset, reading in enumerate(self._readings[name]):
            found.setdefault(start + offset, reading)
