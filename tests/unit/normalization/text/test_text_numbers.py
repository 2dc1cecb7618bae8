"""Digits into words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.normalization.text import numbers
from deployments.normalization.text.clean import clean
from deployments.normalization.text.english_numbers import english_amount, english_number
from deployments.normalization.text.normalize import Normalizer

_VALUES = {char: value for value, char in enumerate("零一二三四五六七八九")} | {"两": 2}


def value_of(words: str) -> int:
    """Reads Chinese words back: the inverse of the cardinal."""
    for name, size in (("亿", 10**8), ("万", 10**4), ("千", 1000), ("百", 100), ("十", 10)):
        high, found, low = words.rpartition(name)
        if found:
            return (value_of(high) if high else 1) * size + (value_of(low) if low else 0)
    return int("".join(str(_VALUES[char]) for char in words))


@given(st.integers(0, 10**15))
def test_cardinal_can_be_read_back(value: int) -> None:
    assert value_of(numbers.cardinal(str(value))) == value


@given(st.integers(1, 10**15))
def test_one_zero_for_each_gap(value: int) -> None:
    words = numbers.cardinal(str(value))
    assert "零零" not in words
    assert not words.endswith("零")


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("10", "十"), ("110", "一百一十"), ("2000", "两千"), ("12000", "一万二千"), ("20050", "两万零五十"),
        ("100000005", "一亿零五"), ("1234500000000", "一万二千三百四十五亿"), ("007", "零零七"), ("0", "零"),
        ("123456789012345678901", "一二三四五六七八九零一二三四五六七八九零一"),
    ],
)  # fmt: skip
def test_cardinal(digits: str, words: str) -> None:
    assert numbers.cardinal(digits) == words


def test_readers() -> None:
    assert numbers.spell("2019") == "二零一九"
    assert numbers.spell_code("110") == "幺幺零"
    assert numbers.number("-1234.50") == "负一千二百三十四点五零"
    assert numbers.count("2") == "两"
    assert numbers.count("200") == "两百"
    assert numbers.count("12") == "十二"
    assert numbers.roman("XIV") == 14
    assert numbers.roman("ABC") == 0


@pytest.mark.parametrize(
    ("digits", "words"),
    [
        ("0", "zero"), ("13", "thirteen"), ("42", "forty two"), ("130", "one hundred thirty"),
        ("1998", "nineteen ninety eight"),
        ("1905", "nineteen oh five"), ("2005", "two thousand five"), ("2.5", "two point five"),
        ("007", "zero zero seven"),
        ("1000000", "one million"),
    ],
)  # fmt: skip
def test_english(digits: str, words: str) -> None:
    assert english_number(digits) == words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("$1", "one dollar"),
        ("$5.99", "five dollars ninety nine"),
        ("$2,000.00", "two thousand dollars"),
        ("1,500", "one thousand five hundred"),
        ("8:00", "eight"),
        ("10:05", "ten oh five"),
        ("2.5%", "two point five percent"),
        ("2nd", "second"),
        ("12th", "twelfth"),
        ("20th", "twentieth"),
        ("101st", "one hundred first"),
        ("1998", "nineteen ninety eight"),
    ],
)
def test_english_amounts(written: str, words: str) -> None:
    assert english_amount(written) == words


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The price is $5.99 today.", "The price is five dollars ninety nine today。"),
        ("The 2nd floor opens at 10:05.", "The second floor opens at ten oh five。"),
        ("我有3个apple", "我有三个apple"),
        ("123", "一百二十三"),
    ],
)
def test_numbers_are_english_only_among_english_words(text: str, read: str) -> None:
    tracked, _ = clean(text)
    assert Normalizer().normalize(tracked, english=True).text == read
