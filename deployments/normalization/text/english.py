"""Latin words into sounds: English phones where the voice has them, Chinese syllables where it has not."""

from __future__ import annotations

import functools
import itertools
import re

from deployments.normalization.text import symbols, tables
from deployments.normalization.text.symbols import Sound

_STRESS = re.compile(r"\d")


class English:
    """Pronunciation of Latin words."""

    def __init__(self) -> None:
        self._lexicon = tables.pairs("english.tsv.gz")
        self._letters = {row[0]: row[1:3] for row in tables.rows("letters.tsv")}

    def sounds(self, word: str, *, has_english: bool) -> tuple[Sound, ...]:
        """How a Latin word sounds.

        Args:
            word: Letters, perhaps with an apostrophe.
            has_english: Whether the voice was trained on English phones.

        Returns:
            Its syllables.
        """
        if has_english:
            listed = None if word.isupper() else self._lexicon.get(word.lower())
            if listed:
                return syllabify(listed.split())
            return tuple(sound for letter in self._spelled(word) for sound in _letter(self._letters[letter][1]))
        return tuple(
            sound
            for letter in self._spelled(word)
            for pinyin in self._letters[letter][0].split()
            for sound in symbols.syllable(pinyin)
        )

    def _spelled(self, word: str) -> str:
        return "".join(char for char in word.upper() if char in self._letters)


def _letter(phones: str) -> tuple[Sound, ...]:
    return tuple(sound for part in phones.split(" . ") for sound in syllabify(part.split()))


def syllabify(phones: list[str]) -> tuple[Sound, ...]:
    """Divides ARPAbet phones into syllables: each consonant joins the vowel after it as far as English allows.

    Args:
        phones: With stress digits on the vowels, as in the lexicon.

    Returns:
        One sound per vowel; its phones all carry its stress, tone1 for primary, tone0 else.
    """
    vowels = [place for place, phone in enumerate(phones) if phone[-1].isdigit()]
    if not vowels:
        return (Sound(tuple(phone.lower() for phone in phones), "tone0"),) if phones else ()
    starts = [0]
    for left, right in itertools.pairwise(vowels):
        starts.append(right - _onset(phones[left + 1 : right]))
    ends = [*starts[1:], len(phones)]
    return tuple(
        Sound(
            tuple(_STRESS.sub("", phone).lower() for phone in phones[start:end]),
            "tone1" if phones[vowel].endswith("1") else "tone0",
        )
        for start, end, vowel in zip(starts, ends, vowels, strict=True)
    )


def _onset(consonants: list[str]) -> int:
    """How many of the consonants between two vowels begin the second syllable."""
    for size in (3, 2):
        if len(consonants) >= size and " ".join(consonants[-size:]) in _onsets():
            return size
    return 0 if not consonants or consonants[-1] == "NG" else 1


@functools.cache
def _onsets() -> frozenset[str]:
    return frozenset(row[0] for row in tables.rows("onsets.tsv"))
