"""Takes out of a text what is not language: control characters, emoji, markup; brings character forms to one form."""

from __future__ import annotations

import functools
import html
import re
import unicodedata

from deployments.normalization.text import symbols, tables
from deployments.normalization.text.tracked import Tracked

# The syllable in brackets after a character: 行[hang2], 好[hao3]; v or ü, tone 1 to 5.
INLINE_PINYIN = re.compile(r"([㐀-鿿])\[([a-zA-Zü:]{1,7}[1-5])\]")

_MARKUP: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"<br\s*/?>|</p>|</div>|</li>|</h[1-6]>", "\n"),
        (r"<!--.*?-->|</?[a-zA-Z][^<>\n]{0,200}>", ""),
        (r"!\[([^\]\n]*)\]\([^()\n]*\)", r"\1"),
        (r"(?<!\\)\[([^\[\]\n]+)\]\([^()\s]*\)", r"\1"),
        (r"^\s{0,3}(?:-{3,}|\*{3,}|_{3,}|={3,}|\|?[\s:|-]{3,}\|)\s*$", ""),
        (r"^\s{0,3}#{1,6}\s+", ""),
        (r"^\s*(?:>\s*)+(?=\S)", ""),
        (r"^\s*[*+-]\s+\[[ xX]\]\s*(?=\S)", ""),
        (r"^\s*[*+•·‣▪●○◆■□-]\s+(?=\S)", ""),
        (r"^\s*```.*$", ""),
        (r"\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*", r"\1"),
        (r"(?<![\w*])\*(?=[^\s*\d])([^*\n]+?)(?<=[^\s*])\*(?![\w*])", r"\1"),
        (r"(?<![\w_])__(?=\S)([^_\n]+?)(?<=\S)__(?![\w_])", r"\1"),
        (r"~~(?=\S)([^~\n]+?)(?<=\S)~~", r"\1"),
        (r"`+([^`\n]+)`+", r"\1"),
    )
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-fA-F]{1,6}|[a-zA-Z]{2,8}\d{0,2});")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"[ ]*(?:\r\n|[\r\n\x0b\x0c\x85\u2028\u2029])[ ]*")
_NOT_PLAIN = re.compile(r"[^\n -~\u4e00-\u9fff，。！？；：、]")

# Private use is dropped as well: it stands for fixed entries later.
_DROPPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me", "Mc"})


def clean(text: str | Tracked, keep: frozenset[str] = frozenset()) -> tuple[Tracked, dict[int, str]]:
    """Cleans a text for reading.

    Args:
        text: As the caller wrote it.
        keep: Private characters that stand for something and stay; all others are dropped.

    Returns:
        The cleaned text, and the readings that the caller wrote beside characters, by the character's place in
        the caller's text.
    """
    tracked, pinned = _take_pinyin(Tracked.of(text) if isinstance(text, str) else text)
    tracked = tracked.sub(_LINES, lambda _: "\n")
    if "&" in tracked.text:
        tracked = tracked.sub(_ENTITY, lambda match: html.unescape(match[0]))
    if re.search(r"[<*_`#~>\[|•·●■◆+=-]", tracked.text):
        for pattern, replacement in _MARKUP:
            tracked = tracked.sub(pattern, lambda match, new=replacement: match.expand(new))  # type: ignore[misc]
    tracked = tracked.sub(_NOT_PLAIN, lambda match: match[0] if match[0] in keep else _character(match[0]))
    return tracked.sub(_SPACES, lambda _: " "), pinned


def _take_pinyin(text: Tracked) -> tuple[Tracked, dict[int, str]]:
    pinned: dict[int, str] = {}

    def take(match: re.Match[str]) -> str | None:
        syllable = match[2].lower().replace("u:", "v").replace("ü", "v")
        if not _is_syllable(syllable):
            return None
        pinned[text.origins[match.start()]] = syllable
        return match[1]

    return text.sub(INLINE_PINYIN, take), pinned


def _is_syllable(pinyin: str) -> bool:
    try:
        symbols.syllable(pinyin)
    except KeyError:
        return False
    return True


@functools.lru_cache(maxsize=20_000)
def _character(char: str) -> str:
    """One form for one character: data/characters.tsv first, then full width and compatibility forms, then dropping."""
    known = _characters().get(char)
    if known is not None:
        return known
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    if category in _DROPPED_CATEGORIES or _is_picture(char):
        return ""
    folded = unicodedata.normalize("NFKC", char)
    if folded != char:
        return "".join(_characters().get(part, part) for part in folded)
    return char


@functools.cache
def _characters() -> dict[str, str]:
    return {row[0]: row[1] if len(row) > 1 else "" for row in tables.rows("characters.tsv")}


def _is_picture(char: str) -> bool:
    """Emoji and ornaments: symbols without a reading."""
    return (ord(char) >= 0x1F000 and unicodedata.category(char) in {"So", "Sk"}) or unicodedata.category(char) == "So"
