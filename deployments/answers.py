"""What callers get: the whole audio, and when each segment, word and character is heard."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedCharacter:
    """Where a character lies in an answer.

    Attributes:
        text: One character; two where 儿 only colours the syllable before it; an English word as a whole.
        start_s: Seconds from the start of the answer.
        end_s: Seconds from the start of the answer.
    """

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedWord:
    """Where a word lies in an answer.

    Attributes:
        text: See Word.
        pinyin: See Word.
        start_s: Seconds from the start of the answer.
        end_s: Seconds from the start of the answer.
        characters: Its parts, which share its time among them without a gap.
    """

    text: str
    pinyin: tuple[str, ...]
    start_s: float
    end_s: float
    characters: tuple[TimedCharacter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSegment:
    """Where a segment lies in an answer.

    Attributes:
        text: The part of the caller's text.
        start_s: Seconds from the start of the answer.
        end_s: Seconds from the start of the answer, without the pause that follows.
        words: In order; between them lie breaks at most.
    """

    text: str
    start_s: float
    end_s: float
    words: tuple[TimedWord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Audio:
    """A whole answer.

    Attributes:
        pcm: int16 [samples], mono.
        sample_rate_hz: Of the samples.
        segments: Where each segment lies.
        cache: "hit", "partial", "miss" or "bypass".
        timings_s: Seconds by stage: text, cache, acoustic, vocoder.
    """

    pcm: NDArray[np.int16]
    sample_rate_hz: int
    segments: tuple[TimedSegment, ...]
    cache: str = "miss"
    timings_s: dict[str, float] = field(default_factory=dict)
