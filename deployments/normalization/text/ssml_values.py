"""What the attributes of SSML mean: Aliyun's numbers, and the words, percentages and units of W3C's SSML 1.1.

A rate of 500 is twice and one of -500 half the normal speed; between, 1/speed falls evenly on either side of 0, so that
-125 is 0.8 and 167 is 1.2 times the normal one. A pitch of 500 is an octave up; a volume of 50 is the normal one.
Everything else is a ratio (rate, volume) or a shift (pitch).
"""

from __future__ import annotations

import functools
import math
import re

from deployments.normalization.text import symbols, tables

MAX_BREAK_S = 10.0
_NUMBER = re.compile(r"([+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?)(%|st|dB|ms|s)?")
_OCTAVE = 12.0


def speed(text: str) -> float:
    """A rate as a factor on the speed: -500 to 500, a percentage, or a word.

    Raises:
        ValueError: It is none of them; says what is accepted.
    """
    accepted = "-500 to 500, a percentage such as 120% or +20%, or x-slow, slow, medium, fast, x-fast"
    number, unit = _split(text, "rate", accepted)
    if unit == "%":
        number = _ratio(text, number)
    elif not unit:
        number = 1 / (1 - _within(number, -500, 500, accepted) * (0.001 if number > 0 else 0.002))
    elif unit != "word":
        raise ValueError(accepted)
    return _within(number, 0.25, 4.0, "a speed of 0.25 to 4 times the normal one")


def semitones(text: str) -> float:
    """A pitch as semitones up or down: -500 to 500, semitones such as +2st, a percentage, or a word.

    Raises:
        ValueError: It is none of them; says what is accepted.
    """
    accepted = "-500 to 500, semitones such as +2st, a percentage such as -10%, or x-low, low, medium, high, x-high"
    number, unit = _split(text, "pitch", accepted)
    if unit == "%":
        number = _OCTAVE * math.log2(max(_ratio(text, number), 1e-3))
    elif not unit:
        number = _within(number, -500, 500, accepted) / 500 * _OCTAVE
    elif unit not in {"st", "word"}:
        raise ValueError(accepted)
    return _within(number, -12.0, 12.0, "a pitch of at most an octave up or down")


def volume(text: str) -> float:
    """A volume as a factor: 0 to 100 (50 is the normal one), decibels such as -6dB, a percentage, or a word.

    Raises:
        ValueError: It is none of them; says what is accepted.
    """
    accepted = (
        "0 to 100, decibels such as -6dB, a percentage such as +20%, or silent, x-soft, soft, medium, loud, x-loud"
    )
    number, unit = _split(text, "volume", accepted)
    if unit == "%":
        number = _ratio(text, number)
    elif unit == "dB":
        number = 10 ** (number / 20)
    elif not unit:
        number = _within(number, 0, 100, accepted) / 50
    elif unit != "word":
        raise ValueError(accepted)
    return _within(number, 0.0, 2.0, "a volume of at most twice the normal one")


def seconds(text: str) -> float:
    """The length of a break, such as 500ms or 1.5s.

    Raises:
        ValueError: It has no unit, or is longer than MAX_BREAK_S.
    """
    accepted = f"0 to {MAX_BREAK_S:g} seconds with their unit, such as 500ms or 1.5s"
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in {"ms", "s"}:
        raise ValueError(accepted)
    return _within(float(match[1]) / (1000 if match[2] == "ms" else 1), 0.0, MAX_BREAK_S, accepted)


def strength(text: str) -> float:
    """The length of a break by its strength, seconds.

    Raises:
        ValueError: It is no word of the table.
    """
    try:
        return _words()["strength", text.strip()]
    except KeyError:
        raise ValueError("none, x-weak, weak, medium, strong or x-strong") from None


def intensity(text: str) -> float:
    """How strong an emotion is, 0.01 to 2.

    Raises:
        ValueError: It is no such number.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2]:
        raise ValueError("0.01 to 2.0")
    return _within(float(match[1]), 0.01, 2.0, "0.01 to 2.0")


def syllables(text: str) -> tuple[str, ...]:
    """Pinyin with tones, such as ni3 hao3; ü may be written v, u: or ü.

    Raises:
        ValueError: There is none, or one is no syllable of Mandarin.
    """
    found = tuple(text.lower().replace("u:", "v").replace("ü", "v").split())
    for syllable in found:
        try:
            symbols.syllable(syllable)
        except KeyError:
            raise ValueError(f"pinyin with tones, such as hang2; {syllable!r} is no syllable") from None
    if not found:
        raise ValueError("pinyin with tones, such as ni3 hao3")
    return found


def _split(text: str, attribute: str, accepted: str) -> tuple[float, str]:
    """A number and its unit; the unit "word" for a word of the table."""
    stripped = text.strip()
    word = _words().get((attribute, stripped.lower()))
    if word is not None:
        return word, "word"
    match = _NUMBER.fullmatch(stripped)
    if match is None:
        raise ValueError(accepted)
    return float(match[1]), match[2] or ""


def _ratio(text: str, percent: float) -> float:
    """+20% is a change, 120% a ratio; both are 1.2."""
    return percent / 100 + (1.0 if text.strip()[0] in "+-" else 0.0)


def _within(number: float, low: float, high: float, accepted: str) -> float:
    if not low <= number <= high:
        raise ValueError(accepted)
    return number


@functools.cache
def _words() -> dict[tuple[str, str], float]:
    return {(attribute, word): float(value) for attribute, word, value, *_ in tables.rows("ssml_words.tsv")}
