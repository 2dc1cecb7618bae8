"""Text that arrives in pieces: where it can be cut with certainty before the rest is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Strength = Literal["sentence", "clause"]
# a mark with what belongs to it: further marks, closing quotes and brackets, blanks
ENDS = "。！？；…，：.!?;,:\n"
MARKS = ENDS + " \t\r\u3000”’」』》）】)\"'"
END = re.compile(f"[{ENDS}][{re.escape(MARKS)}]*")
SENTENCE_MARKS = frozenset("。！？；…!?;\n.")
FULL_WIDTH_ENDS = frozenset("。！？；…\n")
NUMBER_MARKS = frozenset(".,:，：")
WORD_BEFORE_DOT = re.compile(r"(?:[A-Za-z](?:\.[A-Za-z])*|\d+|[A-Z]?[a-z]{1,4})$")
LOOK_BACK = 16
ABBREVIATIONS = frozenset(
    ("mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "etc", "fig", "inc", "ltd", "co", "jr", "sr", "vol", "pp", "ca")
)


class LiveText:
    """The part of a text that has arrived and is not yet spoken.

    Args:
        clause_chars: A clause is cut off before its sentence is complete if it has this many characters.
        max_chars: What is cut off at once has this many characters at most, where there is an end before.
    """

    def __init__(self, clause_chars: int, max_chars: int) -> None:
        self._clause_chars = clause_chars
        self._max_chars = max_chars
        self._text = ""
        self._ends: list[tuple[int, Strength]] = []
        self._searched = 0  # all ends before this place are known, so that no text is searched again and again

    def add(self, text: str) -> None:
        """Takes what has arrived."""
        self._text += text

    @property
    def has_text(self) -> bool:
        """Whether anything but blanks waits."""
        return bool(self._text.strip())

    @property
    def is_markup(self) -> bool:
        """Whether it is SSML, which makes sense as a whole only."""
        return self._text.lstrip().startswith("<")

    def take(self) -> str:
        """All complete sentences, else all complete clauses, else nothing.

        Where more text could still change what an end means ("3." may become "3.5") it does not count as one yet.
        """
        if self.is_markup:
            return ""
        self._ends += ends(self._text, self._searched)
        self._searched = len(self._text.rstrip(MARKS))  # only the last marks may still get another meaning
        cuts: dict[Strength, int] = {"sentence": 0, "clause": 0}
        for end, strength in self._ends:
            if end <= self._max_chars or not any(cuts.values()):
                cuts[strength] = end
        if not cuts["sentence"] and cuts["clause"] < self._clause_chars:
            return ""
        return self._cut(cuts["sentence"] or cuts["clause"])

    def rest(self) -> str:
        """Everything, complete or not."""
        return self._cut(len(self._text))

    def _cut(self, place: int) -> str:
        taken, self._text = self._text[:place], self._text[place:]
        self._ends = [(end - place, strength) for end, strength in self._ends if end > place]
        self._searched = max(0, self._searched - place)
        return taken


def ends(text: str, begin: int = 0) -> Iterator[tuple[int, Strength]]:
    """The certain ends in a text that may go on, in order.

    Args:
        text: What has arrived.
        begin: Where to begin the search.

    Yields:
        The place behind the end with the marks that belong to it, and whether a sentence or only a clause ends.
    """
    for match in END.finditer(text, begin):
        if _is_certain(text, match.start(), match.end()):
            marks = match.group()
            yield match.end(), "sentence" if SENTENCE_MARKS.intersection(marks) else "clause"


def strength_of(text: str) -> Strength:
    """Whether a text that was cut off ends a sentence or less."""
    tail = text.rstrip(" \t\r\u3000”’」』》）】)\"'")
    return "sentence" if tail[-1:] in SENTENCE_MARKS else "clause"


def _is_certain(text: str, begin: int, end: int) -> bool:
    mark, marks = text[begin], text[begin:end]
    if FULL_WIDTH_ENDS.intersection(marks):
        return True
    before, after = text[begin - 1 : begin], text[begin + 1 : begin + 2]
    if mark in NUMBER_MARKS and before.isdigit() and (not after or after.isdigit()):
        return False
    if not mark.isascii():
        return True
    following = text[end : end + 1]
    if not any(char.isspace() for char in marks) and (not following or following.isascii()):
        return False  # an address, a version, or more to come
    if mark == "." and (match := WORD_BEFORE_DOT.search(text, max(0, begin - LOOK_BACK), begin)):
        word = match.group()
        return not (word.isdigit() or "." in word or len(word) == 1 or word.lower() in ABBREVIATIONS)
    return True
