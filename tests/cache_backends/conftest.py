"""Real Redis servers, caches that are closed after the test, audio that belongs to its key."""

import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import redis

sys.path.insert(0, str(Path(__file__).parent))
from redis_server import RedisServer

from deployments.messages import SegmentAudio
from deployments.normalization.cache.key import key_of
from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.settings import CacheSettings

PATIENT = {"read_timeout_ms": 10_000, "write_timeout_ms": 10_000}  # a busy machine is no fault unless a test says so


def key(text, name="demo"):
    return key_of(text, SimpleNamespace(name=name, fingerprint="f", sample_rate_hz=16_000))


def audio(segment_key, num_samples=2000):
    seed = int.from_bytes(hashlib.sha256(segment_key.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    pcm_S = (8000 * np.sin(np.arange(num_samples) * 0.03) + rng.normal(0, 30, num_samples)).astype(np.int16)
    return SegmentAudio(pcm_S=pcm_S, sample_rate_hz=16_000, frames_T=rng.integers(0, 30, 20, dtype=np.int32))


def same(left, right):
    return np.array_equal(left.pcm_S, right.pcm_S) and np.array_equal(left.frames_T, right.frames_T)


@pytest.fixture
def tools():
    return SimpleNamespace(key=key, audio=audio, same=same)


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
def redis_server(shared_redis):
    """An empty Redis that the test leaves running."""
    with redis.Redis(port=shared_redis.port) as client:
        client.flushall()
    return shared_redis


@pytest.fixture
def own_redis(tmp_path):
    """A Redis that the test may kill, stop and start again."""
    server = RedisServer(tmp_path)
    yield server
    server.stop()


@pytest.fixture
async def open_cache(tmp_path):
    """Makes a started cache; keywords are settings, `redis` and `sqlite` are merged with long time limits."""
    caches = []

    async def open_(**settings):
        settings = {"check_interval_s": 3600, "breaker_open_s": 0.02, "breaker_max_open_s": 0.05, **settings}
        settings["redis"] = {**PATIENT, "lock_poll_ms": 5, **settings.get("redis", {})}
        settings["sqlite"] = {**PATIENT, "folder": str(tmp_path / "cache"), **settings.get("sqlite", {})}
        cache = SegmentCache(CacheSettings.model_validate(settings))
        caches.append(cache)
        await cache.start()
        return cache

    yield open_
    for cache in caches:
        await cache.close()
