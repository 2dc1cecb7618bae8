"""What became of recent segments: tells why one misses and when its last use is worth noting again."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from deployments.normalization.cache.key import SegmentKey, tag_of


@dataclass(slots=True)
class _Fate:
    expires_at: float
    touched_at: float


class Ledger:
    """The segments that were kept or found last, oldest forgotten first.

    Args:
        max_entries: How many are remembered.
        touch_interval_s: Seconds between notes of the same segment's last use.
    """

    def __init__(self, max_entries: int, touch_interval_s: float) -> None:
        self._max_entries = max_entries
        self._touch_interval_s = touch_interval_s
        self._fates: OrderedDict[SegmentKey, _Fate] = OrderedDict()

    def kept(self, key: SegmentKey, expires_at: float, now: float) -> None:
        """Notes that the segment was stored or used."""
        self._fates[key] = _Fate(expires_at, now)
        self._fates.move_to_end(key)
        while len(self._fates) > self._max_entries:
            self._fates.popitem(last=False)

    def touch_due(self, key: SegmentKey, expires_at: float, now: float) -> bool:
        """Whether the use of now should be noted in the tier; if so it is taken as noted."""
        fate = self._fates.get(key)
        if fate is not None and now - fate.touched_at < self._touch_interval_s:
            return False
        self.kept(key, expires_at, now)
        return True

    def why_missing(self, key: SegmentKey, now: float) -> str:
        """Why a segment that no tier has is not there: "new", "expired" or "evicted"."""
        fate = self._fates.get(key)
        if fate is None:
            return "new"
        return "expired" if fate.expires_at <= now else "evicted"

    def forget(self, tag: str | None) -> None:
        """Forgets the segments of one voice, or all: what was purged is new again."""
        if tag is None:
            self._fates.clear()
            return
        for key in [key for key in self._fates if tag_of(key) == tag]:
            del self._fates[key]
