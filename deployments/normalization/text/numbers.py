"""Digits into Chinese words: cardinals, digit by digit, decimals, years, Roman numerals."""

from __future__ import annotations

import re

_DIGITS = "零一二三四五六七八九"
_PLACES = ("", "十", "百", "千")
_MAX_CARDINAL_DIGITS = 20
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_TRAILING_POINT = re.compile(r"[.,，]+$")


def spell(text: str) -> str:
    """Digit by digit with 一, as in years and decimals; other characters are dropped.

    >>> spell("2019")
    '二零一九'
    """
    return "".join(_DIGITS[int(char)] for char in text if char in "0123456789")


def spell_code(text: str) -> str:
    """Digit by digit with 幺 for 1, as in telephone and room numbers; other characters are dropped.

    >>> spell_code("110")
    '幺幺零'
    """
    return spell(text).replace("一", "幺")


def _group(value: int, *, leading: bool) -> str:
    """A number below 10,000, without leading 零."""
    words = ""
    pending_zero = False
    for place in (3, 2, 1, 0):
        digit = value // 10**place % 10
        if digit == 0:
            pending_zero = bool(words)
            continue
        if pending_zero:
            words += "零"
            pending_zero = False
        # 2,000 is 两千, but 12,000 一万二千; 200 stays 二百 here and becomes 两百 where something is counted.
        words += ("两" if digit == 2 and place == 3 and leading else _DIGITS[digit]) + _PLACES[place]
    return words


def _words(value: int, *, leading: bool = True) -> str:
    """A positive number in words, without leading 零."""
    for size, name in ((10**8, "亿"), (10**4, "万")):
        if value >= size:
            high, low = divmod(value, size)
            words = ("两" if high == 2 else _words(high, leading=leading)) + name
            if low:
                # A gap of zeros is said once: 10,005 has one 零, and so has 110,100 (十一万零一百).
                words += ("零" if low < size // 10 else "") + _words(low, leading=False)
            return words
    return _group(value, leading=leading)


def cardinal(text: str) -> str:
    """A whole number in words.

    Args:
        text: Digits; thousands separators are ignored, leading zeros are read out.

    Returns:
        The words; digit by digit where the number has leading zeros or more than 20 digits.

    >>> cardinal("20050")
    '两万零五十'
    """
    digits = re.sub(r"\D", "", text)
    stripped = digits.lstrip("0")
    if not stripped:
        return "零" * max(1, len(digits))
    if len(stripped) > _MAX_CARDINAL_DIGITS or len(stripped) < len(digits):
        return spell(digits)
    words = _words(int(stripped))
    return words.removeprefix("一") if words.startswith("一十") else words


def count(text: str) -> str:
    """A number before a measure word: 2 alone is 两, 200 is 两百."""
    words = number(text)
    if words == "二":
        return "两"
    return "两" + words[1:] if words.startswith("二百") else words


def number(text: str) -> str:
    """A whole or decimal number, with thousands separators and sign.

    >>> number("-1,234.50")
    '负一千二百三十四点五零'
    """
    text = _TRAILING_POINT.sub("", text.strip())
    sign = ""
    if text[:1] in "-−–+":
        sign = "正" if text[0] == "+" else "负"
        text = text[1:]
    whole, point, decimals = text.replace(",", "").replace("，", "").partition(".")
    words = cardinal(whole) if whole else "零"
    return sign + words + ("点" + spell(decimals) if point and decimals else "")


def roman(text: str) -> int:
    """Value of a Roman numeral, 0 where it is none.

    >>> roman("XIV")
    14
    """
    values = [_ROMAN.get(char, 0) for char in text.upper()]
    if 0 in values:
        return 0
    total = 0
    for value, following in zip(values, [*values[1:], 0], strict=True):
        total += -value if value < following else value
    return total
