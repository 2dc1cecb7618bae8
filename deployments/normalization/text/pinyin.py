"""Readings of words: the caller's own, contexts, phrase tables, then the sentence's polyphones."""

from __future__ import annotations

import functools
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence

from anyascii import anyascii
from opencc import OpenCC

from deployments.normalization.text import symbols, tables
from deployments.normalization.text.contexts import Contexts
from deployments.normalization.text.names import Names
from deployments.normalization.text.polyphone import PolyphoneNetwork
from deployments.normalization.text.segment import FIXED, LATIN, MARK, Segmenter, Token

_TONE_MARKS = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
# Syllables without a vowel, and ê, in the nearest syllable that the phone table has.
_VOWELLESS = {"n": "en", "ng": "en", "m": "mu", "hm": "heng", "hng": "heng", "ê": "ei", "r": "er"}
_MANNER_TAGS = frozenset({"i", "l", "z", "ad", "d", "a", "o", "an"})  # what 地 makes an adverb of
_ACTION_TAGS = frozenset("vpdiz")  # what follows such an adverb
_CITED = {"一": "yi1", "不": "bu4"}
_LONGEST_SPAN = 5  # words that one entry of phrases.tsv may cover


class Reader:
    """Gives every Chinese character of a sentence its reading, before tone change."""

    def __init__(self, segmenter: Segmenter) -> None:
        self._segmenter = segmenter
        self._network = PolyphoneNetwork()
        self._contexts = Contexts()
        self._names = Names()
        # The tables of pypinyin as data: importing the package would build its own segmenter as well.
        folder = tables.package("pypinyin")
        self._listed: dict[str, list[list[str]]] = json.loads((folder / "phrases_dict.json").read_bytes())
        self._single: dict[str, str] = json.loads((folder / "pinyin_dict.json").read_bytes())
        self._phrases = {row[0]: tuple(row[1].split()) for row in tables.rows("phrases.tsv")}
        self._open = frozenset(row[0] for row in tables.rows("open_words.tsv"))
        self._characters = {row[0]: row[1] for row in tables.rows("readings.tsv")}

    def read(self, text: str, tokens: Sequence[Token], pinned: Mapping[int, str]) -> list[tuple[str, ...]]:
        """Reads the words of a sentence.

        Args:
            text: The normalised sentence that the tokens point into.
            tokens: Its words.
            pinned: Readings that stand fixed, by place in the text.

        Returns:
            For each token its syllables, one per character; empty for marks, Latin words and stand-ins, "" for a
            character without a reading.
        """
        han = [token for token in tokens if token.tag not in {LATIN, FIXED, MARK}]
        readings: dict[int, str] = {}
        for token in han:
            for offset, reading in enumerate(self._word(token.text) or ()):
                if reading:
                    readings[token.start + offset] = reading
        decided = self._spans(text, han, readings) | self._whole(han)
        readings.update(self._names.find(text, [token for token in han if not self._is_known(token.text)]))
        _particles(han, readings)
        readings.update((place, one) for place, one in self._contexts.find(text).items() if place not in decided)
        readings.update(pinned)
        self._rest(text, han, readings)
        return [
            tuple(readings.get(token.start + offset, "") for offset in range(len(token.text)))
            if token.tag not in {LATIN, FIXED, MARK}
            else ()
            for token in tokens
        ]

    def _whole(self, tokens: Sequence[Token]) -> set[int]:
        """Places inside words that the tables read as a whole: what stands around such a word says nothing about it."""
        return {
            place
            for token in tokens
            if len(token.text) > 1 and token.text not in self._open and self.phrase(token.text)
            for place in range(token.start, token.start + len(token.text))
        }

    def _spans(self, text: str, tokens: Sequence[Token], readings: dict[int, str]) -> set[int]:
        """Entries of phrases.tsv that cover several words.

        Args:
            text: The sentence.
            tokens: Its words.
            readings: Gets their readings.

        Returns:
            The places that they cover.
        """
        covered: set[int] = set()
        for first in range(len(tokens)):
            start = tokens[first].start
            for last in range(min(first + _LONGEST_SPAN, len(tokens)) - 1, first, -1):
                end = tokens[last].start + len(tokens[last].text)
                own = self._phrases.get(text[start:end])
                if own:
                    readings.update(enumerate(own, start))
                    covered.update(range(start, end) if text[start:end] not in self._open else ())
                    break
        return covered

    def _rest(self, text: str, tokens: Sequence[Token], readings: dict[int, str]) -> None:
        """Characters that no word decides: the only reading they have, or the network's choice."""
        places = []
        for token in tokens:
            for place, char in enumerate(token.text, token.start):
                if place in readings:
                    continue
                if char not in self._characters and self._network.knows(char):
                    places.append(place)
                else:
                    readings[place] = self.character(char)
        readings.update(zip(places, self._network.choose(text, places), strict=True))

    def _word(self, word: str) -> tuple[str, ...] | None:
        """Reading of a word from the tables, whole or from the words it is made of; "" where they leave it open."""
        whole = self.phrase(word)
        if whole or len(word) < 3:
            return whole
        found: list[str] = []
        for part in self._segmenter.parts(word):
            found += self.phrase(part) or [""] * len(part)
        return tuple(found) if any(found) else None

    @functools.lru_cache(maxsize=65_536)  # noqa: B019 - the tables live as long as the process
    def phrase(self, word: str) -> tuple[str, ...] | None:
        """Reading of a whole word from the tables, None if they do not have it."""
        own = self._phrases.get(word)
        if own is not None or len(word) < 2:
            return own
        listed = self._listed.get(word)
        if listed is None or len(listed) != len(word):
            return None
        # The tables give 一 and 不 as spoken in some words; the tone change comes later, where the next word is known.
        return tuple(_CITED.get(char, numbered(syllable[0])) for char, syllable in zip(word, listed, strict=True))

    def _is_known(self, word: str) -> bool:
        """Whether a word begins with one that the tables have, and so not with a family name."""
        return any(self.phrase(word[:size]) for size in range(len(word), 1, -1))

    def character(self, char: str) -> str:
        """The commonest reading of a character, "" if no table has one."""
        own = self._characters.get(char)
        return own if own is not None else self._listed_reading(char) or self._rare(char)

    def _listed_reading(self, char: str) -> str:
        """The first of its listed readings that is a syllable of Mandarin; some rare characters have dialect ones."""
        for syllable in self._single.get(str(ord(char)), "").split(","):
            try:
                return numbered(syllable)
            except KeyError:
                continue
        return ""

    def _rare(self, char: str) -> str:
        """A simplified character of our days reads as the one that it stands for; else a reading without its tone."""
        reading = next(filter(None, map(self._listed_reading, _traditional()(char))), "")
        romanised = anyascii(char).strip().lower()
        return reading or (romanised + "1" if symbols.is_syllable(romanised) else "")


def _particles(tokens: Sequence[Token], readings: dict[int, str]) -> None:
    """地 and 得 standing alone, by the parts of speech around them."""
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        describes = before.tag in _MANNER_TAGS or len(before.text) > 3
        is_manner = token.text == "地" and describes and after.tag[:1] in _ACTION_TAGS
        is_degree = token.text == "得" and (before.tag[:1] in {"v", "a", "b", "z"} or after.tag in {"i", "l", "z"})
        if is_manner or is_degree:
            readings[token.start] = "de5"


@functools.cache
def _traditional() -> Callable[[str], str]:
    """Simplified to traditional; loaded when the first character asks for it, which few texts have."""
    convert: Callable[[str], str] = OpenCC("s2t").convert
    return convert


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
