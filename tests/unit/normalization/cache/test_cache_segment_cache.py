"""The whole cache over a real SQLite file: tiers, single flight, reasons, upkeep, metrics."""

import asyncio
import logging
import sqlite3

import numpy as np
import pytest

from deployments.errors import ConfigurationInvalid
from deployments.messages import SegmentAudio
from deployments.normalization.cache.metrics import METRICS
from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.settings import CacheSettings


async def test_a_segment_is_made_once_then_found_in_memory_then_on_disk(open_cache, tools):
    key = tools.key("a")
    make = tools.Maker(key)
    cache = await open_cache()
    first, source = await cache.get_or_make(key, make)
    assert source == "miss"
    assert tools.same(first, make.audio)
    assert (first.acoustic_s, first.vocoder_s) == (0.25, 0.125)
    found, source = await cache.get_or_make(key, make)
    assert source == "memory"
    assert tools.same(found, make.audio)
    assert (found.acoustic_s, found.vocoder_s) == (0.0, 0.0)
    await cache.close()

    cache = await open_cache()
    found, source = await cache.get_or_make(key, make)
    assert source == "sqlite"
    assert tools.same(found, make.audio)
    assert (await cache.get_or_make(key, make))[1] == "memory"
    assert make.calls == 1


async def test_samples_are_read_only_and_apart_from_the_makers(open_cache, tools):
    key = tools.key("a")
    cache = await open_cache(tier="none")
    pcm = np.arange(100, dtype=np.int16)

    async def make():
        return SegmentAudio(pcm_S=pcm, sample_rate_hz=16_000, frames_T=np.zeros(1, np.int32))

    for _ in range(2):
        audio, _ = await cache.get_or_make(key, make)
        with pytest.raises(ValueError, match="read-only"):
            audio.pcm_S[0] = 1
        pcm[:] = 0
    assert audio.pcm_S[99] == 99


async def test_fifty_at_once_make_one(open_cache, tools):
    key = tools.key("a")
    make = tools.Maker(key)
    cache = await open_cache()
    results = await asyncio.gather(*(cache.get_or_make(key, make) for _ in range(50)))
    assert make.calls == 1
    assert all(tools.same(audio, make.audio) for audio, _ in results)
    assert {source for _, source in results} == {"miss"}
    stats = cache.stats()
    assert (stats.misses, stats.shared, stats.hits) == ({"new": 1}, 49, {})


async def test_bypass_makes_anew_and_replaces_what_was_kept(open_cache, tools):
    key = tools.key("a")
    old, new = tools.Maker(tools.key("old")), tools.Maker(key)
    cache = await open_cache()
    await cache.get_or_make(key, old)
    audio, source = await cache.get_or_make(key, new, bypass=True)
    assert source == "bypass"
    assert tools.same(audio, new.audio)
    assert tools.same((await cache.get_or_make(key, old))[0], new.audio)
    await cache.close()
    cache = await open_cache()
    audio, source = await cache.get_or_make(key, old)
    assert source == "sqlite"
    assert tools.same(audio, new.audio)
    assert (old.calls, new.calls) == (1, 1)


async def test_a_disabled_cache_keeps_nothing(open_cache, tools, tmp_path):
    key = tools.key("a")
    make = tools.Maker(key)
    cache = await open_cache(enabled=False)
    for _ in range(3):
        assert (await cache.get_or_make(key, make))[1] == "bypass"
    assert make.calls == 3
    assert not (tmp_path / "cache").exists()


async def test_reasons_of_misses(open_cache, tools, clock):
    cache = await open_cache(tier="none", memory_bytes=20_000, ttl_s=100)
    make = tools.Maker(tools.key("a"), num_samples=2000)
    await cache.get_or_make(tools.key("a"), make)
    clock.now += 100
    await cache.get_or_make(tools.key("a"), make)
    for _ in range(3):
        for number in range(8):
            await cache.get_or_make(tools.key(str(number)), make)
    misses = cache.stats().misses
    assert misses["new"] == 9
    assert misses["expired"] == 1
    assert misses["evicted"] > 0
    assert set(misses) == {"new", "expired", "evicted"}


async def test_expiry_counts_from_the_synthesis_through_all_tiers(open_cache, tools, clock):
    key = tools.key("a")
    make = tools.Maker(key)
    cache = await open_cache(ttl_s=100)
    await cache.get_or_make(key, make)
    await cache.close()
    clock.now += 60
    cache = await open_cache(ttl_s=100)
    assert (await cache.get_or_make(key, make))[1] == "sqlite"
    clock.now += 39
    assert (await cache.get_or_make(key, make))[1] == "memory"
    clock.now += 1
    assert (await cache.get_or_make(key, make))[1] == "miss"
    assert cache.stats().misses == {"expired": 1}


async def test_a_corrupt_entry_is_dropped_and_made_again(open_cache, tools, tmp_path):
    keys = [tools.key(text) for text in "abc"]
    cache = await open_cache(memory_bytes=0)
    for key in keys:
        await cache.get_or_make(key, tools.Maker(key))
    await cache.flush()
    (path,) = (tmp_path / "cache").glob("*.sqlite")
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT key, raw FROM segments JOIN entries USING (id) ORDER BY key").fetchall()
        raws = dict(rows)
        flipped = bytearray(raws[keys[0]])
        flipped[len(flipped) // 2] ^= 1
        swapped = {keys[0]: bytes(flipped), keys[1]: raws[keys[2]]}  # a flipped bit; the entry of another key
        for key, raw in swapped.items():
            connection.execute(
                "UPDATE entries SET raw = ? WHERE id = (SELECT id FROM segments WHERE key = ?)", (raw, key)
            )
    connection.close()
    for key in keys[:2]:
        make = tools.Maker(key)
        audio, source = await cache.get_or_make(key, make)
        assert (source, make.calls) == ("miss", 1)
        assert tools.same(audio, make.audio)
    await cache.flush()
    for key in keys:
        audio, source = await cache.get_or_make(key, tools.Maker(key))
        assert source == "sqlite"
        assert tools.same(audio, tools.audio(key))
    assert cache.stats().faults == {"sqlite corrupt": 2}
    assert cache.stats().misses == {"new": 3, "error": 2}


async def test_a_tier_that_cannot_be_opened_never_shows(open_cache, tools, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        cache = await open_cache(
            sqlite={"folder": str(tmp_path / "file" / "cache")}, memory_bytes=0, breaker_open_s=0.001
        )
    assert "sqlite is not available" in caplog.text
    assert cache.stats().skipped == ["sqlite"]
    for number in range(10):
        key = tools.key(str(number))
        audio, source = await cache.get_or_make(key, tools.Maker(key))
        assert source == "miss"
        assert tools.same(audio, tools.audio(key))
    assert cache.stats().misses == {"error": 10}
    (tmp_path / "file").unlink()
    async with asyncio.timeout(5):
        while (await cache.get_or_make(key, tools.Maker(key)))[1] != "sqlite":
            await cache.flush()
    assert cache.stats().skipped == []


async def test_skipped_tier_is_not_even_asked(open_cache, tools, tmp_path):
    (tmp_path / "file").write_text("")
    cache = await open_cache(sqlite={"folder": str(tmp_path / "file" / "cache")}, breaker_open_s=1000)
    for number in range(20):
        await cache.get_or_make(tools.key(str(number)), tools.Maker(tools.key(str(number))))
    await cache.flush()
    assert cache.stats().faults == {"sqlite gone": 1}  # the look at the start
    assert cache.stats().dropped_writes == 20


async def test_uses_from_memory_keep_the_row_on_disk_warm(open_cache, tools, clock):
    cache = await open_cache(touch_interval_s=100, cold_after_s=1000)
    used, cold = tools.key("used"), tools.key("cold")
    for key in (used, cold):
        await cache.get_or_make(key, tools.Maker(key))
    await cache.flush()
    clock.now += 900
    assert (await cache.get_or_make(used, tools.Maker(used)))[1] == "memory"
    await cache.flush()
    clock.now += 200
    assert (await cache.sweep_step()).removed == 1
    await cache.close()
    cache = await open_cache()
    assert (await cache.get_or_make(used, tools.Maker(used)))[1] == "sqlite"
    assert (await cache.get_or_make(cold, tools.Maker(cold)))[1] == "miss"


async def test_the_sweep_runs_by_itself(open_cache, tools, clock):
    cache = await open_cache(ttl_s=10)
    for number in range(20):
        await cache.get_or_make(tools.key(str(number)), tools.Maker(tools.key(str(number))))
    await cache.close()
    clock.now += 10
    cache = await open_cache(ttl_s=10, sweep_rows=3, sweep_pause_s=0.001, check_interval_s=0.01)
    async with asyncio.timeout(10):
        while cache.stats().entries["sqlite"]:
            await cache.check()


async def test_too_large_and_unfit_segments_are_played_but_not_kept(open_cache, tools, caplog):
    cache = await open_cache(max_entry_bytes=1000)
    key = tools.key("a")
    large = tools.Maker(key, num_samples=501)
    for _ in range(2):
        audio, source = await cache.get_or_make(key, large)
        assert source == "miss"
        assert tools.same(audio, large.audio)

    async def floats():
        return SegmentAudio(pcm_S=np.zeros(5, np.float32), sample_rate_hz=16_000, frames_T=np.zeros(1, np.int32))

    assert (await cache.get_or_make(key, floats))[0].pcm_S.dtype == np.float32
    assert "not fit" in caplog.text
    assert cache.stats().entries["memory"] == 0


async def test_a_full_queue_drops_writes_and_no_requests(open_cache, tools):
    cache = await open_cache(max_pending_writes=3)
    keys = [tools.key(str(number)) for number in range(10)]
    results = await asyncio.gather(*(cache.get_or_make(key, tools.Maker(key)) for key in keys))
    assert all(tools.same(audio, tools.audio(key)) for key, (audio, _) in zip(keys, results, strict=True))
    await cache.flush()
    await cache.check()
    stats = cache.stats()
    assert stats.dropped_writes + stats.entries["sqlite"] == 10
    assert stats.entries["memory"] == 10


async def test_close_writes_what_waits_and_later_calls_are_served(open_cache, tools):
    cache = await open_cache()
    keys = [tools.key(str(number)) for number in range(40)]
    for key in keys:
        await cache.get_or_make(key, tools.Maker(key))
    await cache.close()
    await cache.close()
    late = tools.key("late")
    assert (await cache.get_or_make(late, tools.Maker(late)))[1] == "miss"
    cache = await open_cache(memory_bytes=0)
    assert {(await cache.get_or_make(key, tools.Maker(key)))[1] for key in keys} == {"sqlite"}


async def test_a_failed_synthesis_is_not_kept(open_cache, tools):
    cache = await open_cache()
    key = tools.key("a")

    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await cache.get_or_make(key, fail)
    assert (await cache.get_or_make(key, tools.Maker(key)))[1] == "miss"


async def test_metrics_get_every_series_with_its_tags(open_cache, tools):
    class Recorder:
        def __init__(self):
            self.seen = {}
            self.total = {}

        def count(self, name, amount, tags):
            self.seen[name] = ("count", tuple(tags))
            series = (name, *tags.values())
            self.total[series] = self.total.get(series, 0) + amount

        def gauge(self, name, value, tags):
            self.seen[name] = ("gauge", tuple(tags))
            self.total[(name, *tags.values())] = value

    recorder = Recorder()
    cache = await open_cache(metrics=recorder, max_pending_writes=1)
    key = tools.key("a")

    async def slow():
        await asyncio.sleep(0.02)
        return tools.audio(key)

    await asyncio.gather(*(cache.get_or_make(key, slow) for _ in range(3)))
    await cache.get_or_make(key, slow)
    for text in "bcd":
        await cache.get_or_make(tools.key(text), tools.Maker(tools.key(text)), bypass=True)
    cache._counters.fault("sqlite", "slow")
    await cache.flush()
    await cache.check()
    assert recorder.seen == {metric.name: (metric.kind, metric.tags) for metric in METRICS}
    stats = cache.stats()
    assert recorder.total["cache_hits", "memory"] == stats.hits["memory"] == 1
    assert recorder.total["cache_misses", "bypass"] == stats.misses["bypass"] == 3
    assert recorder.total["cache_shared",] == stats.shared == 2
    assert recorder.total["cache_saved_seconds",] == pytest.approx(stats.saved_s)
    assert stats.saved_s >= 3 * 0.02
    assert recorder.total["cache_bytes", "memory"] == stats.bytes["memory"]
    assert stats.hit_rate == pytest.approx(1 / 7)


def test_a_wrong_redis_address_names_the_setting():
    with pytest.raises(ConfigurationInvalid, match=r"cache\.redis\.url") as caught:
        SegmentCache(CacheSettings.model_validate({"tier": "redis", "redis": {"url": "http://x"}}))
    assert caught.value.param == "cache.redis.url"
