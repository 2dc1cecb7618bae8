"""What the cache says of a segment that is not to be made."""


async def test_find_takes_what_is_kept_and_makes_nothing(open_cache, tools):
    key = tools.key("a")
    make = tools.Maker(key)
    cache = await open_cache()
    assert await cache.find(key) is None
    await cache.get_or_make(key, make)
    found, source = await cache.find(key)
    assert (source, tools.same(found, make.audio)) == ("memory", True)
    await cache.close()

    cache = await open_cache()
    found, source = await cache.find(key)
    assert (source, tools.same(found, make.audio)) == ("sqlite", True)
    assert (await cache.find(key))[1] == "memory"
    assert make.calls == 1
    assert cache.stats().misses == {}
    assert cache.stats().hits == {"sqlite": 1, "memory": 1}


async def test_find_knows_nothing_where_nothing_is_kept(open_cache, tools):
    cache = await open_cache(enabled=False)
    await cache.get_or_make(tools.key("a"), tools.Maker(tools.key("a")))
    assert await cache.find(tools.key("a")) is None
