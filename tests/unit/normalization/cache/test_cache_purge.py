"""A purge reaches memory, disk, what is being made, and other replicas."""

import asyncio

import pytest

from deployments.errors import NotReady


async def test_purge_of_a_voice(open_cache, tools):
    cache = await open_cache()
    mine, yours = tools.key("a", "mine"), tools.key("a", "yours")
    makes = {key: tools.Maker(key) for key in (mine, yours)}
    for key, make in makes.items():
        await cache.get_or_make(key, make)
    await cache.flush()
    assert await cache.purge("mine") == 2  # memory and file
    assert (await cache.get_or_make(mine, makes[mine]))[1] == "miss"
    assert (await cache.get_or_make(yours, makes[yours]))[1] == "memory"
    assert cache.stats().misses == {"new": 3}
    await cache.flush()
    assert await cache.purge() == 4
    assert makes[mine].calls == 2


async def test_a_synthesis_under_way_at_a_purge_is_played_but_not_kept(open_cache, tools):
    cache = await open_cache()
    key = tools.key("a")
    make = tools.Maker(key)
    go = asyncio.Event()

    async def slow():
        await go.wait()
        return await make()

    task = asyncio.create_task(cache.get_or_make(key, slow))
    await cache.get_or_make(tools.key("b"), tools.Maker(tools.key("b")))
    await cache.purge("demo")
    go.set()
    audio, source = await task
    assert source == "miss"
    assert tools.same(audio, make.audio)
    await cache.flush()
    assert (await cache.get_or_make(key, make))[1] == "miss"


async def test_a_purge_drops_writes_that_wait(open_cache, tools):
    cache = await open_cache()
    key = tools.key("a")
    make = tools.Maker(key)
    await cache.get_or_make(key, make)
    await cache.purge()
    await cache.close()
    cache = await open_cache()
    assert (await cache.get_or_make(key, make))[1] == "miss"


async def test_other_replicas_follow_a_purge(open_cache, tools):
    left, right = await open_cache(), await open_cache()
    mine, yours = tools.key("a", "mine"), tools.key("a", "yours")
    for key in (mine, yours):
        await left.get_or_make(key, tools.Maker(key))
        await left.flush()
        assert (await right.get_or_make(key, tools.Maker(key)))[1] == "sqlite"
    await left.purge("mine")
    await right.check()
    assert (await right.get_or_make(mine, tools.Maker(mine)))[1] == "miss"
    assert (await right.get_or_make(yours, tools.Maker(yours)))[1] == "memory"
    assert (await left.get_or_make(yours, tools.Maker(yours)))[1] == "memory"
    await left.check()  # its own purge is no news to the one that made it
    await left.get_or_make(mine, tools.Maker(mine))
    await left.check()
    assert (await left.get_or_make(mine, tools.Maker(mine)))[1] == "memory"


async def test_a_purge_that_the_tier_refuses_says_so(open_cache, tools, tmp_path):
    (tmp_path / "file").write_text("")
    cache = await open_cache(sqlite={"folder": str(tmp_path / "file" / "cache")})
    key = tools.key("a")
    await cache.get_or_make(key, tools.Maker(key))
    with pytest.raises(NotReady, match="not purged"):
        await cache.purge()
    assert (await cache.get_or_make(key, tools.Maker(key)))[1] == "miss"
