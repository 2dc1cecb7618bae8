"""Tones as spoken: 一 and 不 by what follows, third tones in groups, r-coloured endings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

_NUMERALS = frozenset("零一二三四五六七八九十百千万亿两幺点")
_LARGE = frozenset("百千万亿")


@dataclass(frozen=True, slots=True)
class Spoken:
    """A word with its syllables.

    Attributes:
        text: As in the normalised text.
        start: Its place there.
        tag: Part of speech.
        pinyin: One syllable per character, fewer where an ending is r-coloured.
    """

    text: str
    start: int
    tag: str
    pinyin: tuple[str, ...]


def change(words: Sequence[Spoken]) -> list[Spoken]:
    """Applies tone change to the words of one clause (no marks inside).

    Args:
        words: With the readings of their characters.

    Returns:
        The same words as spoken.
    """
    chars = [char for word in words for char in _characters(word)]
    tones = [syllable for word in words for syllable in word.pinyin]
    for place, char in enumerate(chars):
        if char == "一" and tones[place] == "yi1":
            tones[place] = _yi(chars, tones, place)
        elif char == "不" and tones[place] == "bu4":
            tones[place] = _bu(chars, tones, place)
    _third_tones(words, tones)
    changed = []
    place = 0
    for word in words:
        end = place + len(word.pinyin)
        changed.append(Spoken(word.text, word.start, word.tag, tuple(tones[place:end])))
        place = end
    return changed


def _characters(word: Spoken) -> list[str]:
    """The character of each syllable; none for Latin words and the like."""
    return list(word.text) if len(word.text) == len(word.pinyin) else [""] * len(word.pinyin)


def _yi(chars: Sequence[str], tones: Sequence[str], place: int) -> str:
    before = chars[place - 1] if place else ""
    after = chars[place + 1] if place + 1 < len(chars) else ""
    if place + 1 == len(chars) or before == "第" or after in _NUMERALS - _LARGE or before in _NUMERALS:
        return "yi1"
    if before and before == after:
        return "yi5"
    return "yi2" if tones[place + 1][-1] == "4" or tones[place + 1] == "ge5" else "yi4"


def _bu(chars: Sequence[str], tones: Sequence[str], place: int) -> str:
    before = chars[place - 1] if place else ""
    after = chars[place + 1] if place + 1 < len(chars) else ""
    if before and before == after:
        return "bu5"
    return "bu2" if place + 1 < len(chars) and tones[place + 1][-1] == "4" else "bu4"


def _third_tones(words: Sequence[Spoken], tones: list[str]) -> None:
    """A third tone before a third tone rises: first inside words, then across them from the left in pairs."""
    place = 0
    for word in words:
        end = place + len(word.pinyin)
        for index in range(place, end - 1):
            if tones[index][-1] == "3" and tones[index + 1][-1] == "3":
                tones[index] = tones[index][:-1] + "2"
        place = end
    place = 0
    for word, following in itertools.pairwise(words):
        place += len(word.pinyin)
        last, first = tones[place - 1], tones[place]
        if last[-1] == "3" and first[-1] == "3" and (len(word.pinyin) == 1 or len(following.pinyin) == 1):
            tones[place - 1] = last[:-1] + "2"


def r_colour(words: Sequence[Spoken]) -> list[Spoken]:
    """Joins 儿 read r5 to the syllable before it: 这儿 is one syllable, zher4."""
    joined: list[Spoken] = []
    for word in words:
        syllables: list[str] = []
        for syllable in word.pinyin:
            if syllable == "r5" and syllables and not syllables[-1].startswith("er"):
                syllables[-1] = syllables[-1][:-1] + "r" + syllables[-1][-1]
            else:
                syllables.append("er2" if syllable == "r5" else syllable)
        joined.append(Spoken(word.text, word.start, word.tag, tuple(syllables)))
    return joined
