"""When each word and character is heard: exact to the frame, from the frames that the acoustic model spent on symbols.

All times are fractions until they are written down, so that they hold at every sample rate of the answer and never
drift, however long the answer is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deployments.answers import TimedCharacter, TimedSegment, TimedWord
from deployments.messages import Segment, Word

HAN = re.compile(r"[㐀-鿿〇豈-﫿𠀀-𲎯]+")
# 儿 that only colours the syllable before it has no syllable of its own
SYLLABLE_TEXT = re.compile(r"[^儿]儿?|儿")
SYLLABLE_BEGINS = frozenset({"s_begin", "s_both"})


def timed_segment(segment: Segment, frames_T: NDArray[np.int32], frame_s: Fraction, start_s: Fraction) -> TimedSegment:
    """A segment with the times of its words and their characters.

    Args:
        segment: What was spoken.
        frames_T: int32 [symbols]; frames spent on each item of segment.symbols.
        frame_s: Seconds per frame: samples per frame divided by the voice's sample rate.
        start_s: Where the segment begins in the answer, seconds.

    Returns:
        Times in seconds from the start of the answer. A word ends where its last item ends; what lies between words
        are breaks. The segment ends with its last frame.
    """
    times_s = _bounds(frames_T, frame_s, start_s)
    begins = [item.split("$", 3)[2] in SYLLABLE_BEGINS for item in segment.symbols.split()]
    words = tuple(_timed_word(word, begins, times_s) for word in segment.words)
    return TimedSegment(text=segment.text, start_s=times_s[0], end_s=times_s[-1], words=words)


def _bounds(frames_T: NDArray[np.int32], frame_s: Fraction, start_s: Fraction) -> list[float]:
    """Seconds at which each symbol begins, and at which the last one ends; each the nearest float to the exact time."""
    first = start_s.numerator * frame_s.denominator
    step = frame_s.numerator * start_s.denominator
    scale = start_s.denominator * frame_s.denominator
    return [first / scale, *((first + step * end) / scale for end in np.cumsum(frames_T, dtype=np.int64).tolist())]


def _timed_word(word: Word, begins: Sequence[bool], times_s: Sequence[float]) -> TimedWord:
    first, end = word.start_symbol, word.start_symbol + word.num_symbols
    starts = [index for index in range(first, end) if begins[index]]
    texts = _parts(word.text, len(starts))
    if len(texts) == 1:
        starts = [first]
    characters = tuple(
        TimedCharacter(text=text, start_s=times_s[start], end_s=times_s[following])
        for text, start, following in zip(texts, starts, [*starts[1:], end], strict=True)
    )
    return TimedWord(
        text=word.text, pinyin=word.pinyin, start_s=times_s[first], end_s=times_s[end], characters=characters
    )


def _parts(text: str, num_syllables: int) -> Sequence[str]:
    """The text of a word syllable by syllable, or the word as a whole where that cannot be told."""
    if HAN.fullmatch(text):
        for parts in (list(text), SYLLABLE_TEXT.findall(text)):
            if len(parts) == num_syllables:
                return parts
    return [text]
