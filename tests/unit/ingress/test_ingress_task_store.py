"""Tasks in SQLite: the contract of every store, and what may happen to a file."""

import asyncio
import sqlite3

import pytest
from task_store_contract import LEASE_S, SETTINGS, TTL_S, WAV, TaskStoreContract

from deployments.errors import NotReady
from deployments.ingress.tasks_open import open_task_store
from deployments.ingress.tasks_redis import RedisTaskStore
from deployments.ingress.tasks_sqlite import SqliteTaskStore
from deployments.settings import CacheSettings, SqliteCacheSettings, TaskSettings


class Clock:
    """Unix time that passes when it is told to."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pass_time(clock):
    async def pass_time(seconds):
        clock.now += seconds

    return pass_time


@pytest.fixture
async def stores(tmp_path, clock):
    made = [SqliteTaskStore(tmp_path / "tasks", SETTINGS, clock) for _ in range(2)]
    yield made
    for store in made:
        await store.close()


class TestSqliteTaskStore(TaskStoreContract):
    async def test_results_outlive_the_process(self, tmp_path, stores, clock):
        await stores[0].succeed("task", WAV, 5)
        later = SqliteTaskStore(tmp_path / "tasks", SETTINGS, clock)
        assert await later.audio("task") == WAV
        await later.close()

    async def test_expired_audio_leaves_the_file(self, tmp_path, stores, pass_time):
        for number in range(4):
            await stores[0].succeed(f"task-{number}", bytes(15_000), 1)
        (path,) = (tmp_path / "tasks").glob("*.sqlite")
        await pass_time(2 * TTL_S)
        await stores[0].begin("next")
        with sqlite3.connect(path) as connection:
            assert connection.execute("SELECT COUNT(*) FROM audio").fetchone() == (0,)
            counts = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")]
        connection.close()
        assert counts[0] < 15
        assert counts[1] == 0

    async def test_a_broken_file_is_left_for_a_new_one(self, tmp_path, stores):
        await stores[0].succeed("lost", WAV, 1)
        (path,) = (tmp_path / "tasks").glob("*.sqlite")
        await stores[0].close()
        await stores[1].close()
        for file in (tmp_path / "tasks").iterdir():
            file.write_bytes(b"no database at all" * 500)
        mine, other = (SqliteTaskStore(tmp_path / "tasks", SETTINGS) for _ in range(2))
        with pytest.raises(NotReady) as caught:
            await mine.begin("task")
        assert caught.value.retry_after_s == 1.0
        await mine.begin("task")
        assert (await other.find("task")).status == "processing"
        assert await other.find("lost") is None
        assert path.read_bytes().startswith(b"no database")
        await mine.close()
        await other.close()

    async def test_a_folder_that_is_removed_is_made_again(self, tmp_path, stores):
        await stores[0].succeed("task", WAV, 1)
        for file in (tmp_path / "tasks").iterdir():
            file.unlink()
        (tmp_path / "tasks").rmdir()
        assert await stores[0].find("task") is None
        await stores[0].begin("next")
        assert (await stores[1].find("next")).status == "processing"

    async def test_a_place_that_cannot_be_is_not_ready(self, tmp_path):
        (tmp_path / "file").touch()
        store = SqliteTaskStore(tmp_path / "file" / "tasks", SETTINGS)
        with pytest.raises(NotReady):
            await store.begin("task")
        await store.close()

    async def test_a_file_that_is_locked_is_not_ready_in_time(self, tmp_path, stores):
        await stores[0].begin("task")
        (path,) = (tmp_path / "tasks").glob("*.sqlite")
        impatient = SqliteTaskStore(tmp_path / "tasks", TaskSettings(store_timeout_ms=500))
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(NotReady):
            await impatient.begin("other")
        holder.execute("COMMIT")
        holder.close()
        await impatient.begin("other")
        await impatient.close()

    async def test_replicas_that_start_together_share_a_file(self, tmp_path):
        made = [SqliteTaskStore(tmp_path / "new", TaskSettings()) for _ in range(6)]
        await asyncio.gather(*(store.begin(f"task-{number}") for number, store in enumerate(made)))
        for number in range(6):
            assert (await made[0].find(f"task-{number}")).status == "processing"
        for store in made:
            await store.close()

    async def test_only_the_owner_may_look(self, tmp_path, stores):
        await stores[0].begin("task")
        assert (tmp_path / "tasks").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("tasks", "cache", "folder"),
    [
        (TaskSettings(), CacheSettings(sqlite=SqliteCacheSettings(folder="/var/x/segments")), "/var/x/tasks"),
        (TaskSettings(folder="/var/y"), CacheSettings(tier="none"), "/var/y"),
        (TaskSettings(folder="/var/y"), CacheSettings(tier="redis"), None),
    ],
)
def test_the_settings_tell_where(tasks, cache, folder):
    store = open_task_store(tasks, cache)
    if folder is None:
        assert isinstance(store, RedisTaskStore)
    else:
        assert isinstance(store, SqliteTaskStore)
        assert str(store._folder) == folder


def test_the_contract_is_about_these_times():
    assert SETTINGS.lease_s == LEASE_S < SETTINGS.ttl_s
