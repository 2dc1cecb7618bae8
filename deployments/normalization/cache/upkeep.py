"""What the cache does by itself: measuring, following purges of other replicas, the sweep."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from deployments.normalization.cache.guarded import GuardedTier
from deployments.normalization.cache.ledger import Ledger
from deployments.normalization.cache.memory import MemoryTier
from deployments.normalization.cache.metrics import Counters
from deployments.normalization.cache.tier import Measure, Swept
from deployments.settings import CacheSettings

log = logging.getLogger(__name__)


class Upkeep:
    """Two tasks in the background: a check every check_interval_s and a sweep every sweep_interval_s.

    Args:
        tier: Behind the memory, or None.
        memory: Is purged when another replica has purged the tier.
        ledger: Likewise.
        settings: Intervals.
        counters: Get the sizes.
    """

    def __init__(
        self,
        tier: GuardedTier | None,
        memory: MemoryTier,
        ledger: Ledger,
        settings: CacheSettings,
        counters: Counters,
    ) -> None:
        self._tier = tier
        self._memory = memory
        self._ledger = ledger
        self._settings = settings
        self._counters = counters
        self._purges: dict[str, int] | None = None  # None until the tier was measured
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Looks for the tier and begins."""
        if self._tier is not None:
            self._take(await self._tier.start())
        loop = asyncio.get_running_loop()
        first_s = self._settings.check_interval_s
        self._tasks.append(loop.create_task(_every(first_s, first_s, self.check)))
        self._tasks.append(loop.create_task(_every(first_s, self._settings.sweep_interval_s, self.sweep)))

    async def check(self) -> None:
        """Measures the tiers and follows purges."""
        self._counters.size("memory", self._memory.num_entries, self._memory.num_bytes)
        if self._tier is not None:
            self._take(await self._tier.measure())

    async def sweep(self) -> None:
        """All steps of a sweep, with pauses for others between them."""
        num_removed = 0
        while True:
            swept = await self.sweep_step()
            num_removed += swept.removed
            if not swept.more:
                break
            await asyncio.sleep(self._settings.sweep_pause_s)
        log.info("swept the cache: %d entries had expired or were not used for long", num_removed)

    async def sweep_step(self) -> Swept:
        """One step of a sweep."""
        return await self._tier.sweep_step() if self._tier is not None else Swept()

    def expect_purge(self, tag: str | None) -> None:
        """Says that the next purge of a voice, or all, is this replica's own and done in memory."""
        if self._purges is not None:
            self._purges[tag or ""] = self._purges.get(tag or "", 0) + 1

    async def close(self) -> None:
        """Ends the tasks."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _take(self, measure: Measure | None) -> None:
        if measure is None or self._tier is None:
            return
        self._counters.size(self._tier.name, measure.num_entries, measure.num_bytes)
        known = measure.purges if self._purges is None else self._purges
        for tag, number in measure.purges.items():
            if number > known.get(tag, 0):
                log.info("another replica purged the cache (%s): following", tag or "all voices")
                self._memory.purge(tag or None)
                self._ledger.forget(tag or None)
        self._purges = dict(measure.purges)


async def _every(first_s: float, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
    """Works after a while and then after each pause, whatever becomes of it."""
    await asyncio.sleep(first_s)
    while True:
        try:
            await work()
        except Exception:
            log.exception("upkeep of the cache failed")
        await asyncio.sleep(pause_s)
