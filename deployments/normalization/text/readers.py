"""How a group of a reading rule is read: the named readers that rules/*.tsv refer to."""

from __future__ import annotations

import re
from collections.abc import Callable

from deployments.normalization.text import numbers, tables

Reader = Callable[[str], str]

_TOKEN = re.compile(r"[0-9]+|[A-Za-z]+|.", re.DOTALL)
_NUMBER = re.compile(r"[0-9]+")
_DIGIT = re.compile(r"[0-9]")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹ⁿ", "0123456789n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SPAN = re.compile(r"([0-9]+)(\D+)([0-9]+)")
_LONGEST_COUNTED_SPAN = 4


def readers() -> dict[str, Reader]:
    """All readers by name."""
    units = tables.pairs("units.tsv")
    currencies = tables.pairs("currencies.tsv")
    greek = tables.pairs("greek.tsv")
    return {
        "keep": lambda text: text,
        "till": lambda text: "至" if "至" in text else "到",
        "int": numbers.cardinal,
        "number": numbers.number,
        "without_commas": lambda text: text.replace(",", ""),
        "count": numbers.count,
        "spell": numbers.spell,
        "code": _code,
        "plain": _plain,
        "roman": lambda text: numbers.cardinal(str(numbers.roman(text))),
        "unit": lambda text: units.get(text, text),
        "unit_or_keep": lambda text: units.get(text, text),
        "currency": lambda text: currencies.get(text, text),
        "greek": lambda text: greek.get(text, text),
        "clock": lambda text: numbers.count(text.lstrip("0") or "0"),
        "minute": lambda text: "" if text == "00" else numbers.cardinal(text) + "分",
        "minute_value": numbers.cardinal,
        "second": lambda text: numbers.cardinal(text) + "秒",
        "alnum": lambda text: _DIGIT.sub(lambda match: numbers.spell_code(match[0]), text),
        "letters": lambda text: text.replace("/", ""),
        "letter_digits": lambda text: _DIGIT.sub(lambda match: numbers.spell(match[0]), text),
        "dotted": lambda text: "点".join(map(_part, text.split("."))),
        "dotted_spelled": lambda text: "点".join(map(numbers.spell, text.split("."))),
        "dashed": lambda text: "杠".join(map(_part, text.split("-"))),
        "number_or_keep": lambda text: numbers.number(text) if text.isdigit() else text,
        "int_or_keep": lambda text: numbers.cardinal(text) if text.isdigit() else text,
        "count_in_range": lambda text: numbers.count(text) if text == "2" else numbers.number(text),
        "superscript": lambda text: _index(text.translate(_SUPERSCRIPTS)),
        "subscript": lambda text: _index(text.translate(_SUBSCRIPTS)),
        "charge": lambda text: "正" if text == "⁺" else "负",
        "span": _span,
        "each": lambda text: _NUMBER.sub(lambda match: numbers.cardinal(match[0]), text),
        "address": _address(tables.pairs("address.tsv")),
        "path": _address({**tables.pairs("address.tsv"), "/": " ", "\\": " "}),
    }


def _plain(text: str) -> str:
    """A whole number without its leading zeros, as in months: 05 is 五."""
    return numbers.cardinal(text.lstrip("0") or "0")


def _code(text: str) -> str:
    """Digits of a code; one digit alone is no code yet: G1 is G一."""
    return numbers.spell_code(text) if len(text) > 1 else numbers.spell(text)


def _part(text: str) -> str:
    """A part of a version or house number: up to two digits as a number, longer ones digit by digit."""
    return numbers.cardinal(text) if len(text) <= 2 else numbers.spell(text)


def _index(text: str) -> str:
    return numbers.cardinal(text) if text.isdigit() else text


def _span(text: str) -> str:
    """Two numbers and a hyphen: a range where they rise, else a name such as 3-1."""
    match = _SPAN.match(text)
    if match is None:
        return text
    first, last = match[1], match[3]
    rises = int(first) < int(last) and max(len(first), len(last)) <= _LONGEST_COUNTED_SPAN and first[0] != "0"
    if rises:
        return f"{numbers.number(first)}到{numbers.number(last)}"
    return f"{_part(first)}杠{_part(last)}"


def _address(names: dict[str, str]) -> Reader:
    def read(text: str) -> str:
        tokens = _TOKEN.findall(text)
        spell = numbers.spell_code if sum(map(str.isdigit, tokens)) > 1 else _code
        return "".join(spell(token) if token.isdigit() else names.get(token, token) for token in tokens)

    return read
