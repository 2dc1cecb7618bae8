"""Keeps a full service from spending its time on refusing: most is refused for it, where that costs least.

A request that the service itself refuses has passed two processes, which takes as much of a small machine as some
speech does. So while the service refuses, it is asked only a little more often than it accepts, often enough to find
every place that becomes free and every text that the cache knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from deployments.errors import Overloaded

MEMORY_S: Final = 1.0
REFUSED_PER_S: Final = 5.0  # fewer refusals cost nothing worth saving
ASKED_PER_S: Final = 10.0  # the service is asked so often in any case
ASKED_PER_ACCEPTED: Final = 2.0  # and so often for each request that it accepts
MAX_AT_ONCE: Final = 5.0


class Damper:
    """What one service has accepted and refused lately, and whether it is worth asking.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counted_until = clock()
        self._accepted = 0.0
        self._refused = 0.0
        self._tokens = MAX_AT_ONCE
        self._retry_after_s = 1.0

    def check(self) -> None:
        """Call it before a request is passed on.

        Raises:
            Overloaded: It would be refused, most likely.
        """
        self._count()
        if self._refused < REFUSED_PER_S * MEMORY_S:
            return
        if self._tokens < 1:
            raise Overloaded(
                f"The service has as much to do as it can. Retry in {self._retry_after_s:.0f} s.",
                retry_after_s=self._retry_after_s,
            )
        self._tokens -= 1

    def accepted(self) -> None:
        """The service answered a request, whatever it said."""
        self._count()
        self._accepted += 1

    def refused(self, retry_after_s: float) -> None:
        """The service refused a request since it has too much to do."""
        self._count()
        self._refused += 1
        self._retry_after_s = retry_after_s

    def _count(self) -> None:
        now = self._clock()
        spent_s, self._counted_until = now - self._counted_until, now
        kept = math.exp(-spent_s / MEMORY_S)
        self._accepted *= kept
        self._refused *= kept
        per_s = ASKED_PER_S + ASKED_PER_ACCEPTED * self._accepted / MEMORY_S
        self._tokens = min(MAX_AT_ONCE, self._tokens + per_s * spent_s)
