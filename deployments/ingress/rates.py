"""What is learnt from the texts that were spoken: how long they are, and how fast the models make them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MEMORY_S: Final = 15.0  # of work; what lies further back hardly counts
BEST_MEMORY_S: Final = 120.0  # of work; a replica that starts again takes seconds and says nothing of the models
LEARNING_S: Final = 2.0  # of work before a rate is told
FIRST_CHAR_S: Final = 0.22  # Chinese at an even pace
FIRST_CHARS: Final = 200.0  # as if so many had been heard already
KEPT: Final = 0.98  # of what was learnt before, per text


class SpokenLength:
    """Seconds of audio per character of text at speed 1, from the texts that were spoken lately."""

    def __init__(self) -> None:
        self._chars = FIRST_CHARS
        self._audio_s = FIRST_CHARS * FIRST_CHAR_S

    def of(self, num_chars: int, speed: float) -> float:
        """How long a text will be, seconds."""
        return num_chars / speed * self._audio_s / self._chars

    def learn(self, num_chars: int, speed: float, audio_s: float) -> None:
        """Takes the length of a text that was spoken to its end."""
        if num_chars > 0:
            self._chars = KEPT * self._chars + num_chars / speed
            self._audio_s = KEPT * self._audio_s + audio_s


class DrainRate:
    """Seconds of audio that the models make per second, while somebody waits for them.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._num_waiting = 0
        self._counted_until = clock()
        self._audio_s = 0.0
        self._work_s = 0.0
        self._best_per_s = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The time of somebody who waits for the models."""
        self._count()
        self._num_waiting += 1
        try:
            yield
        finally:
            self._count()
            self._num_waiting -= 1

    def made(self, audio_s: float) -> None:
        """Takes what the models have made."""
        self._count()
        self._audio_s += audio_s

    @property
    def per_s(self) -> float | None:
        """The rate of now, None before it is known."""
        self._count()
        return self._now_per_s()

    @property
    def best_per_s(self) -> float | None:
        """What the models can do: the best rate of the last minutes of work, None before it is known."""
        now_per_s = self.per_s
        return None if now_per_s is None else max(now_per_s, self._best_per_s)

    def _now_per_s(self) -> float | None:
        return self._audio_s / self._work_s if self._work_s >= LEARNING_S else None

    def _count(self) -> None:
        now = self._clock()
        spent_s, self._counted_until = now - self._counted_until, now
        if self._num_waiting:
            self._best_per_s = max(self._best_per_s, self._now_per_s() or 0.0) * math.exp(-spent_s / BEST_MEMORY_S)
            kept = math.exp(-spent_s / MEMORY_S)
            self._audio_s *= kept
            self._work_s = self._work_s * kept + MEMORY_S * (1 - kept)
