"""The memory tier: bounded by bytes, frequent short segments outlive long rare ones, purges and expiry."""

import random

import numpy as np
import pytest

from deployments.messages import SegmentAudio
from deployments.normalization.cache.entry import keep
from deployments.normalization.cache.key import voice_tag
from deployments.normalization.cache.memory import MemoryTier, weight_of


@pytest.fixture
def filed(tools, clock):
    def filed_(text, name="demo", num_samples=1000, ttl_s=60.0):
        audio = SegmentAudio(
            pcm_S=np.zeros(num_samples, np.int16), sample_rate_hz=16_000, frames_T=np.zeros(9, np.int32)
        )
        return tools.key(text, name), keep(audio, 0.5, clock.now + ttl_s)

    return filed_


def test_what_was_put_is_found(filed, clock):
    memory = MemoryTier(1 << 20, clock)
    key, entry = filed("a")
    assert memory.get(key) is None
    memory.put(key, entry, memory.epoch(key))
    assert memory.get(key) is entry
    assert (memory.num_entries, memory.num_bytes) == (1, weight_of(entry))


def test_bytes_are_bounded(filed, clock):
    memory = MemoryTier(100_000, clock)
    for number in range(200):
        key, entry = filed(str(number), num_samples=1 + 97 * (number % 50))
        memory.put(key, entry, memory.epoch(key))
        assert memory.num_bytes <= 100_000
    assert memory.num_entries > 10


def test_frequent_short_segments_outlive_long_rare_ones(filed, clock):
    """Replays 30 % of requests on 40 short phrases that just fit, among 70 % of long ones that never come back."""
    frequent = [filed(f"frequent {number}", num_samples=500) for number in range(40)]
    memory = MemoryTier(41 * weight_of(frequent[0][1]), clock)
    rng = random.Random(0)
    found = asked = 0
    for number in range(4000):
        if is_frequent := rng.random() < 0.3:
            key, entry = rng.choice(frequent)
        else:
            key, entry = filed(f"rare {number}", num_samples=5000)
        hit = memory.get(key)
        if is_frequent:
            asked += 1
            found += hit is not None
        if hit is None:
            memory.put(key, entry, memory.epoch(key))
    assert found / asked > 0.8


def test_expired_entries_are_not_found(filed, clock):
    memory = MemoryTier(1 << 20, clock)
    key, entry = filed("a", ttl_s=10)
    memory.put(key, entry, memory.epoch(key))
    clock.now += 9.9
    assert memory.get(key) is entry
    clock.now += 0.1
    assert memory.get(key) is None
    assert memory.num_entries == 0
    memory.put(key, entry, memory.epoch(key))
    assert memory.num_entries == 0


def test_purge_of_a_voice_leaves_the_others(filed, clock):
    memory = MemoryTier(1 << 20, clock)
    mine, yours = [filed(text, "mine") for text in "abc"], [filed(text, "yours") for text in "ab"]
    for key, entry in mine + yours:
        memory.put(key, entry, memory.epoch(key))
    assert memory.purge(voice_tag("mine")) == 3
    assert [memory.get(key) for key, _ in mine] == [None] * 3
    assert [memory.get(key) for key, _ in yours] == [entry for _, entry in yours]
    assert memory.purge(None) == 2
    assert memory.num_entries == 0


def test_work_begun_before_a_purge_is_not_kept(filed, clock):
    memory = MemoryTier(1 << 20, clock)
    key, entry = filed("a")
    for tag in (voice_tag("demo"), None):
        epoch = memory.epoch(key)
        memory.purge(tag)
        memory.put(key, entry, epoch)
        assert memory.get(key) is None
    memory.put(key, entry, memory.epoch(key))
    assert memory.get(key) is entry


def test_purge_finds_entries_that_were_replaced_or_pushed_out_before(filed, clock):
    memory = MemoryTier(20_000, clock)
    for _ in range(3):
        for number in range(60):
            key, entry = filed(str(number))
            memory.put(key, entry, memory.epoch(key))
    assert memory.purge(voice_tag("demo")) > 0
    assert memory.num_entries == 0
    assert memory.purge(None) == 0


def test_no_bytes_keep_nothing(filed, clock):
    memory = MemoryTier(0, clock)
    key, entry = filed("a", num_samples=0)
    memory.put(key, entry, memory.epoch(key))
    assert memory.get(key) is None
