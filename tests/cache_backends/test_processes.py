"""Several processes on one SQLite file or one Redis, processes that die, and a disk that is full."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.settings import CacheSettings

REPLICA = Path(__file__).with_name("replica.py")
ROOT = Path(__file__).parents[2]


class Replica:
    """A process of replica.py."""

    def __init__(self, settings):
        command = [sys.executable, str(REPLICA), json.dumps(settings)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )

    def hear(self):
        line = self.process.stdout.readline()
        assert line, "the replica ended"
        return json.loads(line)

    def ask(self, **ask):
        self.process.stdin.write(json.dumps(ask) + "\n")
        self.process.stdin.flush()

    def answers(self, number):
        found = []
        while len(found) < number:
            message = self.hear()
            if "source" in message:
                found.append(message)
        return found

    def finish(self):
        """Lets it end in order; returns its last words."""
        self.process.stdin.close()
        *_, last = map(json.loads, self.process.stdout)
        assert self.process.wait(timeout=30) == 0
        return last

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def replicas():
    """Starts processes together and waits until they are ready."""
    started = []

    def start(*settings):
        fresh = [Replica(each) for each in settings]
        started.extend(fresh)
        for replica in fresh:
            assert replica.hear() == {"ready": True}
        return fresh

    yield start
    for replica in started:
        replica.kill()
        replica.process.stdin.close()
        replica.process.stdout.close()


# A busy machine is no fault here.
PATIENT = {"read_timeout_ms": 20_000, "write_timeout_ms": 20_000}
TEXTS = [f"phrase {number}" for number in range(120)]


def test_two_processes_write_and_read_one_file(replicas, tmp_path):
    settings = {
        "sqlite": {
            "folder": str(tmp_path),
            "max_bytes": 400_000,
            "busy_timeout_ms": 20_000,
            "read_timeout_ms": 20_000,
            "write_timeout_ms": 20_000,
        },
        "memory_bytes": 0,
    }
    pair = replicas(settings, settings)
    for _ in range(3):
        for replica in pair:
            replica.ask(texts=TEXTS, num_samples=6000)
        for replica in pair:
            answers = replica.answers(len(TEXTS))
            assert all(answer["right"] for answer in answers)
    assert [replica.finish()["faults"] for replica in pair] == [{}, {}]
    (path,) = tmp_path.glob("*.sqlite")
    assert path.stat().st_size <= 400_000
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT COUNT(*) FROM segments").fetchone()[0] > 10
        orphans = "SELECT COUNT(*) FROM entries WHERE id NOT IN (SELECT id FROM segments)"
        assert connection.execute(orphans).fetchone()[0] == 0
    connection.close()


def test_a_process_killed_while_it_writes_leaves_a_sound_file(replicas, tmp_path):
    settings = {
        "sqlite": {"folder": str(tmp_path), **PATIENT},
        "memory_bytes": 0,
    }
    (victim,) = replicas(settings)
    victim.ask(texts=TEXTS, num_samples=20_000)
    victim.answers(len(TEXTS) // 2)
    victim.kill()
    (heir,) = replicas(settings)
    heir.ask(texts=TEXTS, num_samples=20_000)
    assert all(answer["right"] for answer in heir.answers(len(TEXTS)))
    assert heir.finish()["faults"] == {}
    assert [path.name for path in tmp_path.glob("*.sqlite")] == ["segments-v1-0.sqlite"]


def test_two_processes_share_one_synthesis_through_redis(replicas, redis_server):
    settings = {
        "tier": "redis",
        "redis": {"url": redis_server.url, **PATIENT, "lock_ms": 10_000},
    }
    pair = replicas(settings, settings)
    for _ in range(25):
        for replica in pair:
            replica.ask(text="new", make_s=0.3)
    answers = [answer for replica in pair for answer in replica.answers(25)]
    assert sum(answer["made"] for answer in answers) == 1
    assert all(answer["right"] for answer in answers)
    assert [replica.finish()["faults"] for replica in pair] == [{}, {}]


def test_a_replica_that_dies_in_a_synthesis_is_followed_within_its_claim(replicas, redis_server):
    settings = {
        "tier": "redis",
        "redis": {"url": redis_server.url, **PATIENT, "lock_ms": 500},
    }
    victim, heir = replicas(settings, settings)
    victim.ask(text="new", make_s=3600)
    assert victim.hear() == {"making": "new"}
    heir.ask(text="new")
    victim.kill()
    (answer,) = heir.answers(1)
    assert answer == {"text": "new", "source": "miss", "made": True, "right": True}
    assert heir.finish()["misses"] == {"new": 1}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 600 kB."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", tmp_path], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot make a file system: {mounted.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


async def test_a_full_disk_stops_writes_and_nothing_else(small_disk, tools):
    settings = CacheSettings.model_validate({"sqlite": {"folder": str(small_disk / "cache")}, "memory_bytes": 0})
    cache = SegmentCache(settings)
    await cache.start()
    keys = [tools.key(str(number)) for number in range(60)]

    async def ask(key):
        async def make():
            return tools.audio(key, num_samples=20_000)

        audio, source = await cache.get_or_make(key, make)
        assert tools.same(audio, tools.audio(key, num_samples=20_000))
        await cache.flush()
        return source

    sources = [await ask(key) for key in keys]
    assert set(sources) == {"miss"}
    stats = cache.stats()
    assert stats.faults["sqlite full"] >= settings.breaker_failures
    assert stats.dropped_writes > 0
    assert await ask(keys[0]) == "sqlite"  # what was written before is still served
    await cache.close()


async def test_a_full_disk_at_the_start(small_disk, tools):
    (small_disk / "hog").write_bytes(b"x" * 590_000)
    cache = SegmentCache(CacheSettings.model_validate({"sqlite": {"folder": str(small_disk / "cache")}}))
    await cache.start()
    key = tools.key("a")

    async def make():
        return tools.audio(key)

    for _ in range(20):
        audio, _ = await cache.get_or_make(key, make)
        assert tools.same(audio, tools.audio(key))
        await asyncio.sleep(0)
    await cache.close()
    assert cache.stats().faults
