"""Tones as spoken: 一 and 不 by what follows, third tones in groups, r-coloured endings."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from deployments.normalization.text import tables

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
        parts: Sizes of the two parts of a word of three syllables or more, () if it has none.
    """

    text: str
    start: int
    tag: str
    pinyin: tuple[str, ...]
    parts: tuple[int, ...] = ()


def change(groups: Sequence[Sequence[Spoken]]) -> list[list[Spoken]]:
    """Applies tone change to one clause.

    Args:
        groups: Its prosodic words, each of words with the readings of their characters; no marks inside.

    Returns:
        The same as spoken.
    """
    words = [word for group in groups for word in group]
    chars = [char for word in words for char in _characters(word)]
    tones = [syllable for word in words for syllable in word.pinyin]
    stays = _stays("".join(char or "x" for char in chars)) if "一" in chars else frozenset()
    for place, char in enumerate(chars):
        if char == "一" and tones[place] == "yi1" and place not in stays:
            tones[place] = _yi(chars, tones, place)
        elif char == "不" and tones[place] == "bu4":
            tones[place] = _bu(chars, tones, place)
    place = 0
    spoken = []
    for group in groups:
        size = sum(len(word.pinyin) for word in group)
        spoken.append(_third_tones(group, tones[place : place + size]))
        place += size
    _rise_before_single(spoken)
    return [_rewrite(group, risen) for group, risen in zip(groups, spoken, strict=True)]


def _rewrite(group: Sequence[Spoken], tones: Sequence[str]) -> list[Spoken]:
    place = 0
    words = []
    for word in group:
        end = place + len(word.pinyin)
        words.append(_coloured(word, tones[place:end]))
        place = end
    return words


def _coloured(word: Spoken, tones: Sequence[str]) -> Spoken:
    """The word with its tones; r5 joins the syllable before it: 这儿 is one syllable, zher4."""
    syllables: list[str] = []
    for syllable in tones:
        if syllable != "r5":
            syllables.append(syllable)
        elif syllables and not syllables[-1].startswith("er"):
            syllables[-1] = syllables[-1][:-1] + "r" + syllables[-1][-1]
        else:
            syllables.append("er2")
    return Spoken(word.text, word.start, word.tag, tuple(syllables), word.parts)


def _characters(word: Spoken) -> list[str]:
    """The character of each syllable; none for Latin words and the like."""
    return list(word.text) if len(word.text) == len(word.pinyin) else [""] * len(word.pinyin)


def _stays(clause: str) -> frozenset[int]:
    """Places of 一 in ordinals and at the end of words."""
    return frozenset(match.start(1) for pattern in _first_tone() for match in pattern.finditer(clause))


@functools.cache
def _first_tone() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row[0]) for row in tables.rows("first_tone.tsv"))


def _yi(chars: Sequence[str], tones: Sequence[str], place: int) -> str:
    before = chars[place - 1] if place else ""
    after = chars[place + 1] if place + 1 < len(chars) else ""
    if place + 1 == len(chars) or _goes_on(chars, place + 1) or before in _NUMERALS:
        return "yi1"
    if before and before == after:
        return "yi5"
    return "yi2" if tones[place + 1][-1] == "4" or tones[place + 1] == "ge5" else "yi4"


def _goes_on(chars: Sequence[str], place: int) -> bool:
    """Whether a number goes on with a digit: 一五, 一点五, but 一点 and 一百 are counted."""
    return chars[place] in _NUMERALS - _LARGE - {"点"} or (
        chars[place] == "点" and place + 1 < len(chars) and chars[place + 1] in _NUMERALS
    )


def _bu(chars: Sequence[str], tones: Sequence[str], place: int) -> str:
    before = chars[place - 1] if place else ""
    after = chars[place + 1] if place + 1 < len(chars) else ""
    if before and before == after != "得" and tones[place - 1][:-1] == tones[place + 1][:-1]:
        return "bu5"
    return "bu2" if place + 1 < len(chars) and tones[place + 1][-1] == "4" else "bu4"


def _third_tones(group: Sequence[Spoken], tones: Sequence[str]) -> list[str]:
    """A third tone before a third tone rises: inside the parts of a word first, then between the words of a group."""
    pieces: list[list[str]] = []
    place = 0
    for word in group:
        sizes = word.parts or (len(word.pinyin),)
        found: list[list[str]] = []
        for size in sizes:
            found.append(_rise(tones[place : place + size]))
            place += size
        pieces.append(_rise([syllable for piece in found for syllable in piece]))
    return _rise_between(pieces)


def _rise_before_single(groups: list[list[str]]) -> None:
    """A group of one syllable leans on the group before it: 买好 before 酒."""
    for left, right in itertools.pairwise(groups):
        if len(right) == 1 and left and left[-1][-1] == "3" and right[0][-1] == "3":
            left[-1] = left[-1][:-1] + "2"


def _rise(tones: Sequence[str]) -> list[str]:
    """From the left, each third tone that stands before one."""
    risen = list(tones)
    for index in range(len(risen) - 1):
        if risen[index][-1] == "3" and risen[index + 1][-1] == "3":
            risen[index] = risen[index][:-1] + "2"
    return risen


def _rise_between(pieces: list[list[str]]) -> list[str]:
    """Between words, from the right: 我很好 keeps 我 because 很 has already risen."""
    for left in range(len(pieces) - 2, -1, -1):
        if not pieces[left] or not pieces[left + 1]:
            continue
        last, first = pieces[left][-1], pieces[left + 1][0]
        if last[-1] == "3" and first[-1] == "3":
            pieces[left][-1] = last[:-1] + "2"
    return [syllable for piece in pieces for syllable in piece]
