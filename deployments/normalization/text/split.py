"""Divides a sentence into segments that are short enough, at the best places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployments.normalization.text.tone import Spoken

_LEAST_SHARE = 0.2  # of a sentence, in the smaller part of a division at a clause end
_LONGEST_NUMBER = 2  # segments
_PREFERENCE = {"clause": 0.0, "pause": 0.15, "phrase": 0.2, "word": 0.35, "never": float("inf")}


@dataclass(slots=True)
class Unit:
    """A prosodic word with the marks after it: what is never divided.

    Attributes:
        words: Its words.
        start: Place of its first character in the normalised text.
        end: Place after its last character or mark.
        boundary: What it ends with: "sentence", "clause", "pause", "phrase", "word" or "never" (the next
            unit goes on with the same number).
    """

    words: list[Spoken]
    start: int
    end: int
    boundary: str


def pack(units: Sequence[Unit], max_chars: int) -> list[Sequence[Unit]]:
    """Divides a sentence as evenly as clause ends allow until every part is short enough.

    Args:
        units: Of one sentence.
        max_chars: Characters of normalised text per part at most; a single unit that is longer stays whole.

    Returns:
        The parts, in order.
    """
    waiting = [units]
    parts: list[Sequence[Unit]] = []
    while waiting:
        part = waiting.pop()
        place = _division(part, max_chars)
        if place == 0:
            parts.append(part)
        else:
            waiting += (part[place:], part[:place])
    return parts


def _division(units: Sequence[Unit], max_chars: int) -> int:
    """Index of the unit before which to divide, 0 to leave the part whole."""
    start, total = units[0].start, units[-1].end - units[0].start
    if total <= max_chars or len(units) < 2:
        return 0
    best, best_cost = 0, float("inf")
    for index in range(1, len(units)):
        share = (units[index].start - start) / total
        boundary = units[index - 1].boundary
        cost = abs(share - 0.5) + _PREFERENCE.get(boundary, 0.0)
        if min(share, 1 - share) < _LEAST_SHARE:
            cost += 0.5
        if cost < best_cost:
            best, best_cost = index, cost
    if best == 0 and total > _LONGEST_NUMBER * max_chars:
        return len(units) // 2  # digits without end
    return best
