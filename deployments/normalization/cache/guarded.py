"""A tier behind circuit breakers: its faults are counted and logged, and never reach a request."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Literal, TypeVar

from deployments.normalization.cache.breaker import Breaker
from deployments.normalization.cache.key import SegmentKey
from deployments.normalization.cache.metrics import Counters
from deployments.normalization.cache.tier import Found, Measure, Row, Swept, Tier, TierFault
from deployments.settings import CacheSettings

Result = TypeVar("Result")
log = logging.getLogger(__name__)


class GuardedTier:
    """Answers None where the tier is skipped or failed.

    Reads and writes have a breaker each: a full disk is no reason not to read.

    Args:
        tier: What to guard.
        settings: How many faults open a breaker, and for how long.
        counters: Where faults are counted.
    """

    def __init__(self, tier: Tier, settings: CacheSettings, counters: Counters) -> None:
        self._tier = tier
        self._counters = counters
        limits = (settings.breaker_failures, settings.breaker_open_s, settings.breaker_max_open_s)
        self._reads = Breaker(*limits)
        self._writes = Breaker(*limits)

    @property
    def name(self) -> Literal["sqlite", "redis"]:
        """As in x-cache and the metrics."""
        return self._tier.name

    async def start(self) -> Measure | None:
        """Looks whether the tier is there; says so and skips it for a while where it is not."""
        try:
            measure = await self._tier.measure()
        except Exception as error:
            fault = _fault(error)
            self._counters.fault(self.name, fault.kind)
            self._reads.trip()
            self._writes.trip()
            self._counters.skipped(self.name, is_skipped=True)
            log.warning("cache tier %s is not available, serving without it and trying again: %s", self.name, fault)
            return None
        self._counters.skipped(self.name, is_skipped=False)
        log.info("cache tier %s at %s holds %d entries", self.name, self._tier.where, measure.num_entries)
        return measure

    async def find(self, key: SegmentKey) -> Found | None:
        """See Tier.find."""
        return await self._try(self._reads, self._tier.find(key)) if self._reads.allow() else None

    async def put(self, rows: Sequence[Row]) -> bool:
        """See Tier.put; whether it was done."""
        if not self._writes.allow():
            return False
        return await self._try(self._writes, _done(self._tier.put(rows))) or False

    async def touch(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.touch."""
        if self._writes.allow():
            await self._try(self._writes, self._tier.touch(keys))

    async def remove(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.remove."""
        if self._writes.allow():
            await self._try(self._writes, self._tier.remove(keys))

    async def purge(self, tag: str | None) -> int:
        """See Tier.purge; tried whatever the breakers say.

        Raises:
            TierFault: It was not done, or not wholly.
        """
        try:
            return await self._tier.purge(tag)
        except Exception as error:
            fault = _fault(error)
            self._counters.fault(self.name, fault.kind)
            raise fault from error

    async def sweep_step(self) -> Swept:
        """See Tier.sweep_step."""
        swept = await self._try(self._writes, self._tier.sweep_step()) if self._writes.allow() else None
        return swept or Swept()

    async def measure(self) -> Measure | None:
        """See Tier.measure."""
        return await self._try(self._writes, self._tier.measure()) if self._writes.allow() else None

    async def close(self) -> None:
        """See Tier.close."""
        await self._try(self._writes, self._tier.close())

    async def _try(self, breaker: Breaker, call: Awaitable[Result]) -> Result | None:
        try:
            result = await call
        except Exception as error:
            fault = _fault(error)
            self._counters.fault(self.name, fault.kind)
            if breaker.failed():
                log.warning("cache tier %s is skipped for a while after faults in a row: %s", self.name, fault)
            self._counters.skipped(self.name, self._reads.is_open)
            return None
        if breaker.succeeded():
            log.info("cache tier %s works again", self.name)
            self._counters.skipped(self.name, self._reads.is_open)
        return result


def _fault(error: Exception) -> TierFault:
    """What a tier raised; what it made of an answer that it did not foresee is junk, too."""
    return error if isinstance(error, TierFault) else TierFault("junk", repr(error))


async def _done(call: Awaitable[None]) -> bool:
    await call
    return True
