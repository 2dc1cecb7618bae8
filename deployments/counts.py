"""How much of a model's work is useful: what the stages count, for reports and metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class RunCounts:
    """What one part of a model has run since the start; for reports and metrics.

    Attributes:
        runs: Times it ran.
        items: Items in all these runs; items / runs is the mean batch size.
        positions: Tokens, steps or frames that were computed.
        kept: Those of them that belong to an answer; the others were padding or context.
        seconds: Time it took; on a GPU the time to hand the work over.
    """

    runs: int = 0
    items: int = 0
    positions: int = 0
    kept: int = 0
    seconds: float = 0.0

    def add(self, items: int, positions: int, kept: int, started_s: float) -> None:
        """Counts one run that began at this time.perf_counter() and ends now."""
        self.runs += 1
        self.items += items
        self.positions += positions
        self.kept += kept
        self.seconds += time.perf_counter() - started_s
