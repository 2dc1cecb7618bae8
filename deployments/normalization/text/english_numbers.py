"""Numbers in English words, for numbers inside English sentences."""

from __future__ import annotations

from deployments.normalization.text import tables

_SMALL = [row[0] for row in tables.rows("english_small.tsv")]
_TENS = [row[0] for row in tables.rows("english_tens.tsv")]
_SCALES = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"), (100, "hundred"))


def english_number(digits: str) -> str:
    """A whole or decimal number in English; years by pairs of digits.

    >>> english_number("1998"), english_number("2.5"), english_number("130")
    ('nineteen ninety eight', 'two point five', 'one hundred thirty')
    """
    whole, point, decimals = digits.partition(".")
    if point:
        return f"{_words(int(whole))} point {' '.join(_SMALL[int(digit)] for digit in decimals)}"
    if whole.startswith("0") or len(whole) > 9:
        return " ".join(_SMALL[int(digit)] for digit in whole)
    value = int(whole)
    if 1100 <= value < 2000 or 2010 <= value < 2100:
        century, year = divmod(value, 100)
        rest = "hundred" if year == 0 else f"oh {_SMALL[year]}" if year < 10 else _words(year)
        return f"{_words(century)} {rest}"
    return _words(value)


def _words(value: int) -> str:
    if value < 20:
        return _SMALL[value]
    if value < 100:
        tens, ones = divmod(value, 10)
        return _TENS[tens] + (f" {_SMALL[ones]}" if ones else "")
    size, name = next((size, name) for size, name in _SCALES if value >= size)
    high, rest = divmod(value, size)
    return f"{_words(high)} {name}" + (f" {_words(rest)}" if rest else "")
