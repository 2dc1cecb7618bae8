"""Syllables and prosodic words into the items that the acoustic model reads."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from deployments.normalization.text import tables

_RESPELLED_U = re.compile(r"^([jqxy])u(?!o)")
_TONES = frozenset({"tone1", "tone2", "tone3", "tone4", "tone5"})
_R_COLOURED = re.compile(r"^(?!er$)(.+)r$")


@dataclass(frozen=True, slots=True)
class Sound:
    """One syllable, Chinese or English.

    Attributes:
        phones: In order, as in the phone table.
        tone: "tone1" to "tone5", in English "tone1" or "tone0".
    """

    phones: tuple[str, ...]
    tone: str


@functools.lru_cache(maxsize=8_192)
def syllable(pinyin: str) -> tuple[Sound, ...]:
    """Phones of a syllable with its tone.

    Args:
        pinyin: Such as hao3, lv4, ju1, dianr3; tone 5 is neutral.

    Returns:
        One sound; two for an r-coloured syllable whose final has no r-coloured phone.

    Raises:
        KeyError: It is no syllable of Mandarin.
    """
    base, tone = pinyin[:-1], "tone" + pinyin[-1:]
    if tone not in _TONES:
        raise KeyError(pinyin)
    phones = _phones(base)
    if phones is not None:
        return (Sound(phones, tone),)
    r_coloured = _R_COLOURED.match(base)
    plain = _phones(r_coloured[1]) if r_coloured else None
    if plain is None:
        raise KeyError(pinyin)
    coloured = plain[-1].removesuffix("_c") + "r_c"
    if coloured in _r_coloured_finals():
        return (Sound((*plain[:-1], coloured), tone),)
    return Sound(plain, tone), Sound(("ge", "er_c"), "tone5")


def is_syllable(base: str) -> bool:
    """Whether a syllable without its tone has phones."""
    return _phones(base) is not None


def _phones(base: str) -> tuple[str, ...] | None:
    return _table().get(_RESPELLED_U.sub(r"\1v", base))


@functools.cache
def _table() -> dict[str, tuple[str, ...]]:
    return {base: tuple(phones.split()) for base, phones in tables.pairs("syllables.tsv").items()}


@functools.cache
def _r_coloured_finals() -> frozenset[str]:
    return frozenset(phones[-1] for base, phones in _table().items() if base != "er" and base.endswith("r"))


@functools.lru_cache(maxsize=16_384)
def items(sounds: tuple[Sound, ...], break_after: str, emotion: str, speaker: str) -> tuple[str, ...]:
    """Items of one prosodic word and the break after it.

    Args:
        sounds: Of all its words.
        break_after: "#1" to "#4", or "" for none.
        emotion: Without the prefix "emotion_".
        speaker: Its name in the voice's speaker list.

    Returns:
        One item per phone, then the break.
    """
    phones = [
        (phone, sound.tone, flag)
        for sound in sounds
        for phone, flag in zip(sound.phones, _places(len(sound.phones), "s"), strict=True)
    ]
    found = [
        f"{{{phone}${tone}${flag}${word_flag}$emotion_{emotion}${speaker}}}"
        for (phone, tone, flag), word_flag in zip(phones, _places(len(phones), "word"), strict=True)
    ]
    if break_after:
        found.append(f"{{{break_after}$tone_none$s_none$word_none$emotion_none${speaker}}}")
    return tuple(found)


def _places(length: int, kind: str) -> list[str]:
    if length == 1:
        return [f"{kind}_both"]
    return [f"{kind}_begin", *[f"{kind}_middle"] * (length - 2), f"{kind}_end"]
