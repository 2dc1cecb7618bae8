"""A text with markup once it is read: stretches of text, how each is spoken, and what lies between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from deployments.messages import Controls
from deployments.normalization.text.ssml_values import MAX_BREAK_S

_RANK = ("", "sentence", "paragraph")


class Cast(Protocol):
    """Who can speak, and how."""

    def with_voice(self, controls: Controls, name: str) -> Controls:
        """The controls with another voice; raises VoiceNotFound or EmotionNotFound."""

    def with_emotion(self, controls: Controls, word: str) -> Controls:
        """The controls with another emotion; raises EmotionNotFound."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is read in one way.

    Attributes:
        text: The caller's characters; runs of blanks are one blank.
        kind: "text", "phoneme", "sub", "w" or "say-as".
        value: The pinyin, the alias or what to interpret the text as.
    """

    text: str
    kind: str = "text"
    value: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """What lies between two stretches.

    Attributes:
        break_s: Length of the breaks together, None where there are none.
        boundary: "sentence" or "paragraph" where one ends, else "".
    """

    break_s: float | None = None
    boundary: str = ""

    def joined(self, other: Gap) -> Gap:
        """Both, with nothing between them."""
        lengths = [gap.break_s for gap in (self, other) if gap.break_s is not None]
        boundary = max(self.boundary, other.boundary, key=_RANK.index)
        return Gap(min(sum(lengths), MAX_BREAK_S) if lengths else None, boundary)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Text that is spoken under one set of controls, and is followed by a boundary or by other controls.

    Attributes:
        controls: Complete.
        pieces: In order; at least one.
        gap: What follows.
    """

    controls: Controls
    pieces: tuple[Piece, ...]
    gap: Gap


@dataclass(frozen=True, slots=True)
class Document:
    """A text with markup.

    Attributes:
        lead: What comes before the first stretch.
        stretches: In order.
    """

    lead: Gap
    stretches: tuple[Stretch, ...]
