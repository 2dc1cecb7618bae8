"""Cuts text into words with parts of speech: jieba's dictionary and model of unknown words, no cache file."""

from __future__ import annotations

import itertools
import math
import re
import sys
from dataclasses import dataclass

import jieba.finalseg

from deployments.normalization.text import tables

# Runs of Chinese characters; Latin words, of which none has more than 32 letters; stand-ins of fixed entries; marks.
_PIECE = re.compile(
    r"([\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+)"
    r"|([A-Za-z]{1,32}(?:['’][A-Za-z]{1,8}(?![A-Za-z]))?)|([\ue000-\uf8ff])|(.)",
    re.DOTALL,
)
LATIN = "latin"  # tag of a Latin word
MARK = "mark"  # tag of anything that is no word
FIXED = "fixed"  # tag of a character that stands for an entry with a fixed reading
_DIGITS = re.compile("[零幺一二三四五六七八九]{4,}")
_GROUPS = {5: [2, 3], 6: [3, 3], 7: [3, 4], 9: [3, 3, 3], 10: [3, 3, 4], 11: [3, 4, 4]}
_NUMERALS = frozenset("零一二三四五六七八九十百千万亿两幺点半")


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a mark of the normalised text.

    Attributes:
        text: As in the normalised text.
        start: Its place there.
        tag: Part of speech in jieba's tag set, LATIN, FIXED or MARK.
    """

    text: str
    start: int
    tag: str


class Segmenter:
    """Word segmentation. Safe to use from several threads: nothing changes after construction."""

    def __init__(self) -> None:
        # Words, counts and tags in turn; all words of the file, then the front end's own, which win.
        fields = (tables.package("jieba") / "dict.txt").read_text(encoding="utf-8").split()
        fields += [column for row in tables.rows("words.tsv") for column in row[:3]]
        counts = dict(zip(fields[0::3], map(int, fields[1::3]), strict=True))
        self._tags = dict(zip(fields[0::3], map(sys.intern, fields[2::3]), strict=True))
        self._log_total = math.log(sum(counts.values()))
        # What a word costs: minus the logarithm of its probability. A word that is not known costs as one seen once.
        costs = {count: self._log_total - math.log(count) for count in set(counts.values()) if count}
        self._cost = {word: costs[count] for word, count in counts.items() if count}
        self._surnames = frozenset(row[0] for row in tables.rows("common_surnames.tsv"))
        self._functions = frozenset(row[0] for row in tables.rows("function_characters.tsv"))
        self._longest: dict[str, int] = {}
        for word in self._cost:
            if len(word) > self._longest.get(word[0], 0):
                self._longest[word[0]] = len(word)

    def tag(self, word: str) -> str:
        """Part of speech of a word, "" if unknown."""
        return self._tags.get(word, "")

    def knows(self, word: str) -> bool:
        """Whether the dictionary has a word."""
        return word in self._cost

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
                    tokens.append(Token(word, start, self._tags.get(word) or self._guess_tag(word)))
                    start += len(word)
            elif match[2]:
                tokens.append(Token(match[2], start, LATIN))
            elif match[3]:
                tokens.append(Token(match[3], start, FIXED))
            elif match[4] != " ":
                tokens.append(Token(match[4], start, MARK))
        return tokens

    def parts(self, word: str) -> list[str]:
        """The shorter words of the dictionary that a long word is made of."""
        return self._best_path(word, whole=False)

    def _cut_han(self, run: str) -> list[str]:
        words: list[str] = []
        done = 0
        for match in _DIGITS.finditer(run):
            words += self._cut_words(run[done : match.start()]) + _chunks(match[0])
            done = match.end()
        return words + self._cut_words(run[done:])

    def _cut_words(self, run: str) -> list[str]:
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

    def _best_path(self, run: str, *, whole: bool = True) -> list[str]:
        """The most probable division into words of the dictionary; without `whole`, into at least two."""
        size = len(run)
        score = [0.0] * (size + 1)
        step = [1] * size
        for start in range(size - 1, -1, -1):
            best = -math.inf
            for end in range(start + 1, min(size, start + self._longest.get(run[start], 1)) + 1):
                cost = self._cost.get(run[start:end])
                if cost is None:
                    if end > start + 1:
                        continue
                    cost = self._log_total
                elif not whole and end - start == size > 1:
                    continue
                value = score[end] - cost
                if value >= best:
                    best, step[start] = value, end - start
            score[start] = best
        words = []
        start = 0
        while start < size:
            words.append(run[start : start + step[start]])
            start += step[start]
        return words

    def _guess_tag(self, word: str) -> str:
        if all(char in _NUMERALS for char in word):
            return "m"
        if len(word) > 1 and word[0] in self._surnames:
            return "nr" if len(word) > 2 else "nrt"  # two characters may as well be no name
        return "n"

    def _cut_unknown(self, run: str) -> list[str]:
        """Single characters left in a row may be a name or a new word."""
        if len(run) < 2 or run in self._cost:
            return list(run)
        words: list[str] = []
        for word in jieba.finalseg.cut(run):
            # The model of unknown words is good at names and bad at the rest.
            words += (
                [word]
                if 1 < len(word) < 4 and word[0] in self._surnames and not self._functions & set(word)
                else list(word)
            )
        return words


def _chunks(digits: str) -> list[str]:
    """A number said digit by digit, in the groups in which people say it: a mobile number is 3, 4, 4."""
    size = len(digits)
    sizes = _GROUPS.get(size) or [4] * (size // 4) + [size % 4] * (size % 4 > 0)
    ends = list(itertools.accumulate(sizes))
    return [digits[end - length : end] for end, length in zip(ends, sizes, strict=True)]
