"""Text in which some places have a reading of their own: what the front end takes when markup says how to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deployments.normalization.text import say_as
from deployments.normalization.text.clean import INLINE_PINYIN
from deployments.normalization.text.lexicon import MAX_STAND_INS, Entry, stand_in
from deployments.normalization.text.ssml_document import Piece
from deployments.normalization.text.ssml_values import syllables
from deployments.normalization.text.tracked import Tracked

_HAN = re.compile("[\u4e00-\u9fff]+")
# Stands for nothing in a text of the caller's: only this module may put it there.
_PRIVATE = re.compile("[\ue000-\uf8ff]")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text on its way into the front end.

    Attributes:
        source: The caller's characters.
        tracked: What is read; its origins are places in the source.
        fixed: What the private characters in it stand for.
        pinned: Readings of single characters, by place in the source.
    """

    source: str
    tracked: Tracked
    fixed: Mapping[str, Entry]
    pinned: Mapping[int, str]

    @classmethod
    def plain(cls, text: str) -> MarkedText:
        """A text without any markup."""
        return cls(text, Tracked.of(text), {}, {})


class Words(Protocol):
    """What single words need of the front end."""

    def word(self, text: str, *, is_name: bool = False) -> Entry | None:
        """A text read as one word, None where it is not written in Chinese characters alone."""

    def in_words(self, text: str, *, english: bool) -> str:
        """A text by the ordinary reading rules."""


def mark(pieces: Sequence[Piece], words: Words, *, english: bool) -> MarkedText:
    """Joins the pieces of a stretch into one text.

    Args:
        pieces: In order.
        words: Reads single words.
        english: Whether the voice knows English phones.
    """
    marking = _Marking(words, english=english)
    for piece in pieces:
        marking.add(piece)
    return marking.done()


class _Marking:
    def __init__(self, words: Words, *, english: bool) -> None:
        self._words = words
        self._english = english
        self._source = ""
        self._text: list[str] = []
        self._origins: list[int] = []
        self._fixed: dict[str, Entry] = {}
        self._pinned: dict[int, str] = {}
        self._adders: dict[str, Callable[[Piece], None]] = {
            "text": self._plain,
            "phoneme": self._phoneme,
            "sub": lambda piece: self._instead(piece.value),
            "w": lambda piece: self._word(piece, is_name=False),
            "say-as": self._say_as,
        }

    def add(self, piece: Piece) -> None:
        self._adders[piece.kind](piece)
        self._source += piece.text

    def done(self) -> MarkedText:
        """The text without blanks at its ends."""
        begin = len(self._source) - len(self._source.lstrip())
        source = self._source.strip()
        last = max(len(source) - 1, 0)
        origins = tuple(min(max(origin - begin, 0), last) for origin in self._origins)
        pinned = {place - begin: syllable for place, syllable in self._pinned.items()}
        return MarkedText(source, Tracked("".join(self._text), origins), self._fixed, pinned)

    def _plain(self, piece: Piece) -> None:
        begin = len(self._source)
        for place, char in enumerate(piece.text, begin):
            if not _PRIVATE.match(char):
                self._text.append(char)
                self._origins.append(place)

    def _phoneme(self, piece: Piece) -> None:
        """Characters keep their place in the words around them where each has its syllable; else they are one word."""
        readings = piece.value.split()
        if _HAN.fullmatch(piece.text) and len(readings) == len(piece.text):
            self._pinned |= dict(enumerate(readings, len(self._source)))
            self._plain(piece)
        else:
            self._fix(Entry(piece.text, tuple(readings)))

    def _word(self, piece: Piece, *, is_name: bool) -> None:
        entry = self._words.word(piece.text, is_name=is_name)
        if entry is None:
            self._plain(piece)
        else:
            self._fix(entry)

    def _say_as(self, piece: Piece) -> None:
        if piece.value == say_as.NAME:
            self._word(piece, is_name=True)
        else:
            self._instead(say_as.words(piece.value, piece.text, self._read))

    def _instead(self, words: str) -> None:
        """Words in the place of the piece's text; readings may stand beside their characters: 行[hang2]."""
        done = 0
        for match in INLINE_PINYIN.finditer(words):
            try:
                reading = syllables(match[2])
            except ValueError:
                continue
            self._append(words[done : match.start()])
            self._fix(Entry(match[1], reading))
            done = match.end()
        self._append(words[done:])

    def _append(self, words: str) -> None:
        kept = _PRIVATE.sub("", words)
        self._text.append(kept)
        self._origins += [len(self._source)] * len(kept)

    def _fix(self, entry: Entry) -> None:
        if len(self._fixed) >= MAX_STAND_INS:
            self._append(entry.text)
            return
        char = stand_in(len(self._fixed))
        self._fixed[char] = entry
        self._text.append(char)
        self._origins.append(len(self._source))

    def _read(self, text: str) -> str:
        return self._words.in_words(text, english=self._english)
