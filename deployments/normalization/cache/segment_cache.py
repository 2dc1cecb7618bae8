"""The cache in front of the models: memory, then SQLite or Redis, then the models; one synthesis per segment."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from deployments.errors import NotReady
from deployments.messages import SegmentAudio
from deployments.metrics import Metrics
from deployments.normalization.cache.entry import Entry, EntryInvalid, decode, keep
from deployments.normalization.cache.guarded import GuardedTier
from deployments.normalization.cache.key import SegmentKey, voice_tag
from deployments.normalization.cache.ledger import Ledger
from deployments.normalization.cache.memory import MemoryTier
from deployments.normalization.cache.metrics import CacheStats, Counters
from deployments.normalization.cache.redis import RedisTier
from deployments.normalization.cache.single_flight import SingleFlight
from deployments.normalization.cache.sqlite import SqliteTier
from deployments.normalization.cache.tier import Lease, Swept, Tier, TierFault
from deployments.normalization.cache.upkeep import Upkeep
from deployments.normalization.cache.worker import Worker
from deployments.normalization.cache.write_behind import WriteBehind
from deployments.settings import CacheSettings

log = logging.getLogger(__name__)
Make = Callable[[], Awaitable[SegmentAudio]]
Source = Literal["memory", "sqlite", "redis", "miss", "bypass"]


@dataclass(frozen=True, slots=True)
class _Outcome:
    audio: SegmentAudio
    source: Source
    made_s: float


@dataclass(frozen=True, slots=True)
class _Look:
    """What the tier had: an entry, or the lease to make one and why there is none ("" where the tier cannot tell)."""

    entry: Entry | None = None
    lease: Lease | None = None
    reason: str = ""


class SegmentCache:
    """Finds a segment or has it made, whatever the tiers do. Belongs to one event loop.

    Args:
        settings: Tiers, bounds and time limits.
        metrics: Gets what metrics.METRICS lists, or None.
        tier: Stands behind the memory in place of the one that the settings name.
        clock: Unix time in seconds.

    Raises:
        ConfigurationInvalid: cache.redis.url is not an address.
    """

    def __init__(
        self,
        settings: CacheSettings,
        metrics: Metrics | None = None,
        *,
        tier: Tier | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._counters = Counters(metrics)
        self._memory = MemoryTier(settings.memory_bytes if settings.enabled else 0, clock)
        self._ledger = Ledger(settings.ledger_entries, settings.touch_interval_s)
        self._flights: SingleFlight[SegmentKey, _Outcome] = SingleFlight()
        self._decoder = Worker("cache-decode")
        tier = tier or _tier_of(settings, clock)
        self._tier = GuardedTier(tier, settings, self._counters) if tier is not None else None
        self._writes = WriteBehind(self._tier, settings, self._counters) if self._tier is not None else None
        self._upkeep = Upkeep(self._tier, self._memory, self._ledger, settings, self._counters)
        self._started = False

    async def start(self) -> None:
        """Looks for the tier, says what it found, begins the upkeep. Never fails; get_or_make() calls it if need be."""
        if not self._started:
            self._started = True
            await self._upkeep.start()

    async def get_or_make(self, key: SegmentKey, make: Make, *, bypass: bool = False) -> tuple[SegmentAudio, Source]:
        """The segment of a key.

        Simultaneous callers share one synthesis: the first makes it in its own task and with its own deadline; if it
        fails or is cancelled, another one makes it. A fault of a tier is never an error here.

        Args:
            key: From key.key_of().
            make: Synthesises the segment; called at most once.
            bypass: True makes it anew, for this caller alone, and keeps the result in place of what was there.

        Returns:
            The samples (read-only) and where they are from. Found segments have stage times of 0.

        Raises:
            Exception: What `make` raised.
        """
        if not self._started:
            await self.start()
        if bypass or not self._settings.enabled:
            self._counters.miss("bypass")
            return (await self._make(key, make, self._memory.epoch(key), None)).audio, "bypass"
        if (entry := self._memory.get(key)) is not None:
            self._count_hit(key, "memory", entry)
            return entry.audio, "memory"
        outcome, is_own = await self._flights.run(key, lambda: self._find_or_make(key, make))
        if not is_own and outcome.source == "miss":
            self._counters.shared(outcome.made_s)
        elif not is_own:
            self._counters.hit(outcome.source, outcome.made_s)
        return outcome.audio, outcome.source

    async def find(self, key: SegmentKey) -> tuple[SegmentAudio, Source] | None:
        """The segment of a key if it is kept, with where it is from; None where it would have to be made.

        Args:
            key: From key.key_of().
        """
        if not self._started:
            await self.start()
        if not self._settings.enabled:
            return None
        if (entry := self._memory.get(key)) is not None:
            self._count_hit(key, "memory", entry)
            return entry.audio, "memory"
        epoch = self._memory.epoch(key)
        look = await self._look(key)
        if look.entry is None or self._tier is None:
            self._release(look.lease)
            return None
        self._memory.put(key, look.entry, epoch)
        self._count_hit(key, self._tier.name, look.entry)
        return look.entry.audio, self._tier.name

    async def purge(self, voice: str | None = None) -> int:
        """Forgets the segments of a voice, or all, in memory and tier; other replicas follow within check_interval_s.

        Args:
            voice: Its name, None for all voices.

        Returns:
            How many entries were removed, those in memory and in the tier counted apart.

        Raises:
            NotReady: The tier did not do it; the memory of this replica is purged all the same.
        """
        tag = None if voice is None else voice_tag(voice)
        num_removed = self._memory.purge(tag)
        self._ledger.forget(tag)
        if self._tier is None or self._writes is None:
            return num_removed
        self._writes.forget(tag)
        self._upkeep.expect_purge(tag)
        try:
            async with self._writes.paused():
                return num_removed + await self._tier.purge(tag)
        except TierFault as fault:
            raise NotReady(f"The cache tier was not purged ({fault.detail}); mend {self._tier.name}, retry.") from fault

    async def sweep_step(self) -> Swept:
        """One short step of removing what expired or went cold; the upkeep makes these by itself."""
        return await self._upkeep.sweep_step()

    async def check(self) -> None:
        """Measures the tiers and follows the purges of other replicas; the upkeep does so by itself."""
        await self._upkeep.check()

    def stats(self) -> CacheStats:
        """What happened since the start."""
        stats = self._counters.snapshot()
        stats.entries["memory"], stats.bytes["memory"] = self._memory.num_entries, self._memory.num_bytes
        return stats

    async def flush(self) -> None:
        """Waits until everything kept so far is written."""
        if self._writes is not None:
            await self._writes.flush()

    async def close(self) -> None:
        """Writes what waits, for flush_timeout_s at most, and gives threads and connections back."""
        self._started = True  # nothing starts any more
        await self._upkeep.close()
        if self._writes is not None and self._tier is not None:
            await self._writes.close()
            await self._tier.close()
        self._decoder.close()

    async def _find_or_make(self, key: SegmentKey, make: Make) -> _Outcome:
        epoch = self._memory.epoch(key)
        look = await self._look(key)
        if look.entry is not None and self._tier is not None:
            self._memory.put(key, look.entry, epoch)
            self._count_hit(key, self._tier.name, look.entry)
            return _Outcome(look.entry.audio, self._tier.name, look.entry.made_s)
        self._counters.miss(look.reason or self._ledger.why_missing(key, self._clock()))
        return await self._make(key, make, epoch, look.lease)

    async def _look(self, key: SegmentKey) -> _Look:
        if self._tier is None or self._writes is None:
            return _Look()
        found = await self._tier.find(key)
        if found is None:
            return _Look(reason="error")
        if found.raw is None:
            return _Look(lease=found.lease, reason="expired" if found.expired else "")
        try:
            entry = await self._decoder.call(decode, key, found.raw)
        except EntryInvalid as error:
            log.warning("dropping a cache entry of tier %s: %s", self._tier.name, error)
            self._counters.fault(self._tier.name, "corrupt")
            self._writes.remove(key)
            return _Look(reason="error")
        return _Look(entry=entry) if entry.expires_at > self._clock() else _Look(reason="expired")

    async def _make(self, key: SegmentKey, make: Make, epoch: int, lease: Lease | None) -> _Outcome:
        started = time.monotonic()
        try:
            audio = await make()
            made_s = time.monotonic() - started
            entry = self._kept(audio, made_s)
        except BaseException:
            self._release(lease)
            raise
        if entry is None or epoch != self._memory.epoch(key):  # not for keeping, or purged meanwhile
            self._release(lease)
            return _Outcome(audio, "miss", made_s)
        self._memory.put(key, entry, epoch)
        self._ledger.kept(key, entry.expires_at, self._clock())
        if self._writes is not None:
            self._writes.store(key, entry, lease)
        own = dataclasses.replace(entry.audio, acoustic_s=audio.acoustic_s, vocoder_s=audio.vocoder_s)
        return _Outcome(own, "miss", made_s)

    def _kept(self, audio: SegmentAudio, made_s: float) -> Entry | None:
        if not self._settings.enabled or audio.pcm_S.nbytes > self._settings.max_entry_bytes:
            return None
        try:
            return keep(audio, made_s, self._clock() + self._settings.ttl_s)
        except EntryInvalid as error:
            log.warning("a segment is not fit for the cache: %s", error)
            return None

    def _count_hit(self, key: SegmentKey, source: str, entry: Entry) -> None:
        self._counters.hit(source, entry.made_s)
        if self._writes is not None and self._ledger.touch_due(key, entry.expires_at, self._clock()):
            self._writes.touch(key)

    def _release(self, lease: Lease | None) -> None:
        if self._writes is not None:
            self._writes.release(lease)


def _tier_of(settings: CacheSettings, clock: Callable[[], float]) -> Tier | None:
    if not settings.enabled or settings.tier == "none":
        return None
    if settings.tier == "redis":
        return RedisTier(
            settings.redis, cold_after_s=settings.cold_after_s, sweep_rows=settings.sweep_rows, clock=clock
        )
    return SqliteTier(settings.sqlite, cold_after_s=settings.cold_after_s, sweep_rows=settings.sweep_rows, clock=clock)
