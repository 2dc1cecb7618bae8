"""What every store of tasks does; a test class inherits it and brings its stores and its clock."""

import asyncio

import pytest

from deployments.errors import SynthesisFailed, TooLarge
from deployments.settings import TaskSettings

LEASE_S = 20.0
TTL_S = 60.0
SETTINGS = TaskSettings(lease_s=LEASE_S, ttl_s=TTL_S, max_bytes=1 << 16)
WAV = b"RIFF" + bytes(range(256)) * 4


class TaskStoreContract:
    """Needs the fixtures `stores` (two of the same place, with SETTINGS) and `pass_time` (seconds)."""

    async def test_nothing_is_known_of_what_never_was(self, stores):
        assert await stores[0].find("never-begun") is None
        assert await stores[0].audio("never-begun") is None

    async def test_a_task_succeeds_for_every_replica(self, stores):
        mine = stores[0]
        await mine.begin("task")
        for store in stores:
            assert (await store.find("task")).status == "processing"
            assert await store.audio("task") is None
        assert await mine.succeed("task", WAV, 1234) is True
        for store in stores:
            found = await store.find("task")
            assert (found.status, found.duration_ms) == ("success", 1234)
            assert await store.audio("task") == WAV

    async def test_audio_without_a_task_is_kept(self, stores):
        assert await stores[0].succeed("sync", WAV, 7) is True
        assert (await stores[1].find("sync")).status == "success"
        assert await stores[1].audio("sync") == WAV

    async def test_a_failure_is_told_as_it_was(self, stores):
        await stores[0].begin("task")
        await stores[0].fail("task", SynthesisFailed("坏了。 Retry.", "text"))
        found = await stores[1].find("task")
        assert (found.status, found.duration_ms) == ("failed", 0)
        assert found.error == SynthesisFailed("坏了。 Retry.", "text").body()["error"]
        assert await stores[0].succeed("task", WAV, 1) is False
        assert (await stores[1].find("task")).status == "failed"

    async def test_a_lost_claim_is_a_failure_for_good(self, stores, pass_time):
        mine, other = stores
        await mine.begin("task")
        await pass_time(LEASE_S * 1.1)
        assert (await other.find("task")).status == "failed"
        assert (await other.find("task")).error["code"] == "replica_lost"
        await mine.renew(("task",))
        assert await mine.succeed("task", WAV, 1) is False
        await mine.fail("task", SynthesisFailed("Too late."))
        assert (await other.find("task")).error["code"] == "replica_lost"
        assert await other.audio("task") is None

    async def test_a_renewed_claim_lives_on(self, stores, pass_time):
        await stores[0].begin("task")
        await stores[0].begin("forgotten")
        for _ in range(7):  # longer than the time to live of results
            await pass_time(LEASE_S / 2)
            await stores[0].renew(("task",))
        assert (await stores[1].find("task")).status == "processing"
        assert (await stores[1].find("forgotten")) is None
        assert await stores[0].succeed("task", WAV, 1) is True
        await stores[0].renew(())

    async def test_results_are_forgotten_in_time(self, stores, pass_time):
        await stores[0].succeed("good", WAV, 1)
        await stores[0].begin("bad")
        await stores[0].fail("bad", SynthesisFailed("No."))
        await pass_time(TTL_S * 0.5)
        assert (await stores[1].find("good")).status == "success"
        await pass_time(TTL_S * 0.6)
        for task_id in ("good", "bad"):
            assert await stores[1].find(task_id) is None
            assert await stores[1].audio(task_id) is None

    async def test_the_oldest_results_make_room(self, stores, pass_time):
        await stores[0].begin("running")
        for number in range(8):
            await stores[number % 2].succeed(f"task-{number}", bytes(15_000), number)
            await pass_time(0.002)
        kept = [number for number in range(8) if await stores[0].audio(f"task-{number}")]
        assert kept == [4, 5, 6, 7]  # 65,536 bytes hold four of them
        assert [number for number in range(8) if await stores[1].find(f"task-{number}")] == kept
        assert (await stores[0].find("running")).status == "processing"

    async def test_what_can_never_fit_pushes_nothing_out(self, stores):
        await stores[0].succeed("small", WAV, 1)
        await stores[0].begin("large")
        with pytest.raises(TooLarge):
            await stores[0].succeed("large", bytes(SETTINGS.max_bytes // 2 + 1), 1)
        assert await stores[0].audio("small") == WAV

    async def test_many_at_once(self, stores):
        async def live(number):
            store = stores[number % 2]
            await store.begin(f"task-{number}")
            assert await store.succeed(f"task-{number}", bytes([number]) * 500, number)

        await asyncio.gather(*map(live, range(30)))
        for number in range(30):
            assert (await stores[0].find(f"task-{number}")).duration_ms == number
            assert await stores[1].audio(f"task-{number}") == bytes([number]) * 500
