"""Audio, keys, a clock that is set by hand, and caches that are closed after the test."""

import functools
import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from deployments.messages import SegmentAudio, VoiceInfo
from deployments.normalization.cache.key import key_of
from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.settings import CacheSettings


class Clock:
    """Unix time that moves only when told."""

    def __init__(self):
        self.now = 1_700_000_000.0

    def __call__(self):
        return self.now


def voice(name="demo", fingerprint="f1", sample_rate_hz=16_000):
    return VoiceInfo(
        name=name,
        model="m",
        speaker="F7",
        emotions=("neutral",),
        sample_rate_hz=sample_rate_hz,
        hop_samples=200,
        fingerprint=fingerprint,
    )


@functools.cache
def audio(key, num_samples=800, num_symbols=12):
    """Samples that belong to a key and to no other one."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    wave = 9000 * np.sin(np.arange(num_samples) * (0.02 + rng.random() / 10)) + rng.normal(0, 20, num_samples)
    return SegmentAudio(
        pcm_S=wave.astype(np.int16),
        sample_rate_hz=16_000,
        frames_T=rng.integers(0, 30, num_symbols, dtype=np.int32),
        acoustic_s=0.25,
        vocoder_s=0.125,
    )


def same(left, right):
    return (
        np.array_equal(left.pcm_S, right.pcm_S)
        and left.pcm_S.dtype == right.pcm_S.dtype
        and np.array_equal(left.frames_T, right.frames_T)
        and left.frames_T.dtype == right.frames_T.dtype
        and left.sample_rate_hz == right.sample_rate_hz
    )


class Maker:
    """Counts the syntheses of a key."""

    def __init__(self, key, num_samples=800):
        self.audio = audio(key, num_samples)
        self.calls = 0

    async def __call__(self):
        self.calls += 1
        return self.audio


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def tools():
    """What tests share: voice(), audio(), same(), Maker, key(text, voice)."""
    return SimpleNamespace(
        voice=voice, audio=audio, same=same, Maker=Maker, key=lambda text, name="demo": key_of(text, voice(name))
    )


@pytest.fixture
async def open_cache(tmp_path, clock):
    """Makes a started cache over SQLite in the test's folder; keywords are settings."""
    caches = []

    async def open_(metrics=None, **settings):
        settings = {"sqlite": {"folder": str(tmp_path / "cache")}, "check_interval_s": 3600, **settings}
        cache = SegmentCache(CacheSettings.model_validate(settings), metrics, clock=clock)
        caches.append(cache)
        await cache.start()
        return cache

    yield open_
    for cache in caches:
        await cache.close()
