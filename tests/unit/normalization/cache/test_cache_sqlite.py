"""The SQLite tier on real files: bounds, expiry, restarts, broken and foreign files, locks, missing folders."""

import contextlib
import shutil
import sqlite3
import threading

import pytest

from deployments.normalization.cache.key import voice_tag
from deployments.normalization.cache.sqlite import SqliteTier
from deployments.normalization.cache.sqlite_file import PAGE_BYTES
from deployments.normalization.cache.tier import Found, Row, Swept, TierFault
from deployments.settings import SqliteCacheSettings


@pytest.fixture
async def open_tier(tmp_path, clock):
    tiers = []

    def open_(folder=tmp_path / "cache", cold_after_s=1000.0, sweep_rows=10, **settings):
        settings = SqliteCacheSettings(folder=str(folder), **{"read_timeout_ms": 5000, **settings})
        tier = SqliteTier(settings, cold_after_s=cold_after_s, sweep_rows=sweep_rows, clock=clock)
        tiers.append(tier)
        return tier

    yield open_
    for tier in tiers:
        await tier.close()


@pytest.fixture
def row(tools, clock):
    def row_(text, num_bytes=3000, ttl_s=5000.0, name="demo"):
        key = tools.key(text, name)
        return Row(key, (key.encode() * (num_bytes // 50 + 1))[:num_bytes], clock.now + ttl_s)

    return row_


def only_file(folder):
    (path,) = folder.glob("*.sqlite")
    return path


async def test_rows_come_back_as_they_were(open_tier, row):
    tier = open_tier()
    rows = [row(text, num_bytes) for text, num_bytes in zip("abcd", (1, 4000, 70_000, 300_000), strict=True)]
    assert await tier.find(rows[0].key) == Found()
    await tier.put(rows)
    assert [(await tier.find(each.key)).raw for each in rows] == [each.raw for each in rows]
    await tier.put([Row(rows[0].key, b"new", rows[0].expires_at)])
    assert (await tier.find(rows[0].key)).raw == b"new"
    await tier.remove([rows[0].key, rows[1].key])
    assert [(await tier.find(each.key)).raw for each in rows] == [None, None, rows[2].raw, rows[3].raw]
    assert (await tier.measure()).num_entries == 2


async def test_a_restart_finds_the_old_file(open_tier, row):
    tier = open_tier()
    await tier.put([row("a")])
    await tier.close()
    assert (await open_tier().find(row("a").key)).raw == row("a").raw


async def test_two_tiers_share_one_file(open_tier, row):
    left, right = open_tier(), open_tier()
    await left.put([row("a")])
    assert (await right.find(row("a").key)).raw == row("a").raw
    await right.remove([row("a").key])
    assert await left.find(row("a").key) == Found()


async def test_expired_rows_are_told_apart_and_swept(open_tier, row, clock):
    tier = open_tier(sweep_rows=10)
    await tier.put([row(str(number), ttl_s=100 if number < 25 else 5000) for number in range(30)])
    clock.now += 100
    assert await tier.find(row("0").key) == Found(expired=True)
    assert (await tier.find(row("29").key)).raw is not None
    steps = []
    while not steps or steps[-1].more:
        steps.append(await tier.sweep_step())
    assert [step.removed for step in steps] == [10, 10, 5]
    assert (await tier.measure()).num_entries == 5
    assert await tier.find(row("0").key) == Found()


async def test_cold_rows_are_swept_and_used_ones_stay(open_tier, row, clock):
    tier = open_tier(cold_after_s=1000)
    await tier.put([row("used"), row("cold")])
    clock.now += 900
    await tier.touch([row("used").key, row("unknown").key])
    clock.now += 200
    assert await tier.sweep_step() == Swept(removed=1, more=False)
    assert (await tier.find(row("used").key)).raw is not None
    assert await tier.find(row("cold").key) == Found()


async def test_the_sweep_gives_space_back(open_tier, row, clock, tmp_path):
    tier = open_tier(sweep_rows=100)
    await tier.put([row(str(number), num_bytes=50_000, ttl_s=10) for number in range(60)])
    await tier.measure()
    clock.now += 10
    while (await tier.sweep_step()).more:
        pass
    await tier.close()  # the last connection folds the log into the file
    assert only_file(tmp_path / "cache").stat().st_size < 1_200_000


@pytest.mark.parametrize("max_bytes", [1 << 18, 1 << 20])
async def test_the_file_is_bounded_and_drops_what_was_not_used_for_longest(open_tier, row, clock, tmp_path, max_bytes):
    tier = open_tier(max_bytes=max_bytes)
    await tier.put([row("used")])
    for number in range(3 * max_bytes // 30_000):
        clock.now += 1
        await tier.put([row(str(number), num_bytes=1000 + 5000 * (number % 10))])
        await tier.touch([row("used").key])
    last = row(str(number), num_bytes=1000 + 5000 * (number % 10))
    assert (await tier.find(last.key)).raw == last.raw
    assert (await tier.find(row("used").key)).raw == row("used").raw
    assert await tier.find(row("0").key) == Found()
    assert max_bytes / 2 < (await tier.measure()).num_bytes <= max_bytes
    await tier.close()
    assert only_file(tmp_path / "cache").stat().st_size <= max_bytes


async def test_a_smaller_limit_holds_for_an_old_file(open_tier, row):
    tier = open_tier(max_bytes=1 << 20)
    await tier.put([row(str(number), num_bytes=20_000) for number in range(40)])
    await tier.close()
    tier = open_tier(max_bytes=1 << 18)
    await tier.put([row("new", num_bytes=20_000)])
    assert (await tier.find(row("new").key)).raw is not None
    assert (await tier.measure()).num_bytes <= 1 << 18


async def test_an_entry_as_large_as_the_file_is_not_kept(open_tier, row):
    tier = open_tier(max_bytes=1 << 18)
    await tier.put([row("small"), row("large", num_bytes=200_000)])
    assert (await tier.find(row("small").key)).raw is not None
    assert await tier.find(row("large").key) == Found()


async def test_purge_of_a_voice_and_of_all(open_tier, row):
    tier = open_tier()
    await tier.put([row(str(n), 10, name=name) for n in range(600) for name in ("mine", "yours")])
    assert await tier.purge(voice_tag("mine")) == 600
    assert await tier.find(row("0", name="mine").key) == Found()
    assert (await tier.find(row("0", name="yours").key)).raw is not None
    assert await tier.purge(None) == 600
    measure = await open_tier().measure()
    assert measure.num_entries == 0
    assert measure.purges == {voice_tag("mine"): 1, "": 1}


def garbage(path):
    path.write_bytes(b"this is no database " * 500)


def truncated(path):
    path.write_bytes(path.read_bytes()[: 3 * PAGE_BYTES])


def scrambled(path):
    raw = bytearray(path.read_bytes())
    raw[PAGE_BYTES:] = bytes(255 - byte for byte in raw[PAGE_BYTES:])
    path.write_bytes(bytes(raw))


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE segments (key TEXT)")
    connection.close()


def other_schema(path):
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def robbed(path):
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE entries")
    connection.close()


@pytest.mark.parametrize("damage", [garbage, truncated, scrambled, foreign, other_schema, robbed])
async def test_a_broken_file_is_set_aside_and_a_new_one_begun(open_tier, row, tmp_path, damage):
    tier = open_tier()
    await tier.put([row(str(number)) for number in range(50)])
    await tier.close()
    path = only_file(tmp_path / "cache")
    damage(path)
    broken = path.read_bytes()

    tier = open_tier()
    for _ in range(2):  # the call that finds the damage may fail, the next one has a new file
        with contextlib.suppress(TierFault):
            await tier.put([row("new")])
    assert (await tier.find(row("new").key)).raw == row("new").raw
    assert (await tier.measure()).num_entries == 1
    assert {path.name for path in path.parent.glob("*.sqlite")} == {"segments-v1-0.sqlite", "segments-v1-1.sqlite"}
    assert path.read_bytes()[: 3 * PAGE_BYTES] == broken[: 3 * PAGE_BYTES]
    assert await open_tier().find(row("0").key) == Found()


async def test_only_the_last_broken_file_is_kept(open_tier, row, tmp_path):
    for number in range(4):
        tier = open_tier()
        await tier.put([row("a")])
        await tier.close()
        garbage(tmp_path / "cache" / f"segments-v1-{number}.sqlite")
    tier = open_tier()
    await tier.put([row("a")])
    names = {path.name for path in (tmp_path / "cache").glob("*.sqlite")}
    assert names == {"segments-v1-3.sqlite", "segments-v1-4.sqlite"}


async def test_other_processes_follow_to_the_new_file(open_tier, row, tmp_path):
    first, second = open_tier(), open_tier()
    await first.put([row("a")])
    assert (await second.find(row("a").key)).raw is not None
    path = only_file(tmp_path / "cache")
    second._folder.abandon(path, "as if damaged")
    await second.put([row("b")])
    assert (await first.find(row("a").key)).raw is not None  # still on the old file, and sound
    await first.measure()
    assert (await first.find(row("b").key)).raw == row("b").raw


async def test_a_file_that_is_removed_is_made_again(open_tier, row, tmp_path):
    tier = open_tier()
    await tier.put([row("a")])
    assert (await tier.find(row("a").key)).raw is not None
    shutil.rmtree(tmp_path / "cache")
    assert await tier.find(row("a").key) == Found()
    await tier.put([row("b")])
    assert (await open_tier().find(row("b").key)).raw == row("b").raw


async def test_junk_in_a_row_is_an_entry_that_fails_its_check(open_tier, row, tmp_path):
    tier = open_tier()
    await tier.put([row("a"), row("b")])
    with sqlite3.connect(only_file(tmp_path / "cache")) as connection:
        connection.execute("UPDATE entries SET raw = 'text'")
    connection.close()
    assert (await tier.find(row("a").key)).raw == b""
    await tier.put([row("a")])
    assert (await tier.find(row("a").key)).raw == row("a").raw


async def test_a_folder_that_cannot_be_made_is_a_fault_until_it_can(open_tier, row, tmp_path):
    (tmp_path / "file").write_text("")
    tier = open_tier(tmp_path / "file" / "cache")
    for call in (tier.find(row("a").key), tier.put([row("a")]), tier.purge(None), tier.measure(), tier.sweep_step()):
        with pytest.raises(TierFault) as caught:
            await call
        assert caught.value.kind == "gone"
    (tmp_path / "file").unlink()
    await tier.put([row("a")])
    assert (await tier.find(row("a").key)).raw is not None


async def test_a_writer_that_holds_the_lock_blocks_writes_for_busy_timeout_and_no_reads(open_tier, row, tmp_path):
    tier = open_tier(busy_timeout_ms=50)
    await tier.put([row("a")])
    other = sqlite3.connect(only_file(tmp_path / "cache"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TierFault) as caught:
        await tier.put([row("b")])
    assert caught.value.kind == "slow"
    assert (await tier.find(row("a").key)).raw is not None
    other.execute("ROLLBACK")
    other.close()
    await tier.put([row("b")])
    assert (await tier.find(row("b").key)).raw is not None


async def test_a_read_that_hangs_is_given_up(open_tier, row):
    tier = open_tier(read_timeout_ms=20)
    hold = threading.Event()
    worker, _ = tier._reader
    hanging = worker.call(hold.wait, timeout_s=0.001)
    with pytest.raises(TimeoutError):
        await hanging
    with pytest.raises(TierFault) as caught:
        await tier.find(row("a").key)
    assert caught.value.kind == "slow"
    hold.set()


async def test_files_of_older_schemas_go_when_nobody_writes_them_any_more(open_tier, row, tmp_path, clock):
    old = tmp_path / "cache" / "segments-v0-3.sqlite"
    old.parent.mkdir()
    old.write_bytes(b"old")
    tier = open_tier()
    await tier.put([row("a")])
    assert old.stat().st_mtime > clock.now  # the test's clock stands years ago
    await tier.sweep_step()
    assert old.exists()
    clock.now = old.stat().st_mtime + 2000
    await tier.sweep_step()
    assert not old.exists()
