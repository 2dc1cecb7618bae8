"""Redis killed, stopped, full, replaced by junk, or absent: every request is served right, and Redis is used again."""

import asyncio
import logging
import random

import pytest
import redis

MAKE_S = 0.004


class Load:
    """Callers that ask for random segments and check every answer."""

    def __init__(self, cache, tools, seed=0):
        self._cache = cache
        self._tools = tools
        self._rng = random.Random(seed)
        self._keys = [tools.key(f"phrase {number}") for number in range(12)]
        self.answers = []

    async def ask(self, number):
        for _ in range(number):
            key = self._rng.choice(self._keys)

            async def make(key=key):
                await asyncio.sleep(MAKE_S)
                return self._tools.audio(key)

            audio, source = await self._cache.get_or_make(key, make)
            assert self._tools.same(audio, self._tools.audio(key))
            self.answers.append(source)

    async def run(self, number=40, at_once=6):
        await asyncio.gather(*(self.ask(number) for _ in range(at_once)))
        return self.answers[-number * at_once :]

    async def until(self, source):
        """Asks until the cache gives an answer from there."""
        async with asyncio.timeout(60):
            while (await self.run(number=5))[-1] != source:
                await self._cache.flush()


async def test_killed_under_load_and_started_again(open_cache, own_redis, tools):
    cache = await open_cache(tier="redis", memory_bytes=0, redis={"url": own_redis.url})
    load = Load(cache, tools)
    await load.until("redis")
    running = asyncio.create_task(load.run(number=150))
    await load.run(number=10)
    own_redis.kill()
    await running
    assert set(load.answers[-50:]) == {"miss"}
    stats = cache.stats()
    assert stats.faults["redis gone"] >= 5
    assert stats.misses["error"] > 0
    assert stats.skipped == ["redis"]
    own_redis.start()
    await load.until("redis")
    assert cache.stats().skipped == []


async def test_stopped_redis_costs_a_few_requests_one_timeout_and_the_rest_nothing(open_cache, own_redis, tools):
    cache = await open_cache(
        tier="redis",
        memory_bytes=0,
        redis={"url": own_redis.url, "read_timeout_ms": 200, "write_timeout_ms": 200},
        breaker_failures=3,
        breaker_open_s=30,
        breaker_max_open_s=30,
    )
    load = Load(cache, tools)
    await load.until("redis")
    before = cache.stats().faults.get("redis slow", 0)
    own_redis.pause()
    await load.run(number=30)
    await cache.flush()
    faults = cache.stats().faults["redis slow"]
    assert 3 <= faults - before <= 14  # six callers at once and the writer, before the breakers open
    later = Load(cache, tools)
    await later.run(number=20)
    assert set(later.answers) == {"miss"}
    assert cache.stats().faults["redis slow"] == faults


async def test_after_a_stop_late_replies_reach_nobody(open_cache, own_redis, tools):
    cache = await open_cache(
        tier="redis", memory_bytes=0, redis={"url": own_redis.url, "read_timeout_ms": 100, "write_timeout_ms": 100}
    )
    load = Load(cache, tools)
    await load.until("redis")
    for _ in range(3):
        own_redis.pause()
        await load.run(number=5)
        own_redis.resume()
        await load.until("redis")
    assert "redis corrupt" not in cache.stats().faults


async def test_absent_at_the_start_then_there(open_cache, own_redis, tools, caplog):
    own_redis.kill()
    with caplog.at_level(logging.WARNING):
        cache = await open_cache(tier="redis", memory_bytes=0, redis={"url": own_redis.url})
    assert "redis is not available" in caplog.text
    load = Load(cache, tools)
    await load.run(number=10)
    assert "redis" not in load.answers
    own_redis.start()
    await load.until("redis")


async def test_full_redis_still_answers_what_it_has(open_cache, redis_server, tools):
    cache = await open_cache(tier="redis", memory_bytes=0, redis={"url": redis_server.url})
    await Load(cache, tools).until("redis")
    fresh = tools.key("fresh")
    with redis.Redis(port=redis_server.port) as plain:
        try:
            plain.config_set("maxmemory", plain.info("memory")["used_memory"] // 2)
            for _ in range(8):

                async def make():
                    return tools.audio(fresh)

                assert (await cache.get_or_make(fresh, make))[1] == "miss"
                await cache.flush()
            assert cache.stats().faults["redis full"] >= 1
            assert set(await Load(cache, tools, seed=1).run(number=3)) >= {"redis"}
        finally:
            plain.config_set("maxmemory", 0)


def answering(reply):
    async def serve(reader, writer):
        while await reader.read(65_536):
            writer.write(reply)
        writer.close()

    return serve


JUNK = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "noise": bytes(range(256)) * 4,
    "half an answer": b"$100000\r\nabc",
    "foreign bytes": b"$5\r\nhello\r\n",
    "wrong types": b"*2\r\n:1\r\n$-1\r\n",
    "errors": b"-ERR no\r\n",
    "everything is granted": b":1\r\n",
    "everything is taken": b":0\r\n",
    "endless": b"$3\r\nabc\r\n" * 5000,
}


@pytest.mark.parametrize("reply", JUNK.values(), ids=JUNK)
async def test_a_server_that_answers_junk_never_shows(open_cache, tools, reply):
    async with await asyncio.start_server(answering(reply), "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        limits = {"read_timeout_ms": 100, "write_timeout_ms": 100, "lock_wait_ms": 50}
        cache = await open_cache(tier="redis", memory_bytes=0, redis={"url": f"redis://127.0.0.1:{port}/0", **limits})
        load = Load(cache, tools)
        await load.run(number=4, at_once=3)
        assert set(load.answers) == {"miss"}
        await cache.close()


async def test_damaged_entries_in_redis_are_dropped_and_made_again(open_cache, redis_server, tools):
    cache = await open_cache(tier="redis", memory_bytes=0, redis={"url": redis_server.url})
    load = Load(cache, tools)
    await load.until("redis")
    with redis.Redis(port=redis_server.port) as plain:
        names = sorted(plain.keys("*:e:*"))
        raws = [plain.get(name) for name in names]
        for name, raw in zip(names, raws[1:] + raws[:1], strict=True):  # each under the name of another one
            plain.set(name, raw)
        plain.set(names[0], b"")
        plain.set(names[1], raws[1][:-1])
    await load.run(number=20)
    assert cache.stats().faults["redis corrupt"] >= len(names) - 2
    await cache.flush()
    await load.until("redis")


async def test_two_replicas_make_a_new_segment_once(open_cache, redis_server, tools):
    replicas = [await open_cache(tier="redis", redis={"url": redis_server.url}) for _ in range(2)]
    key, calls = tools.key("new"), []

    async def make():
        calls.append(1)
        await asyncio.sleep(0.05)
        return tools.audio(key)

    results = await asyncio.gather(*(replicas[number % 2].get_or_make(key, make) for number in range(50)))
    assert len(calls) == 1
    assert all(tools.same(audio, tools.audio(key)) for audio, _ in results)
    assert sorted({source for _, source in results}) == ["miss", "redis"]


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
async def test_the_other_replica_takes_over(open_cache, redis_server, tools, how):
    claims = {"url": redis_server.url, "lock_ms": 60_000, "lock_wait_ms": 60_000}  # only giving back is quick enough
    left, right = [await open_cache(tier="redis", redis=claims) for _ in range(2)]
    key, begun, go = tools.key("new"), asyncio.Event(), asyncio.Event()

    async def fail():
        begun.set()
        await go.wait()
        raise ZeroDivisionError

    async def make():
        return tools.audio(key)

    leader = asyncio.create_task(left.get_or_make(key, fail))
    await begun.wait()
    followers = [asyncio.create_task(right.get_or_make(key, make)) for _ in range(5)]
    await asyncio.sleep(0.03)
    assert not any(task.done() for task in followers)
    if how == "fails":
        go.set()
    else:
        leader.cancel()
    results = await asyncio.wait_for(asyncio.gather(*followers), 15)
    assert all(tools.same(audio, tools.audio(key)) for audio, _ in results)
    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        await leader
