"""What the cache asks of a tier behind the memory, and the faults a tier may report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from deployments.normalization.cache.key import SegmentKey

FaultKind = Literal["slow", "gone", "full", "corrupt", "junk"]


class TierFault(Exception):
    """A tier did not do what it was asked; the models serve instead.

    Args:
        kind: "slow" (no answer in time), "gone" (unreachable, locked, no permission, I/O error), "full" (no space),
            "corrupt" (the store is damaged and was set aside), "junk" (an answer that makes no sense).
        detail: For the log.
    """

    def __init__(self, kind: FaultKind, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Row:
    """An entry on its way into a tier.

    Attributes:
        key: What it is filed under.
        raw: The encoded entry.
        expires_at: Unix time.
    """

    key: SegmentKey
    raw: bytes
    expires_at: float


class Lease(Protocol):
    """The right to make a segment that other processes wait for. It renews itself until it is released."""

    async def release(self) -> None:
        """Lets the others go on: they find the entry, or one of them takes over. Never raises."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a tier knows of a key.

    Attributes:
        raw: The encoded entry, or None.
        lease: Held now by the caller, where the tier has such a thing and there is no entry.
        expired: Whether there was an entry and its time was up, where the tier can tell.
    """

    raw: bytes | None = None
    lease: Lease | None = None
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """The state of a tier.

    Attributes:
        num_entries: Entries in it, expired ones that are not yet swept included.
        num_bytes: Bytes that they take.
        purges: Purges so far by tag of the voice, "" for those of all; by whichever process.
    """

    num_entries: int = 0
    num_bytes: int = 0
    purges: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Swept:
    """What one step of a sweep did.

    Attributes:
        removed: Entries.
        more: Whether another step has something to look at.
    """

    removed: int = 0
    more: bool = False


class Tier(Protocol):
    """A store behind the memory, perhaps shared by processes. Every call may raise TierFault.

    Any call opens what it needs, so a tier that was absent at the start is used as soon as it is there.
    """

    @property
    def name(self) -> Literal["sqlite", "redis"]:
        """As in x-cache and the metrics."""

    @property
    def where(self) -> str:
        """For the log, without passwords."""

    async def find(self, key: SegmentKey) -> Found:
        """Looks an entry up. Where the tier has leases it waits for another process that makes the segment."""

    async def put(self, rows: Sequence[Row]) -> None:
        """Stores entries; makes room by removing those that were not used for longest."""

    async def touch(self, keys: Sequence[SegmentKey]) -> None:
        """Notes that entries were used."""

    async def remove(self, keys: Sequence[SegmentKey]) -> None:
        """Removes entries."""

    async def purge(self, tag: str | None) -> int:
        """Removes all entries of a voice, or all; tells the other processes; returns how many there were."""

    async def sweep_step(self) -> Swept:
        """One short step of removing what expired or went cold."""

    async def measure(self) -> Measure:
        """Sizes, and purges by any process."""

    async def close(self) -> None:
        """Gives connections and threads back."""
