"""Latin words into sounds: English phones where the voice has them, Chinese syllables where it has not."""

from __future__ import annotations

import functools
import itertools
import re

from deployments.normalization.text import symbols, tables
from deployments.normalization.text.symbols import Sound

_STRESS = re.compile(r"\d")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VOWELS = re.compile(r"[aeiouy]", re.IGNORECASE)
_LONGEST_ACRONYM = 3  # capitals of this length are letters even where they spell a word: IT, CEO, APP
_MAX_SPELLING = 5


class English:
    """Pronunciation of Latin words. Safe to use from several threads."""

    def __init__(self) -> None:
        # One sorted text with the stretch of every first pair of letters: a tenth of the memory of a mapping.
        self._lexicon = tables.text("english.tsv.gz")
        self._stretches: dict[str, tuple[int, int]] = {}
        for match in re.finditer(r"^([a-z]['a-z\t]).*\n(?:\1.*\n)*", self._lexicon, re.MULTILINE):
            self._stretches[match[1]] = match.span()
        self._own = tables.pairs("english_words.tsv")
        self._letters = {row[0]: row[1:3] for row in tables.rows("letters.tsv")}
        self._spellings = {row[0]: row[1] if len(row) > 1 else "" for row in tables.rows("letter_sounds.tsv")}

    @functools.lru_cache(maxsize=8_192)  # noqa: B019 - one instance lives as long as the process
    def sounds(self, word: str, *, has_english: bool) -> tuple[Sound, ...]:
        """How a Latin word sounds.

        Args:
            word: Letters, perhaps with an apostrophe.
            has_english: Whether the voice was trained on English phones; else the nearest Chinese syllables.

        Returns:
            Its syllables.
        """
        found: list[Sound] = []
        for part in self._parts(word.replace("’", "'")):
            phones = self._phones(part)
            if part == "s" and found:
                found[-1:] = _plural(found[-1], has_english=has_english)
            elif phones:
                found += syllabify(phones) if has_english else approximate(phones)
            else:
                found += self._spell(part, has_english=has_english)
        return tuple(found)

    def _parts(self, word: str) -> list[str]:
        """A word of the lexicon whole; else what its capitals divide: ChatBot, CEOs, iCloud."""
        if self._listed(word.lower()) and not (word.isupper() and len(word) <= _LONGEST_ACRONYM):
            return [word.lower()]
        stem, _, ending = word.partition("'")
        if ending and self._listed(stem.lower()):
            return [stem.lower(), ending]
        if len(word) > 2 and word[-1] == "s" and word[:-1].isupper():
            return [word[:-1], "s"]
        return _PARTS.findall(word)

    def _phones(self, part: str) -> list[str]:
        """ARPAbet of a part, none where it is to be spelled by its letters."""
        if len(part) == 1 or (part.isupper() and len(part) <= _LONGEST_ACRONYM) or not _VOWELS.search(part):
            return []
        listed = self._listed(part.lower())
        if listed:
            return listed.split()
        return [] if part.isupper() or len(part) > 3 * _MAX_SPELLING else self._by_rule(part.lower())

    def _listed(self, word: str) -> str:
        own = self._own.get(word)
        if own:
            return own
        start, end = self._stretches.get(f"{word}\t"[:2], (0, 0))
        place = self._lexicon.find(f"\n{word}\t", start - 1, end) + 1
        if place <= 0:
            return ""
        return self._lexicon[place + len(word) + 1 : self._lexicon.index("\n", place)]

    def _by_rule(self, word: str) -> list[str]:
        marked = f"^{word}$"
        phones: list[str] = []
        place = 1
        while place < len(marked) - 1:
            for size in range(_MAX_SPELLING, 0, -1):
                options = [marked[place : place + size]]
                if place == 1:
                    options.insert(0, marked[: size + 1])
                key = next((option for option in options if option in self._spellings), None)
                if key:
                    phones += self._spellings[key].split()
                    place += len(key.strip("^$"))
                    break
            else:
                place += 1
        return phones

    def _spell(self, part: str, *, has_english: bool) -> list[Sound]:
        letters = [self._letters[char] for char in part.upper() if char in self._letters]
        if has_english:
            return [s for _, name in letters for half in name.split(" . ") for s in syllabify(half.split())]
        return [s for name, _ in letters for pinyin in name.split() for s in symbols.syllable(pinyin)]


def _plural(last: Sound, *, has_english: bool) -> list[Sound]:
    """The plural of letters: CEOs."""
    return [Sound((*last.phones, "z"), last.tone)] if has_english else [last, *symbols.syllable("si5")]


def syllabify(phones: list[str]) -> tuple[Sound, ...]:
    """Divides ARPAbet phones into syllables: each consonant joins the vowel after it as far as English allows.

    Args:
        phones: With stress digits on the vowels, as in the lexicon.

    Returns:
        One sound per vowel; its phones all carry its stress, tone1 for primary, tone0 else.
    """
    return tuple(
        Sound(
            tuple(_STRESS.sub("", phone).lower() for phone in syllable),
            "tone1" if any(phone.endswith("1") for phone in syllable) else "tone0",
        )
        for syllable in _syllables(phones)
    )


def _syllables(phones: list[str]) -> list[list[str]]:
    vowels = [place for place, phone in enumerate(phones) if phone[-1].isdigit()]
    if not vowels:
        return [phones] if phones else []
    starts = [0]
    for left, right in itertools.pairwise(vowels):
        starts.append(right - _onset(phones[left + 1 : right]))
    ends = [*starts[1:], len(phones)]
    return [phones[start:end] for start, end in zip(starts, ends, strict=True)]


def _onset(consonants: list[str]) -> int:
    """How many of the consonants between two vowels begin the second syllable."""
    for size in (3, 2):
        if len(consonants) >= size and " ".join(consonants[-size:]) in _onsets():
            return size
    return 0 if not consonants or consonants[-1] == "NG" else 1


@functools.cache
def _onsets() -> frozenset[str]:
    return frozenset(row[0] for row in tables.rows("onsets.tsv"))


def approximate(phones: list[str]) -> list[Sound]:
    """English sounds in the nearest Chinese syllables, for voices that know no others.

    Args:
        phones: ARPAbet with stress digits.

    Returns:
        Chinese syllables: stressed ones in the first tone, others in the fourth, lone consonants neutral.
    """
    found: list[Sound] = []
    for syllable in _syllables(phones):
        vowel = next((place for place, phone in enumerate(syllable) if phone[-1].isdigit()), len(syllable))
        onset, coda = syllable[:vowel], syllable[vowel + 1 :]
        for phone in onset[:-1] if vowel < len(syllable) else onset:
            found += symbols.syllable(_chinese("alone")[phone] + "5")
        if vowel < len(syllable):
            core, used = _core(onset[-1] if onset else "", syllable[vowel], coda)
            found += symbols.syllable(core)
            coda = coda[used:]
        for phone in coda:
            found += symbols.syllable(_chinese("alone")[phone] + "5")
    return found


def _core(consonant: str, vowel: str, coda: list[str]) -> tuple[str, int]:
    """The Chinese syllable of a vowel with the consonant before it, and how many consonants after it are in it."""
    tone = "1" if vowel.endswith("1") else "4"
    bare = _STRESS.sub("", vowel)
    finals = _chinese("final")
    with_nasal = finals.get(f"{bare} {coda[0]}") if coda else None
    for choices, used in ((with_nasal, 1), (finals[bare], 0)):
        for final in choices.split() if choices else ():
            whole = _chinese("syllable").get(f"{consonant} {final}")
            candidate = whole or _with_initial(_chinese("initial").get(consonant, ""), final)
            if symbols.is_syllable(candidate):
                return candidate + tone, used
    return _chinese("alone").get(consonant, "e") + tone, 0


def _with_initial(initial: str, final: str) -> str:
    if initial:
        return initial + final
    return {"i": "yi", "in": "yin", "ing": "ying", "u": "wu", "un": "wen", "uo": "wo", "ong": "weng"}.get(final, final)


@functools.cache
def _chinese(kind: str) -> dict[str, str]:
    return {row[1]: row[2] for row in tables.rows("approximations.tsv") if row[0] == kind}
