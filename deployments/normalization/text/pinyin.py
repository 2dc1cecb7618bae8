"""Readings of words: the caller's own, phrase tables, then the sentence's polyphones."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping, Sequence

from pypinyin.constants import PHRASES_DICT, PINYIN_DICT

from deployments.normalization.text import symbols, tables
from deployments.normalization.text.polyphone import PolyphoneNetwork
from deployments.normalization.text.segment import Token

_TONE_MARKS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
# Syllables without a vowel, and ê, in the nearest syllable that the phone table has.
_VOWELLESS = {"n": "en", "ng": "en", "m": "mu", "hm": "heng", "hng": "heng", "ê": "ei", "r": "er"}


class Reader:
    """Gives every Chinese character of a sentence its reading in isolation, before tone change."""

    def __init__(self) -> None:
        self._network = PolyphoneNetwork()
        self._phrases = {row[0]: tuple(row[1].split()) for row in tables.rows("phrases.tsv")}
        self._characters = {row[0]: row[1] for row in tables.rows("readings.tsv")}

    def read(self, text: str, tokens: Sequence[Token], pinned: Mapping[int, str]) -> list[tuple[str, ...]]:
        """Reads the words of a sentence.

        Args:
            text: The normalised text that the tokens point into.
            tokens: Its words.
            pinned: Readings that stand fixed, by place in the text.

        Returns:
            For each token its syllables, one per character; empty for marks and Latin words, "" for a character
            without a reading.
        """
        found: list[list[str]] = []
        open_places: list[tuple[int, int, int]] = []
        for index, token in enumerate(tokens):
            if token.tag in {"x", "eng"}:
                found.append([])
                continue
            syllables = list(self.phrase(token.text) or [""] * len(token.text))
            for offset, char in enumerate(token.text):
                place = token.start + offset
                if place in pinned:
                    syllables[offset] = pinned[place]
                elif not syllables[offset]:
                    syllables[offset] = self.character(char)
                    if self._network.knows(char) and char not in self._characters:
                        open_places.append((index, offset, place))
            found.append(syllables)
        scores = self._network.scores(text, [place for _, _, place in open_places])
        for (index, offset, _), by_reading in zip(open_places, scores, strict=True):
            found[index][offset] = max(by_reading, key=by_reading.__getitem__)
        return [tuple(syllables) for syllables in found]

    def phrase(self, word: str) -> tuple[str, ...] | None:
        """Reading of a whole word from the tables, None if they do not have it."""
        own = self._phrases.get(word)
        if own is not None or len(word) < 2:
            return own
        listed = PHRASES_DICT.get(word)
        if listed is None or len(listed) != len(word):
            return None
        return tuple(numbered(syllable[0]) for syllable in listed)

    def character(self, char: str) -> str:
        """The commonest reading of a character, "" if it has none."""
        own = self._characters.get(char)
        if own is not None:
            return own
        listed = PINYIN_DICT.get(ord(char))
        return numbered(listed.split(",")[0]) if listed else ""


@functools.lru_cache(maxsize=16_384)
def numbered(syllable: str) -> str:
    """A syllable with tone marks in digits: hǎo is hao3, lǜ is lv4, ma is ma5.

    Raises:
        KeyError: It is no syllable of Mandarin.
    """
    tone = "5"
    base = ""
    for char in unicodedata.normalize("NFD", syllable):
        if char in _TONE_MARKS:
            tone = _TONE_MARKS[char]
        else:
            base += char
    base = unicodedata.normalize("NFC", base).replace("ü", "v")
    base = _VOWELLESS.get(base, base)
    symbols.syllable(base + tone)
    return base + tone
