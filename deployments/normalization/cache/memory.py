"""The memory tier: decoded segments, bounded by bytes, with TinyLFU admission.

TinyLFU lets an entry in only when it was asked for more often than all the entries that would have to make room for it
together, so one long rare segment does not push out many short frequent ones. All calls come from the event loop.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from moka_py import Moka

from deployments.normalization.cache.entry import Entry
from deployments.normalization.cache.key import SegmentKey, tag_of

_OVERHEAD_BYTES = 1024  # objects around the samples, key and index


def weight_of(entry: Entry) -> int:
    """Bytes that an entry takes in memory."""
    return entry.audio.pcm_S.nbytes + entry.audio.frames_T.nbytes + _OVERHEAD_BYTES


class MemoryTier:
    """Entries by key, and the purges that tell which of them no longer count.

    Args:
        max_bytes: Of all entries together; 0 keeps none.
        clock: Unix time in seconds.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._by_tag: defaultdict[str, set[SegmentKey]] = defaultdict(set)
        self._purges: defaultdict[str | None, int] = defaultdict(int)
        self._cache: Moka[SegmentKey, tuple[Entry, int]] = Moka(
            max(1, max_bytes), weigher=lambda _key, kept: weight_of(kept[0]), eviction_listener=self._dropped
        )

    def epoch(self, key: SegmentKey) -> int:
        """A number that grows with each purge that covers the key; work begun in an older one is not kept."""
        return self._purges[None] + self._purges[tag_of(key)]

    def get(self, key: SegmentKey) -> Entry | None:
        """The entry, unless it is not there, expired or purged."""
        kept = self._cache.get(key)
        if kept is None:
            return None
        entry, epoch = kept
        if epoch != self.epoch(key) or entry.expires_at <= self._clock():
            self._cache.remove(key)
            self._cache.run_pending_tasks()
            return None
        return entry

    def put(self, key: SegmentKey, entry: Entry, epoch: int) -> None:
        """Keeps an entry if it is worth it; ignores one that expired or was begun before a purge."""
        ttl_s = entry.expires_at - self._clock()
        if ttl_s <= 0 or epoch != self.epoch(key) or not self._max_bytes:
            return
        self._by_tag[tag_of(key)].add(key)
        self._cache.set(key, (entry, epoch), ttl=ttl_s)
        self._cache.run_pending_tasks()  # makes room now and not some puts later: the bound is one at any time

    def purge(self, tag: str | None) -> int:
        """Forgets the entries of one voice, or all; returns how many there were."""
        self._purges[tag] += 1
        if tag is None:
            keys = set().union(*self._by_tag.values())
            self._cache.clear()
            self._by_tag.clear()
        else:
            keys = self._by_tag.pop(tag, set())
            for key in keys:
                self._cache.remove(key)
        self._cache.run_pending_tasks()
        return len(keys)

    @property
    def num_entries(self) -> int:
        """Entries that are kept."""
        return self._cache.count()

    @property
    def num_bytes(self) -> int:
        """Bytes that they take."""
        return self._cache.weighted_size()

    def _dropped(self, key: SegmentKey, _kept: tuple[Entry, int], cause: str) -> None:
        if cause != "replaced":
            self._by_tag[tag_of(key)].discard(key)
