"""Cuts text into words with parts of speech: jieba's dictionary and model of unknown words, no cache file."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.resources import files

import jieba.finalseg

from deployments.normalization.text import tables

_PIECE = re.compile(r"([㐀-鿿豈-﫿𠀀-𳎯]+)|([A-Za-z]+(?:['’][A-Za-z]+)*)|(.)", re.DOTALL)
_NUMERALS = frozenset("零一二三四五六七八九十百千万亿两幺点半")
_UNKNOWN_FREQUENCY = 1


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a mark of the normalised text.

    Attributes:
        text: As in the normalised text.
        start: Its place there.
        tag: Part of speech in jieba's tag set, "eng" for Latin words, "x" for marks.
    """

    text: str
    start: int
    tag: str


class Segmenter:
    """Word segmentation. Safe to use from several threads: nothing changes after construction."""

    def __init__(self) -> None:
        self._frequency: dict[str, int] = {}
        self._tags: dict[str, str] = {}
        self._longest: dict[str, int] = {}
        lines = (files("jieba") / "dict.txt").read_text(encoding="utf-8").splitlines()
        own = (row[:3] for row in tables.rows("words.tsv"))
        for word, frequency, tag in (*map(str.split, lines), *own):
            self._frequency[word] = int(frequency)
            self._tags[word] = tag
            if len(word) > self._longest.get(word[0], 0):
                self._longest[word[0]] = len(word)
        self._log_total = math.log(sum(self._frequency.values()))

    def tag(self, word: str) -> str:
        """Part of speech of a word, "" if unknown."""
        return self._tags.get(word, "")

    def knows(self, word: str) -> bool:
        """Whether the dictionary has a word."""
        return self._frequency.get(word, 0) > 0

    def cut(self, text: str) -> list[Token]:
        """Words and marks of a text, in order and without gaps except blanks.

        Args:
            text: Normalised text.

        Returns:
            Its tokens.
        """
        tokens = []
        for match in _PIECE.finditer(text):
            start = match.start()
            if match[1]:
                for word in self._cut_han(match[1]):
                    tokens.append(Token(word, start, self._tags.get(word) or _guess_tag(word)))
                    start += len(word)
            elif match[2]:
                tokens.append(Token(match[2], start, "eng"))
            elif match[3] != " ":
                tokens.append(Token(match[3], start, "x"))
        return tokens

    def _cut_han(self, run: str) -> list[str]:
        words: list[str] = []
        unknown = ""
        for word in self._best_path(run):
            if len(word) == 1 and word not in _NUMERALS:
                unknown += word
                continue
            words += self._cut_unknown(unknown)
            unknown = ""
            words.append(word)
        return words + self._cut_unknown(unknown)

    def _best_path(self, run: str) -> list[str]:
        """The most probable division into words of the dictionary."""
        size = len(run)
        score = [0.0] * (size + 1)
        step = [1] * size
        for start in range(size - 1, -1, -1):
            best = -math.inf
            for end in range(start + 1, min(size, start + self._longest.get(run[start], 1)) + 1):
                frequency = self._frequency.get(run[start:end], 0)
                if not frequency:
                    if end > start + 1:
                        continue
                    frequency = _UNKNOWN_FREQUENCY
                value = math.log(frequency) - self._log_total + score[end]
                if value >= best:
                    best, step[start] = value, end - start
            score[start] = best
        words = []
        start = 0
        while start < size:
            words.append(run[start : start + step[start]])
            start += step[start]
        return words

    def _cut_unknown(self, run: str) -> list[str]:
        """Single characters left in a row may be a name or a new word."""
        if len(run) < 2 or run in self._frequency:
            return list(run)
        return list(jieba.finalseg.cut(run))


def _guess_tag(word: str) -> str:
    return "m" if all(char in _NUMERALS for char in word) else "n"
