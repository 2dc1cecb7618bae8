"""Whatever fails, is cancelled or overtaken: nobody hangs, and nobody hears anything but what belongs to the key."""

import asyncio
from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.normalization.cache.tier import Found, Measure, Swept, TierFault
from deployments.settings import CacheSettings


async def ticks(number):
    for _ in range(number):
        await asyncio.sleep(0)


class Failed(Exception):
    pass


class UnreliableTier:
    """A tier in memory with leases, each of whose answers is what the plan says: fine, a fault, or damaged bytes."""

    name = "redis"
    where = "here"

    def __init__(self, plan):
        self._plan = plan
        self._at = 0
        self._rows = {}
        self.leases = 0

    async def _answer(self):
        mood = self._plan[self._at % len(self._plan)] if self._plan else "fine"
        self._at += 1
        await ticks(self._at % 3)
        if mood == "fault":
            raise TierFault("gone", "as planned")
        return mood

    async def find(self, key):
        mood = await self._answer()
        if key not in self._rows:
            self.leases += 1
            return Found(lease=self)
        raw = self._rows[key]
        if mood == "damaged":
            raw = raw[:-1] + bytes([raw[-1] ^ 1])
        if mood == "swapped":
            raw = next(iter(self._rows.values()))
        return Found(raw=raw)

    async def release(self):
        self.leases -= 1

    async def put(self, rows):
        await self._answer()
        self._rows.update({row.key: row.raw for row in rows})

    async def touch(self, keys):
        await self._answer()

    async def remove(self, keys):
        await self._answer()
        for key in keys:
            self._rows.pop(key, None)

    async def purge(self, tag):
        await self._answer()
        self._rows.clear()
        return 0

    async def sweep_step(self):
        return Swept()

    async def measure(self):
        return Measure()

    async def close(self):
        pass


@dataclass(frozen=True)
class Caller:
    key: int
    arrives: int
    takes: int
    fails: bool
    cancelled_at: int | None
    bypass: bool


callers = st.builds(
    Caller,
    key=st.integers(0, 1),
    arrives=st.integers(0, 12),
    takes=st.integers(0, 6),
    fails=st.booleans(),
    cancelled_at=st.none() | st.integers(0, 25),
    bypass=st.booleans(),
)
calm = st.builds(
    Caller,
    key=st.integers(0, 1),
    arrives=st.integers(0, 12),
    takes=st.integers(0, 6),
    fails=st.just(False),
    cancelled_at=st.none(),
    bypass=st.just(False),
)
moods = st.lists(st.sampled_from(["fine", "fine", "fault", "damaged", "swapped"]), max_size=12)


async def play(tools, plan, mood_plan, purge_at, memory_bytes, check):
    """Runs the callers tick by tick, then check(their tasks, the keys that were made, leases and flights left over)."""
    tier = UnreliableTier(mood_plan)
    cache = SegmentCache(
        CacheSettings(memory_bytes=memory_bytes, breaker_failures=3, breaker_open_s=1e-6, codec="pcm"), tier=tier
    )
    await cache.start()
    made = []

    async def one(number, caller):
        key = tools.key(str(caller.key))

        async def make():
            made.append(caller.key)
            await ticks(caller.takes)
            if caller.fails:
                raise Failed(number)
            return tools.audio(key)

        await ticks(caller.arrives)
        return await cache.get_or_make(key, make, bypass=caller.bypass)

    tasks = [asyncio.create_task(one(*numbered)) for numbered in enumerate(plan)]
    for tick in range(26):
        for task, caller in zip(tasks, plan, strict=False):  # a purge may stand behind them
            if caller.cancelled_at == tick:
                task.cancel()
        if purge_at == tick:
            tasks.append(asyncio.create_task(cache.purge("demo")))
        await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)  # nobody hangs
    await asyncio.wait_for(cache.flush(), 5)
    leftover = (tier.leases, cache._flights.num_flights)
    await cache.close()
    check(tasks[: len(plan)], made, leftover)


# The fixture holds only functions, so that sharing it between examples is sound.
shared = [HealthCheck.function_scoped_fixture]


@given(st.lists(callers, min_size=1, max_size=7), moods, st.none() | st.integers(0, 20), st.sampled_from([0, 1 << 20]))
@settings(max_examples=100, deadline=None, suppress_health_check=shared)
def test_everybody_hears_what_belongs_to_the_key_or_learns_what_happened_to_themselves(
    tools, plan, mood_plan, purge_at, size
):
    def check(tasks, made, leftover):
        assert leftover == (0, 0), "a lease or a flight was left behind"
        assert len(made) <= len(plan)
        for number, (task, caller) in enumerate(zip(tasks, plan, strict=True)):
            if task.cancelled():
                assert caller.cancelled_at is not None
            elif task.exception() is not None:
                assert task.exception().args == (number,), "somebody else's error"
            else:
                audio, source = task.result()
                assert tools.same(audio, tools.audio(tools.key(str(caller.key))))
                assert (source == "bypass") == caller.bypass

    asyncio.run(play(tools, plan, mood_plan, purge_at, size, check))


@given(st.lists(calm, min_size=1, max_size=7))
@settings(max_examples=50, deadline=None, suppress_health_check=shared)
def test_when_nothing_fails_each_key_is_made_once(tools, plan):
    def check(tasks, made, leftover):
        assert sorted(made) == sorted({caller.key for caller in plan})
        assert leftover == (0, 0)
        assert all(task.exception() is None for task in tasks)

    asyncio.run(play(tools, plan, [], None, 1 << 20, check))


async def test_a_purge_comes_after_the_write_that_is_under_way(tools):
    begun, go = asyncio.Event(), asyncio.Event()

    class SlowTier(UnreliableTier):
        async def put(self, rows):
            begun.set()
            await go.wait()
            await super().put(rows)

    tier = SlowTier([])
    cache = SegmentCache(CacheSettings(memory_bytes=0), tier=tier)
    key = tools.key("a")

    async def make():
        return tools.audio(key)

    await cache.get_or_make(key, make)
    await begun.wait()
    purge = asyncio.create_task(cache.purge("demo"))
    await ticks(10)
    go.set()
    await purge
    await cache.flush()
    assert (await cache.get_or_make(key, make))[1] == "miss"
    await cache.close()
