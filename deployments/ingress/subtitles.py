"""Subtitles from timed segments: the caller's own words in short lines, as SubRip and WebVTT.

A line is cut between words only, at marks where it can be. The caller's text and the spoken words differ where numbers
were read out; a comparison of both tells which places of the one are places of the other, and the rest stays whole.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import pairwise

from deployments.answers import TimedSegment

MAX_COLUMNS = 40  # 20 Chinese characters, which are two columns wide
MAX_LINES = 2
MIN_CUE_S = 5 / 6
MAX_GAP_S = 1.0  # shorter silences do not blank the screen
NOT_SHOWN = re.compile(r"(?<=[㐀-鿿])\[[a-zA-Zü:]{1,7}[1-5]\]|</?[a-zA-Z][^<>]*>")
OPENING = frozenset("“‘「『《〈（【〔([{<")
STRONG_ENDS = frozenset("。！？；…，：,;!?")
WEAK_ENDS = frozenset("、）】》”’) ")
ENDS = STRONG_ENDS | WEAK_ENDS
LINE_COST, WEAK_COST, WORD_COST, OVERLONG_COST = 0.05, 0.1, 0.6, 10.0


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is never divided, and when it is heard."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Cue:
    """What stands on the screen at once.

    Attributes:
        lines: One or two.
        start_s: Seconds from the start of the answer.
        end_s: Seconds from the start of the answer.
    """

    lines: tuple[str, ...]
    start_s: float
    end_s: float


def cues(segments: Sequence[TimedSegment]) -> tuple[Cue, ...]:
    """Subtitles of an answer.

    Args:
        segments: In order.

    Returns:
        Cues in order that do not overlap. Their texts, joined, are the caller's text apart from blanks, markup and
        readings in brackets. A line has MAX_COLUMNS columns at most, unless a single word or number is longer. Silences
        up to MAX_GAP_S are closed. A cue lasts MIN_CUE_S at least where its neighbours leave it room.
    """
    lines = [line for segment in segments for line in _lines(pieces(segment))]
    return tuple(_long_enough(_without_gaps([Cue((line.text,), line.start_s, line.end_s) for line in lines])))


def srt(shown: Sequence[Cue]) -> str:
    """The cues as a SubRip file."""
    return "".join(
        f"{number}\n{_clock(cue, ',')}\n{_body(cue).replace('-->', '→')}\n\n" for number, cue in enumerate(shown, 1)
    )


def vtt(shown: Sequence[Cue]) -> str:
    """The cues as a WebVTT file.

    Source: W3C WebVTT, 4.1: file structure, timestamps, escapes of cue text.
    """
    escapes = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
    return "WEBVTT\n\n" + "".join(f"{_clock(cue, '.')}\n{_body(cue).translate(escapes)}\n\n" for cue in shown)


def columns(text: str) -> int:
    """How wide a text is: Chinese characters and marks take two columns, others one."""
    return sum(_width(char) for char in text)


def pieces(segment: TimedSegment) -> list[Piece]:
    """The caller's text of a segment in the smallest parts whose times are known.

    Args:
        segment: With the times of its words.

    Returns:
        Texts that, joined, are the text as it is shown; each has one word or several, and the marks that follow.
    """
    text = " ".join(NOT_SHOWN.sub("", segment.text).split()) or "".join(word.text for word in segment.words)
    if not text:
        return []
    places = _places(text, "".join(word.text for word in segment.words))
    found: list[Piece] = []
    begin, start_s, spoken = 0, segment.start_s, 0
    for word, following in pairwise(segment.words):
        spoken += len(word.text)
        place = places[spoken]
        if place is not None and begin < place < len(text) and _may_cut(text, place):
            found.append(Piece(text[begin:place], start_s, word.end_s))
            begin, start_s = place, following.start_s
    return [*found, Piece(text[begin:], start_s, segment.end_s)]


def _places(text: str, words: str) -> list[int | None]:
    """For each place between the characters of the words the place in the text, None where there is no such place."""
    places: list[int | None] = [None] * (len(words) + 1)
    for kind, begin, end, words_begin, words_end in SequenceMatcher(None, text, words, autojunk=False).get_opcodes():
        if kind == "equal":
            places[words_begin : words_end + 1] = range(begin, end + 1)
        else:
            places[words_begin], places[words_end] = begin, end
    return [place if place is None else _between_marks(text, place) for place in places]


def _between_marks(text: str, place: int) -> int:
    """The place moved so that closing marks stand before it and opening ones behind it."""
    while place < len(text) and text[place] in ENDS:
        place += 1
    while place and text[place - 1] in OPENING:
        place -= 1
    return place


def _may_cut(text: str, place: int) -> bool:
    """False inside English words and numbers, decimal marks included."""
    around = text[max(0, place - 2) : place + 2]
    before, after = text[place - 1], text[place]
    if (before + after).isascii() and before.isalnum() and after.isalnum():
        return False
    return not re.search(r"\d[.,:/]\d", around)


def _lines(parts: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces joined into lines of about equal length that end at marks where they can.

    best[n] is the cost of dividing the first n pieces, cut[n] where the last line of that division begins.
    """
    widths = [columns(part.text) for part in parts]
    total = sum(widths)
    ideal = total / max(1, -(-total // MAX_COLUMNS))
    best = [0.0] + [float("inf")] * len(parts)
    cut = [0] * (len(parts) + 1)
    for end in range(1, len(parts) + 1):
        width = 0
        for begin in range(end - 1, -1, -1):
            width += widths[begin]
            if width > MAX_COLUMNS and begin < end - 1:
                break
            cost = best[begin] + ((width - ideal) / MAX_COLUMNS) ** 2 + _end_cost(parts[end - 1].text)
            cost += LINE_COST + (OVERLONG_COST if width > MAX_COLUMNS else 0.0)
            if cost < best[end]:
                best[end], cut[end] = cost, begin
    bounds = [len(parts)]
    while bounds[-1]:
        bounds.append(cut[bounds[-1]])
    for begin, end in pairwise(reversed(bounds)):
        text = "".join(part.text for part in parts[begin:end]).strip()
        if text:
            yield Piece(text, parts[begin].start_s, parts[end - 1].end_s)


def _end_cost(text: str) -> float:
    return 0.0 if text.rstrip()[-1:] in STRONG_ENDS else WEAK_COST if text[-1:] in WEAK_ENDS else WORD_COST


def _without_gaps(shown: Sequence[Cue]) -> list[Cue]:
    closed = []
    for cue, following in pairwise(shown):
        gap_s = following.start_s - cue.end_s
        end_s = following.start_s if gap_s <= MAX_GAP_S else max(cue.end_s, cue.start_s + MIN_CUE_S)
        closed.append(replace(cue, end_s=end_s))
    return [*closed, *shown[-1:]]


def _long_enough(shown: Sequence[Cue]) -> list[Cue]:
    """Joins cues that are too short to read with a neighbour, on one line or as a second one."""
    found: list[Cue] = []
    for cue in shown:
        if found and (_is_short(found[-1]) or _is_short(cue)) and (joined := _joined(found[-1], cue)):
            found[-1] = joined
        else:
            found.append(cue)
    return found


def _is_short(cue: Cue) -> bool:
    return cue.end_s - cue.start_s < MIN_CUE_S


def _joined(cue: Cue, following: Cue) -> Cue | None:
    if following.start_s > cue.end_s:  # a silence lies between them
        return None
    last, first = cue.lines[-1], following.lines[0]
    blank = " " if (last[-1] + first[0]).isascii() else ""
    lines = (*cue.lines, *following.lines)
    if columns(last + blank + first) <= MAX_COLUMNS:
        lines = (*cue.lines[:-1], last + blank + first, *following.lines[1:])
    return Cue(lines, cue.start_s, following.end_s) if len(lines) <= MAX_LINES else None


@functools.lru_cache(maxsize=8192)
def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    kind = unicodedata.east_asian_width(char)
    return 2 if kind in "WF" or (kind == "A" and not char.isalpha()) else 1


def _body(cue: Cue) -> str:
    return "\n".join(cue.lines)


def _clock(cue: Cue, mark: str) -> str:
    start_ms = round(1000 * cue.start_s)
    end_ms = max(round(1000 * cue.end_s), start_ms + 1)
    return f"{_time(start_ms, mark)} --> {_time(end_ms, mark)}"


def _time(milliseconds: int, mark: str) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{mark}{rest:03}"
