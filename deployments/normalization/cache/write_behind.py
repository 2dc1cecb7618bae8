"""Writes off the request path: a bounded queue and one task that empties it into the tier."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from deployments.normalization.cache.entry import Entry, encode
from deployments.normalization.cache.guarded import GuardedTier
from deployments.normalization.cache.key import SegmentKey, tag_of
from deployments.normalization.cache.memory import weight_of
from deployments.normalization.cache.metrics import Counters
from deployments.normalization.cache.tier import Lease, Row
from deployments.normalization.cache.worker import Worker
from deployments.settings import CacheSettings

log = logging.getLogger(__name__)
_BATCH = 16  # writes that go together


@dataclass(frozen=True, slots=True)
class _Store:
    key: SegmentKey
    entry: Entry
    lease: Lease | None


class WriteBehind:
    """Stores, touches and removes entries behind the caller's back; what does not fit the queue is dropped.

    Args:
        tier: Where to.
        settings: Bounds of the queue, and how audio is encoded.
        counters: Where dropped writes are counted.
    """

    def __init__(self, tier: GuardedTier, settings: CacheSettings, counters: Counters) -> None:
        self._tier = tier
        self._settings = settings
        self._counters = counters
        self._encoder = Worker("cache-encode")
        self._stores: deque[_Store] = deque()
        self._num_bytes = 0
        self._touched: dict[SegmentKey, None] = {}
        self._removed: dict[SegmentKey, None] = {}
        self._writing = asyncio.Lock()
        self._pending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._farewells: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def store(self, key: SegmentKey, entry: Entry, lease: Lease | None) -> None:
        """Will store an entry and then release the lease."""
        num_bytes = weight_of(entry)
        fits = len(self._stores) < self._settings.max_pending_writes
        if self._closed or not fits or self._num_bytes + num_bytes > self._settings.max_pending_bytes:
            self._counters.dropped(1)
            self.release(lease)
            return
        self._num_bytes += num_bytes
        self._stores.append(_Store(key, entry, lease))
        self._wake()

    def touch(self, key: SegmentKey) -> None:
        """Will note that an entry was used."""
        self._note(self._touched, key)

    def remove(self, key: SegmentKey) -> None:
        """Will remove an entry."""
        self._note(self._removed, key)

    def release(self, lease: Lease | None) -> None:
        """Will release a lease without storing anything."""
        if lease is not None:
            task = asyncio.get_running_loop().create_task(lease.release())
            self._farewells.add(task)
            task.add_done_callback(self._farewells.discard)

    def forget(self, tag: str | None) -> None:
        """Drops what waits to be stored for a voice, or for all."""
        kept: deque[_Store] = deque()
        for write in self._stores:
            if tag is None or tag_of(write.key) == tag:
                self._num_bytes -= weight_of(write.entry)
                self.release(write.lease)
            else:
                kept.append(write)
        self._stores = kept

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Keeps all writes off the tier, after those that are under way."""
        async with self._writing:
            yield

    async def flush(self) -> None:
        """Waits until everything that waits now and later is written."""
        await self._idle.wait()
        if self._farewells:
            await asyncio.wait(self._farewells)

    async def close(self) -> None:
        """Takes nothing more, writes for flush_timeout_s at most, and drops the rest."""
        self._closed = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.flush(), self._settings.flush_timeout_s)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._stores:
            log.warning("%d cache entries were not written before the end", len(self._stores))
            self._counters.dropped(len(self._stores))
            self.forget(None)
        if self._farewells:
            await asyncio.wait(self._farewells)
        self._encoder.close()

    def _note(self, notes: dict[SegmentKey, None], key: SegmentKey) -> None:
        if not self._closed and len(notes) < self._settings.max_pending_writes:
            notes[key] = None
            self._wake()

    def _wake(self) -> None:
        self._idle.clear()
        self._pending.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self._pending.wait()
            try:
                async with self._writing:
                    await self._write_some()
            except Exception:
                log.exception("writing to the cache failed")  # a fault of this code: the queue must go on
            if not (self._stores or self._touched or self._removed):
                self._pending.clear()
                self._idle.set()

    async def _write_some(self) -> None:
        removed, self._removed = list(self._removed), {}
        touched, self._touched = list(self._touched), {}
        stores = [self._stores.popleft() for _ in range(min(_BATCH, len(self._stores)))]
        self._num_bytes -= sum(weight_of(write.entry) for write in stores)
        try:
            if removed:
                await self._tier.remove(removed)
            rows = [row for write in stores if (row := await self._encoded(write)) is not None]
            stored = bool(rows) and await self._tier.put(rows)
            self._counters.dropped(len(stores) - (len(rows) if stored else 0))
            if touched:
                await self._tier.touch(touched)
        finally:
            for write in stores:
                self.release(write.lease)

    async def _encoded(self, write: _Store) -> Row | None:
        try:
            raw = await self._encoder.call(encode, write.key, write.entry, self._settings.codec)
        except Exception:
            log.exception("a segment could not be encoded for the cache")
            return None
        return Row(write.key, raw, write.entry.expires_at)
