"""Numbers in English words, for numbers inside English sentences."""

from __future__ import annotations

from deployments.normalization.text import tables

_SMALL = [row[0] for row in tables.rows("english_small.tsv")]
_TENS = [row[0] for row in tables.rows("english_tens.tsv")]
_SCALES = ((10**9, "billion"), (10**6, "million"), (10**3, "thousand"), (100, "hundred"))


_ORDINALS = tables.pairs("english_ordinals.tsv")


def english_amount(text: str) -> str:
    """A number as it stands in an English sentence: with a dollar sign, as a time, in percent, as an ordinal.

    >>> english_amount("$5.99"), english_amount("8:05"), english_amount("50%"), english_amount("21st")
    ('five dollars ninety nine', 'eight oh five', 'fifty percent', 'twenty first')
    """
    plain = text.replace(",", "")
    if plain.startswith("$"):
        whole, _, cents = plain[1:].partition(".")
        words = f"{_words(int(whole))} {'dollar' if int(whole) == 1 else 'dollars'}"
        return words + (f" {_words(int(cents))}" if cents.strip("0") else "")
    if ":" in plain:
        hours, minutes = plain.split(":")
        rest = "" if minutes == "00" else f" {'oh ' if minutes[0] == '0' else ''}{_words(int(minutes))}"
        return _words(int(hours)) + rest
    if plain.endswith("%"):
        return f"{english_number(plain[:-1])} percent"
    if plain[-1].isalpha():
        return _ordinal(_words(int(plain[:-2])))
    return _words(int(plain)) if "," in text else english_number(plain)


def _ordinal(words: str) -> str:
    rest, _, last = words.rpartition(" ")
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return f"{rest} {_ORDINALS.get(last, regular)}".strip()


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
