"""A circuit breaker: what failed several times in a row is left alone for a while, then tried again."""

from __future__ import annotations

import time
from collections.abc import Callable


class Breaker:
    """Says whether to try; is told how it went.

    A try that nobody reports on (its caller was cancelled) blocks nothing: the next one is due after the pause.

    Args:
        max_failures: Failures in a row that open it.
        open_s: First pause.
        max_open_s: Longest pause; each try while it is open doubles the pause.
        clock: Seconds that never go back.
    """

    def __init__(
        self, max_failures: int, open_s: float, max_open_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._max_failures = max_failures
        self._open_s = open_s
        self._max_open_s = max(open_s, max_open_s)
        self._clock = clock
        self._failures = 0
        self._pause_s = open_s
        self._retry_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused but for one try per pause."""
        return self._retry_at is not None

    def allow(self) -> bool:
        """Whether a call may be made now."""
        if self._retry_at is None:
            return True
        now = self._clock()
        if now < self._retry_at:
            return False
        self._pause_s = min(2 * self._pause_s, self._max_open_s)
        self._retry_at = now + self._pause_s
        return True

    def succeeded(self) -> bool:
        """Notes a call that worked; True when this closes the breaker."""
        was_open = self.is_open
        self._failures = 0
        self._pause_s = self._open_s
        self._retry_at = None
        return was_open

    def failed(self) -> bool:
        """Notes a call that did not work; True when this opens the breaker."""
        self._failures += 1
        if self.is_open or self._failures < self._max_failures:
            return False
        self.trip()
        return True

    def trip(self) -> None:
        """Opens it at once."""
        self._retry_at = self._clock() + self._pause_s
