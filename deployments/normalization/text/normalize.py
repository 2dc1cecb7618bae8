"""Written Chinese into words: traditional to simplified, reading rules, the rest character by character."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from anyascii import anyascii
from opencc import OpenCC

from deployments.normalization.text import numbers, tables
from deployments.normalization.text.english_numbers import english_amount
from deployments.normalization.text.rules import Rules
from deployments.normalization.text.tracked import Tracked

_READ = re.compile(r"[^一-鿿，。！？；：、\n ]")
_DIGITS = re.compile(r"[0-9]+")
_MARKS = re.compile(r"[^\w\s]|_")
# Letters and digits of other scripts; Chinese characters and stand-ins (private use) are none.
_FOREIGN = re.compile(r"[^\W\x00-\x7f\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")
# A number with English words on both sides, or on one side and the end of the text on the other.
_ENGLISH_AMOUNT = (
    r"(?:\$?[0-9]{1,3}(?:,[0-9]{3}){1,2}(?:\.[0-9]{1,2})?|\$[0-9]{1,9}(?:\.[0-9]{1,2})?|[0-9]{1,2}:[0-5][0-9]"
    r"|[0-9]{1,9}(?:st|nd|rd|th)|[0-9]{1,9}(?:\.[0-9]+)?%?)(?![0-9A-Za-z%:/-])"
)
_LATIN_AROUND = re.compile(
    rf"(?:(?<=[A-Za-z] )|(?<=[A-Za-z], )){_ENGLISH_AMOUNT}(?=,? [A-Za-z]|[.!?]?$|[.!?] [A-Z])"
    rf"|^{_ENGLISH_AMOUNT}(?=,? [A-Za-z]{{2}})",
    re.MULTILINE,
)
_LONGEST_KEPT = 64  # characters of another script whose Latin form is remembered
_SPACE_BY_HAN = re.compile(r"(?<![A-Za-z]) +| +(?![A-Za-z])")


class Normalizer:
    """Turns cleaned text into words and punctuation. Safe to use from several threads."""

    def __init__(self) -> None:
        self._to_simplified: Callable[[str], str] = OpenCC("t2s").convert
        self._rules = Rules()
        written = "|".join(row[0] for row in tables.rows("zhu.tsv"))
        self._zhu = re.compile(f"{written}|著")
        self._marks = {row[0]: row[1] if len(row) > 1 else "" for row in tables.rows("marks.tsv")}

    def simplify(self, text: Tracked) -> Tracked:
        """Traditional characters to simplified ones, phrase by phrase."""
        converted = text.map(self._to_simplified)
        if "著" in converted.text:
            converted = converted.sub(self._zhu, lambda match: "着" if match[0] == "著" else None)
        return converted

    def normalize(self, text: Tracked, *, english: bool = False) -> Tracked:
        """Reads digits, symbols and abbreviations as words.

        Args:
            text: Cleaned, simplified text.
            english: Read numbers between English words in English.

        Returns:
            Chinese characters, Latin words and Chinese punctuation.
        """
        if _READ.search(text.text):
            if english and _LATIN_AROUND.search(text.text):
                text = text.sub(_LATIN_AROUND, lambda match: english_amount(match[0]))
            text = self._rules.apply(text)
        return self.spell_rest(text)

    def spell_rest(self, text: Tracked) -> Tracked:
        """Reads remaining digits one by one and brings punctuation to one form; all that `normalize=False` does."""
        if _READ.search(text.text):
            text = text.sub(_FOREIGN, lambda match: (_latin if len(match[0]) <= _LONGEST_KEPT else _romanise)(match[0]))
            text = text.sub(_DIGITS, lambda match: numbers.spell(match[0]))
            text = text.sub(_MARKS, lambda match: self._marks.get(match[0], match[0]))
        return text.sub(_SPACE_BY_HAN, lambda _: "")


def _romanise(run: str) -> str:
    """Letters of another script in Latin ones, so that they are heard at all."""
    return re.sub(r"[^A-Za-z0-9 ]+", "", anyascii(run)) or run


_latin = functools.lru_cache(maxsize=4_096)(_romanise)
