"""The Redis tier on a real Redis: entries, bounds, books, purges, claims."""

import asyncio
import time

import pytest
import redis

from deployments.normalization.cache.key import voice_tag
from deployments.normalization.cache.redis import RedisTier
from deployments.normalization.cache.tier import Found, Row, TierFault
from deployments.settings import RedisCacheSettings


class Clock:
    def __init__(self):
        self.offset = 0.0

    def __call__(self):
        return time.time() + self.offset


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
async def open_tier(redis_server, clock):
    tiers = []

    def open_(cold_after_s=1000.0, sweep_rows=10, **settings):
        settings = {
            "lock_poll_ms": 5,
            "url": redis_server.url,
            "read_timeout_ms": 10_000,
            "write_timeout_ms": 10_000,
            **settings,
        }
        tier = RedisTier(RedisCacheSettings(**settings), cold_after_s=cold_after_s, sweep_rows=sweep_rows, clock=clock)
        tiers.append(tier)
        return tier

    yield open_
    for tier in tiers:
        await tier.close()


@pytest.fixture
def plain(redis_server):
    with redis.Redis(port=redis_server.port, decode_responses=False) as client:
        yield client


@pytest.fixture
def row(tools, clock):
    def row_(text, num_bytes=1000, ttl_s=5000.0, name="demo"):
        key = tools.key(text, name)
        return Row(key, (key.encode() * (num_bytes // 50 + 1))[:num_bytes], clock() + ttl_s)

    return row_


async def raw_of(tier, key):
    """What the tier has, giving the claim back where it has nothing."""
    found = await tier.find(key)
    if found.lease is not None:
        await found.lease.release()
    return found.raw


async def test_rows_come_back_and_carry_an_expiry(open_tier, row, plain):
    tier = open_tier()
    rows = [row("a", 1), row("b", 200_000)]
    await tier.put(rows)
    assert [await raw_of(tier, each.key) for each in rows] == [each.raw for each in rows]
    names = plain.keys("*:e:*")
    assert len(names) == 2
    assert all(4_990_000 < plain.pttl(name) <= 5_000_000 for name in names)
    await tier.remove([rows[0].key])
    assert await raw_of(tier, rows[0].key) is None
    measure = await tier.measure()
    assert (measure.num_entries, measure.num_bytes) == (1, 200_000)


async def test_expired_rows_are_not_written_and_redis_forgets_the_others(open_tier, row):
    tier = open_tier()
    await tier.put([row("past", ttl_s=-1), row("soon", ttl_s=0.05)])
    assert await raw_of(tier, row("past").key) is None
    await asyncio.sleep(0.1)  # the expiry is Redis' own clock, there is nothing to await
    assert await raw_of(tier, row("soon").key) is None


async def test_bytes_are_bounded_and_the_longest_unused_goes_first(open_tier, row, clock):
    tier = open_tier(max_bytes=65_536)
    await tier.put([row("used")])
    for number in range(120):
        clock.offset += 1
        await tier.put([row(str(number))])
        await tier.touch([row("used").key])
        measure = await tier.measure()
        assert measure.num_bytes == 1000 * measure.num_entries <= 65_536
    assert await raw_of(tier, row("used").key) is not None
    assert await raw_of(tier, row("119").key) is not None
    assert await raw_of(tier, row("0").key) is None
    assert measure.num_entries == 65


async def test_an_entry_as_large_as_the_bound_is_not_kept(open_tier, row):
    tier = open_tier(max_bytes=65_536)
    await tier.put([row("large", 40_000)])
    assert await raw_of(tier, row("large").key) is None


async def test_writing_twice_counts_once(open_tier, row):
    tier = open_tier()
    await tier.put([row("a", 1000), row("a", 300)])
    measure = await tier.measure()
    assert (measure.num_entries, measure.num_bytes) == (1, 300)


async def test_the_sweep_removes_cold_entries_and_mends_the_books(open_tier, row, clock, plain):
    tier = open_tier(cold_after_s=1000, sweep_rows=10)
    await tier.put([row(str(number), ttl_s=9000) for number in range(300)])
    clock.offset += 900
    warm = [row(str(number)).key for number in range(100)]
    await tier.touch(warm)
    clock.offset += 200
    plain.delete(
        *[name for name in plain.keys("*:e:*") if name.decode().endswith(warm[0])]
    )  # as an evicting Redis does
    removed, more = 0, True
    while more:
        swept = await tier.sweep_step()
        removed, more = removed + swept.removed, swept.more
    assert removed == 201
    measure = await tier.measure()
    assert (measure.num_entries, measure.num_bytes) == (99, 99_000)


async def test_purge_of_a_voice_and_of_all(open_tier, row, plain):
    tier = open_tier()
    await tier.put([row(str(n), 10, name=name) for n in range(300) for name in ("mine", "yours")])
    plain.set("somebody else's", "stays")
    plain.delete("{sambert:v1}:used")  # even with the books gone nothing is left behind
    assert await tier.purge(voice_tag("mine")) == 300
    assert await raw_of(tier, row("0", name="mine").key) is None
    assert await raw_of(tier, row("0", name="yours").key) is not None
    assert await tier.purge(None) == 300
    assert set(plain.keys()) == {b"somebody else's", b"{sambert:v1}:purges"}
    measure = await tier.measure()
    assert (measure.num_entries, measure.num_bytes) == (0, 0)
    assert measure.purges == {voice_tag("mine"): 1, "": 1}


async def test_prefixes_keep_services_apart(open_tier, row):
    left, right = open_tier(prefix="left"), open_tier(prefix="right")
    await left.put([row("a")])
    assert await raw_of(right, row("a").key) is None
    await right.purge(None)
    assert await raw_of(left, row("a").key) is not None


async def test_one_claim_at_a_time_and_the_waiter_gets_the_entry(open_tier, row):
    left, right = open_tier(), open_tier()
    lease = (await left.find(row("a").key)).lease
    assert lease is not None
    waiting = asyncio.create_task(right.find(row("a").key))
    await left.put([row("a")])
    await lease.release()
    assert await waiting == Found(raw=row("a").raw)


async def test_a_claim_that_is_released_without_an_entry_goes_to_the_waiter(open_tier, row):
    left, right = open_tier(), open_tier()
    lease = (await left.find(row("a").key)).lease
    waiting = asyncio.create_task(right.find(row("a").key))
    await lease.release()
    found = await waiting
    assert found.raw is None
    assert found.lease is not None
    await lease.release()  # late and again: it must not take the other's claim away
    assert (await left.find(row("b").key)).lease is not None
    assert await open_tier(lock_wait_ms=0).find(row("a").key) == Found()
    await found.lease.release()


async def test_a_held_claim_renews_itself_and_a_lost_holder_is_followed(open_tier, row, plain):
    left, right = open_tier(lock_ms=400), open_tier(lock_ms=400, lock_wait_ms=20_000)
    lease = (await left.find(row("a").key)).lease
    waiting = asyncio.create_task(right.find(row("a").key))
    await asyncio.sleep(0.9)  # more than twice lock_ms
    assert not waiting.done()
    lease._renewals.cancel()  # as if the holder had died
    found = await asyncio.wait_for(waiting, 10)
    assert found.lease is not None
    await found.lease.release()


async def test_waiting_has_an_end(open_tier, row):
    left, right = open_tier(), open_tier(lock_wait_ms=30)
    lease = (await left.find(row("a").key)).lease
    assert await right.find(row("a").key) == Found()
    await lease.release()


async def test_a_caller_that_is_cancelled_leaves_no_claim(open_tier, row, plain):
    tier = open_tier()
    for ticks in range(30):
        task = asyncio.create_task(tier.find(row(str(ticks)).key))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        try:
            found = await task
        except asyncio.CancelledError:
            continue
        await found.lease.release()
    await tier.close()
    assert plain.keys("*:l:*") == []


async def test_a_full_redis_is_a_fault_of_writes_alone(open_tier, row, plain):
    tier = open_tier()
    await tier.put([row("a")])
    try:
        plain.config_set("maxmemory", plain.info("memory")["used_memory"] // 2)
        with pytest.raises(TierFault) as caught:
            await tier.put([row("b")])
        assert caught.value.kind == "full"
    finally:
        plain.config_set("maxmemory", 0)
    assert await raw_of(tier, row("a").key) is not None


@pytest.mark.parametrize("part", ["e:{key}", "used", "size", "total"])
async def test_keys_of_a_wrong_type_are_junk_until_all_is_purged(open_tier, row, plain, part):
    tier = open_tier()
    await tier.put([row("b")])
    name = f"{{sambert:v1}}:{part.format(key=row('a').key)}"
    plain.delete(name)
    plain.rpush(name, "x")
    with pytest.raises(TierFault) as caught:
        await (tier.find(row("a").key) if part.startswith("e") else tier.put([row("a")]))
    assert caught.value.kind == "junk"
    await tier.purge(None)
    await tier.put([row("a")])
    assert await raw_of(tier, row("a").key) == row("a").raw
    assert await raw_of(tier, row("b").key) is None


async def test_a_password_comes_from_the_environment(open_tier, row, own_redis, monkeypatch):
    with redis.Redis(port=own_redis.port) as client:
        client.config_set("requirepass", "open sesame")
    with pytest.raises(TierFault):
        await open_tier(url=own_redis.url).measure()
    monkeypatch.setenv("SAMBERT_REDIS_PASSWORD", "open sesame")
    tier = open_tier(url=own_redis.url)
    await tier.put([row("a")])
    assert await raw_of(tier, row("a").key) is not None


def test_where_hides_passwords():
    settings = RedisCacheSettings(url="redis://user:secret@host:6379/0?password=secret")
    tier = RedisTier(settings, cold_after_s=1, sweep_rows=1)
    assert tier.where == "redis://host:6379/0"
