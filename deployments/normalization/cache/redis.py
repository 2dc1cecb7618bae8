"""The Redis tier: shared by replicas and machines, with a claim on what is being made.

A claim lasts for lock_ms and renews itself while its holder makes the segment and writes it. Whoever finds a claim
looks again every lock_poll_ms: the entry is there, or the claim is gone (its holder failed or died) and becomes the
looker's.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Literal

from deployments.normalization.cache import redis_scripts as scripts
from deployments.normalization.cache.entry import ENTRY_VERSION
from deployments.normalization.cache.key import SegmentKey
from deployments.normalization.cache.tier import Found, Measure, Row, Swept, TierFault
from deployments.redis_client import RedisClient
from deployments.settings import RedisCacheSettings

_PURGE_KEYS: Final = 500


class RedisTier:
    """Entries, their sizes and last uses in one Redis.

    Args:
        settings: Address, size and time limits.
        cold_after_s: Entries not used for this long are swept.
        sweep_rows: Entries per step of a sweep, about.
        clock: Unix time in seconds.
    """

    name: Literal["redis"] = "redis"

    def __init__(
        self,
        settings: RedisCacheSettings,
        *,
        cold_after_s: float,
        sweep_rows: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._cold_after_s = cold_after_s
        self._sweep_rows = sweep_rows
        self._clock = clock
        self._sweep_cursor = 0
        self._farewells: set[asyncio.Task[None]] = set()
        self._base = f"{{{settings.prefix}:v{ENTRY_VERSION}}}"
        self._books = [f"{self._base}:{part}" for part in ("used", "size", "total")]
        self._entries = f"{self._base}:e:"
        self._client = RedisClient(settings, settings.read_timeout_ms / 1e3, settings.write_timeout_ms / 1e3, TierFault)
        self._redis = self._client.commands
        self._find_or_claim = self._redis.register_script(scripts.FIND_OR_CLAIM)
        self._store = self._redis.register_script(scripts.STORE)
        self._forget = self._redis.register_script(scripts.FORGET)
        self._renew = self._redis.register_script(scripts.RENEW)
        self._release = self._redis.register_script(scripts.RELEASE)

    @property
    def where(self) -> str:
        """The address without user and password."""
        return self._client.where

    async def find(self, key: SegmentKey) -> Found:
        """See Tier.find; waits lock_wait_ms at most for another process."""
        token = secrets.token_hex(8)
        give_up_at = asyncio.get_running_loop().time() + self._settings.lock_wait_ms / 1e3
        keys = [f"{self._entries}{key}", f"{self._base}:l:{key}"]
        while True:
            call = self._client.begin(self._find_or_claim(keys=keys, args=[token, self._settings.lock_ms]))
            try:
                reply = await self._client.reply(call)
            except BaseException:  # also a cancelled caller: Redis may grant the claim nobody waits for
                self._later(self._unclaim(call, keys[1], token))
                raise
            if isinstance(reply, bytes):
                return Found(raw=reply)
            if reply == 1:
                return Found(lease=_RedisLease(self, keys[1], token, self._settings.lock_ms / 1e3))
            if reply not in (0, 2):
                raise TierFault("junk", f"{self.where}: {reply!r:.80} is no answer")
            if reply == 2 or asyncio.get_running_loop().time() >= give_up_at:
                return Found()
            await asyncio.sleep(self._settings.lock_poll_ms / 1e3)

    async def put(self, rows: Sequence[Row]) -> None:
        """See Tier.put."""
        for row in rows:
            ttl_ms = int((row.expires_at - self._clock()) * 1e3)
            if ttl_ms <= 0 or len(row.raw) > self._settings.max_bytes // 2:
                continue
            args: list[Any] = [self._entries, row.key, row.raw, ttl_ms, self._clock(), self._settings.max_bytes]
            await self._client.write(self._store(keys=self._books, args=args))

    async def touch(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.touch."""
        uses: dict[str, float] = dict.fromkeys(keys, self._clock())
        await self._client.write(self._redis.zadd(self._books[0], uses, xx=True))

    async def remove(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.remove."""
        await self._client.write(self._forget(keys=self._books, args=[self._entries, *keys]))

    async def purge(self, tag: str | None) -> int:
        """See Tier.purge; goes through all names and not the books alone, which may be damaged."""
        await self._client.write(self._redis.hincrby(f"{self._base}:purges", tag or "", 1))
        if tag is None:
            await self._client.write(self._redis.delete(*self._books))
        pattern = f"{self._entries}{'' if tag is None else tag + '-'}*"
        total = cursor = 0
        while True:
            scan = self._redis.scan(cursor, match=pattern, count=_PURGE_KEYS)
            cursor, found = await self._client.write(scan)
            if found and tag is None:
                await self._client.write(self._redis.unlink(*found))
            elif found:
                await self.remove([SegmentKey(name.decode()[len(self._entries) :]) for name in found])
            total += len(found)
            if not cursor:
                return total

    async def sweep_step(self) -> Swept:
        """See Tier.sweep_step; also strikes out of the books what Redis itself has removed."""
        scan = self._redis.zscan(self._books[0], self._sweep_cursor, count=self._sweep_rows)
        self._sweep_cursor, uses = await self._client.write(scan)
        cold_before = self._clock() - self._cold_after_s
        there = await self._client.write(self._exist([key.decode() for key, _ in uses]))
        seen = zip(uses, there, strict=True)
        stale = [SegmentKey(key.decode()) for (key, used_at), exists in seen if not exists or used_at < cold_before]
        if stale:
            await self.remove(stale)
        return Swept(len(stale), more=self._sweep_cursor != 0)

    async def measure(self) -> Measure:
        """See Tier.measure."""
        num_entries, total, purges = await self._client.write(self._sizes())
        return Measure(num_entries, int(total or 0), {tag.decode(): int(number) for tag, number in purges.items()})

    async def close(self) -> None:
        """See Tier.close."""
        if self._farewells:
            await asyncio.wait(self._farewells)
        await self._client.close()

    async def let_go(self, claim: str, token: str) -> None:
        """Gives a claim up if it is still the token's; where that fails it expires by itself."""
        with contextlib.suppress(TierFault):
            await self._client.write(self._release(keys=[claim], args=[token]))

    async def extend(self, claim: str, token: str) -> bool:
        """Makes a claim last for another lock_ms; False when it is no longer the token's."""
        args: list[Any] = [token, self._settings.lock_ms]
        return bool(await self._client.write(self._renew(keys=[claim], args=args)))

    async def _unclaim(self, call: asyncio.Task[Any], claim: str, token: str) -> None:
        """Waits for the call that may have got a claim, and gives the claim up."""
        await asyncio.wait({call})
        if call.exception() is not None or call.result() == 1:
            await self.let_go(claim, token)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def _exist(self, keys: Sequence[str]) -> list[int]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.exists(self._entries + key)
            return await pipeline.execute() if keys else []

    async def _sizes(self) -> list[Any]:
        async with self._redis.pipeline(transaction=False) as pipeline:
            pipeline.zcard(self._books[0])
            pipeline.get(self._books[2])
            pipeline.hgetall(f"{self._base}:purges")
            return await pipeline.execute()


class _RedisLease:
    """A claim that renews itself until it is released or lost."""

    def __init__(self, tier: RedisTier, claim: str, token: str, lock_s: float) -> None:
        self._tier = tier
        self._claim = claim
        self._token = token
        self._renewals = asyncio.get_running_loop().create_task(self._renew(lock_s / 3))

    async def release(self) -> None:
        """See Lease.release."""
        self._renewals.cancel()
        await self._tier.let_go(self._claim, self._token)

    async def _renew(self, pause_s: float) -> None:
        held = True
        while held:
            await asyncio.sleep(pause_s)
            with contextlib.suppress(TierFault):  # tried again after the pause; it may be lost meanwhile
                held = await self._tier.extend(self._claim, self._token)
