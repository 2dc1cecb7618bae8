"""What <say-as> makes of its text: words, as the kind that the caller names is read."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Mapping

from deployments.normalization.text import numbers, tables

Read = Callable[[str], str]

NAME = "name"  # read as one word with the family name's own reading, not here
_NUMBER = re.compile(r"[+-]?[0-9][0-9,]*(?:\.[0-9]+)?")
_DIGITS = re.compile(r"[0-9]+")
_LETTER = re.compile(r"[A-Za-z]")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[\s,/()-]+(?=[0-9])|[()]")
_POINT = re.compile(r"(?<=[0-9])\.(?=[0-9])")
_MONTH_AND_DAY = re.compile(r"(1[0-2]|0?[1-9])[-/.](3[01]|[12][0-9]|0?[1-9])")
_ROOM = re.compile(r"[0-9]{3,}$")


def words(kind: str, text: str, read: Read) -> str:
    """A text in words.

    Args:
        kind: A key of KINDS.
        text: As the caller wrote it.
        read: Reads text by the ordinary rules; for what the kind does not decide.

    Returns:
        Chinese words, Latin words and single letters; marks where the kind does not read them.
    """
    return KINDS[kind](unicodedata.normalize("NFKC", text.strip()), read)


def _cardinal(text: str, read: Read) -> str:
    return numbers.number(text) if _NUMBER.fullmatch(text) else read(text)


def _digits(text: str, read: Read) -> str:
    text = _POINT.sub("点", _BETWEEN_DIGITS.sub("", text))
    return read(_DIGITS.sub(lambda match: numbers.spell(match[0]), text))


def _telephone(text: str, read: Read) -> str:
    text = _BETWEEN_DIGITS.sub("", text.replace("+", "加"))
    return read(_DIGITS.sub(lambda match: numbers.spell_code(match[0]), text))


def _id(text: str, _read: Read) -> str:
    return _spelled(text, numbers.spell_code)


def _characters(text: str, _read: Read) -> str:
    return _spelled(text, numbers.spell)


def _punctuation(text: str, read: Read) -> str:
    names = _mark_names()
    parts = re.split(f"([{re.escape(''.join(names))}])", text)
    return "".join(names.get(part) or (read(part) if part.strip() else part) for part in parts)


def _address(text: str, read: Read) -> str:
    return read(_ROOM.sub(lambda match: numbers.spell_code(match[0]), text))


def _date(text: str, read: Read) -> str:
    match = _MONTH_AND_DAY.fullmatch(text)
    if match is None:
        return read(text)
    month, day = (numbers.cardinal(number.lstrip("0")) for number in match.groups())
    return f"{month}月{day}日"


def _currency(text: str, read: Read) -> str:
    return numbers.number(text) + "元" if _NUMBER.fullmatch(text) else read(text)


def _by_rule(text: str, read: Read) -> str:
    return read(text)


KINDS: Mapping[str, Callable[[str, Read], str]] = {
    "cardinal": _cardinal,
    "digits": _digits,
    "telephone": _telephone,
    NAME: _by_rule,
    "address": _address,
    "id": _id,
    "characters": _characters,
    "punctuation": _punctuation,
    "date": _date,
    "time": _by_rule,
    "currency": _currency,
    "measure": _by_rule,
}


def _spelled(text: str, spell: Callable[[str], str]) -> str:
    """Every character by itself: digits, letters and marks by their names."""
    text = "".join(_mark_names().get(char, char) for char in text if not char.isspace())
    text = _DIGITS.sub(lambda match: spell(match[0]), text)
    return _LETTER.sub(lambda match: f" {match[0].upper()} ", text).strip()


@functools.cache
def _mark_names() -> dict[str, str]:
    return tables.pairs("mark_names.tsv")
