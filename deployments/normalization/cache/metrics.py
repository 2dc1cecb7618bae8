"""What the cache counts, for stats() and for a metrics system."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deployments.metrics import Metric, Metrics

METRICS: Final = (
    Metric("cache_hits", "count", "Segments found, by tier (memory, sqlite, redis)", ("tier",)),
    Metric("cache_misses", "count", "Segments synthesised: new, expired, evicted, bypass, error", ("reason",)),
    Metric("cache_shared", "count", "Segments that waited for the synthesis of another request"),
    Metric("cache_saved_seconds", "count", "Synthesis time that hits and shared segments did not take"),
    Metric("cache_faults", "count", "Faults of a tier: slow, gone, full, corrupt, junk", ("tier", "kind")),
    Metric("cache_dropped_writes", "count", "Entries not written: queue full, tier skipped or failed"),
    Metric("cache_entries", "gauge", "Entries in a tier", ("tier",)),
    Metric("cache_bytes", "gauge", "Bytes that the entries of a tier take", ("tier",)),
    Metric("cache_skipped", "gauge", "1 while a tier is skipped after faults, else 0", ("tier",)),
    Metric("cache_hit_rate", "gauge", "Hits by all segments asked for, since the start"),
)


@dataclass(slots=True)
class CacheStats:
    """Counts since the start.

    Attributes:
        hits: By tier.
        misses: By reason.
        shared: Segments that waited for the synthesis of another request; neither hit nor miss.
        saved_s: Synthesis seconds that hits and shared segments did not take.
        faults: By "tier kind".
        dropped_writes: Entries that were not written.
        entries: By tier, at the last check.
        bytes: By tier, at the last check.
        skipped: Tiers that are skipped after faults.
    """

    hits: dict[str, int] = field(default_factory=dict)
    misses: dict[str, int] = field(default_factory=dict)
    shared: int = 0
    saved_s: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    dropped_writes: int = 0
    entries: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Hits by all segments asked for; 0 before the first."""
        num_hits = sum(self.hits.values())
        return num_hits / max(1, num_hits + self.shared + sum(self.misses.values()))


class Counters:
    """Keeps CacheStats and passes each change on.

    Args:
        metrics: Where to, or None.
    """

    def __init__(self, metrics: Metrics | None = None) -> None:
        self._metrics = metrics
        self._stats = CacheStats()

    def snapshot(self) -> CacheStats:
        """A copy of the counts of now."""
        return copy.deepcopy(self._stats)

    def hit(self, tier: str, saved_s: float) -> None:
        """A segment was found."""
        self._stats.hits[tier] = self._stats.hits.get(tier, 0) + 1
        self._count("cache_hits", 1, {"tier": tier})
        self._saved(saved_s)

    def miss(self, reason: str) -> None:
        """A segment is going to be synthesised."""
        self._stats.misses[reason] = self._stats.misses.get(reason, 0) + 1
        self._count("cache_misses", 1, {"reason": reason})

    def shared(self, saved_s: float) -> None:
        """A segment was made for another request."""
        self._stats.shared += 1
        self._count("cache_shared", 1, {})
        self._saved(saved_s)

    def fault(self, tier: str, kind: str) -> None:
        """A tier failed."""
        name = f"{tier} {kind}"
        self._stats.faults[name] = self._stats.faults.get(name, 0) + 1
        self._count("cache_faults", 1, {"tier": tier, "kind": kind})

    def dropped(self, num_writes: int) -> None:
        """Entries were not written."""
        self._stats.dropped_writes += num_writes
        self._count("cache_dropped_writes", num_writes, {})

    def size(self, tier: str, num_entries: int, num_bytes: int) -> None:
        """A tier was measured."""
        self._stats.entries[tier] = num_entries
        self._stats.bytes[tier] = num_bytes
        self._gauge("cache_entries", num_entries, {"tier": tier})
        self._gauge("cache_bytes", num_bytes, {"tier": tier})
        self._gauge("cache_hit_rate", self._stats.hit_rate, {})

    def skipped(self, tier: str, is_skipped: bool) -> None:
        """A tier is left alone, or used again."""
        self._stats.skipped = [tier] if is_skipped else []
        self._gauge("cache_skipped", float(is_skipped), {"tier": tier})

    def _saved(self, saved_s: float) -> None:
        self._stats.saved_s += saved_s
        self._count("cache_saved_seconds", saved_s, {})

    def _count(self, name: str, amount: float, tags: Mapping[str, str]) -> None:
        if self._metrics is not None and amount > 0:
            self._metrics.count(name, amount, tags)

    def _gauge(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        if self._metrics is not None:
            self._metrics.gauge(name, value, tags)
