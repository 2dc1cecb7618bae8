"""The SQLite tier: one file on this machine, shared by its processes, bounded in size."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

from deployments.normalization.cache.key import SegmentKey
from deployments.normalization.cache.sqlite_file import PAGE_BYTES, CacheFile, CacheFolder
from deployments.normalization.cache.tier import Found, Measure, Row, Swept, TierFault
from deployments.normalization.cache.worker import Worker
from deployments.settings import SqliteCacheSettings

Result = TypeVar("Result")
_PURGE_ROWS: Final = 500
_EVICT_ROWS: Final = 32
_VACUUM_PAGES: Final = 256
_ROW_PAGES: Final = (
    3  # what a row takes beside its bytes: the last page of the entry, its row, its places in the indices
)


class SqliteTier:
    """Reads and writes on a thread and a connection each, so that no read waits for a write.

    Args:
        settings: Folder, size and time limits.
        cold_after_s: Entries not used for this long are swept.
        sweep_rows: Entries per step of a sweep.
        clock: Unix time in seconds.
    """

    name: Literal["sqlite"] = "sqlite"

    def __init__(
        self,
        settings: SqliteCacheSettings,
        *,
        cold_after_s: float,
        sweep_rows: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._cold_after_s = cold_after_s
        self._sweep_rows = sweep_rows
        self._clock = clock
        self._folder = CacheFolder(Path(settings.folder).expanduser())
        busy_s = settings.busy_timeout_ms / 1e3
        self._reader = (Worker("cache-read"), CacheFile(self._folder, settings.max_bytes, busy_s))
        self._writer = (Worker("cache-write"), CacheFile(self._folder, settings.max_bytes, busy_s))

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder.folder)

    async def find(self, key: SegmentKey) -> Found:
        """See Tier.find; there are no leases."""
        return await self._read(partial(_find, key=key, now=self._clock()))

    async def put(self, rows: Sequence[Row]) -> None:
        """See Tier.put."""
        await self._write(partial(_put, rows=rows, now=self._clock(), max_bytes=self._settings.max_bytes))

    async def touch(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.touch."""
        await self._write(partial(_touch, keys=keys, now=self._clock()))

    async def remove(self, keys: Sequence[SegmentKey]) -> None:
        """See Tier.remove."""
        await self._write(partial(_in_transaction, work=partial(_remove, keys=keys)))

    async def purge(self, tag: str | None) -> int:
        """See Tier.purge; in steps, so that other writers get their turn."""
        await self._write(partial(_note_purge, tag=tag or ""))
        total = 0
        while removed := await self._write(partial(_purge_step, tag=tag)):
            total += removed
        return total

    async def sweep_step(self) -> Swept:
        """See Tier.sweep_step; also gives freed space back to the disk."""
        now = self._clock()
        step = partial(_sweep_step, now=now, cold_before=now - self._cold_after_s, num_rows=self._sweep_rows)
        swept = await self._write(step)
        if not swept.more:
            await self._writer[0].call(self._folder.drop_old, now - self._cold_after_s)
        return swept

    async def measure(self) -> Measure:
        """See Tier.measure; also looks whether another process has moved on to a new file."""

        def measure() -> Measure:
            self._folder.refresh()
            return self._writer[1].run(_measure)

        return await self._call(self._writer[0], measure, self._settings.write_timeout_ms)

    async def close(self) -> None:
        """See Tier.close."""
        for worker, file in (self._reader, self._writer):
            await self._call(worker, file.close, self._settings.write_timeout_ms)
            worker.close()

    async def _read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        worker, file = self._reader
        return await self._call(worker, partial(file.run, work), self._settings.read_timeout_ms)

    async def _write(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        worker, file = self._writer
        return await self._call(worker, partial(file.run, work), self._settings.write_timeout_ms)

    async def _call(self, worker: Worker, function: Callable[[], Result], timeout_ms: int) -> Result:
        try:
            return await worker.call(function, timeout_s=timeout_ms / 1e3)
        except TimeoutError as error:
            raise TierFault("slow", f"{self.where}: no answer within {timeout_ms} ms") from error


def _find(connection: sqlite3.Connection, key: SegmentKey, now: float) -> Found:
    query = "SELECT raw, expires_at FROM segments LEFT JOIN entries USING (id) WHERE key = ?"
    row = connection.execute(query, (key,)).fetchone()
    if row is None:
        return Found()
    raw, expires_at = row
    if not isinstance(raw, bytes) or not isinstance(expires_at, float):
        return Found(raw=b"")  # no entry at all: it will fail the check and be removed
    return Found(raw=raw) if expires_at > now else Found(expired=True)


def _in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], Result]) -> Result:
    """The file object rolls back when the work raises."""
    connection.execute("BEGIN IMMEDIATE")
    result = work(connection)
    connection.execute("COMMIT")
    return result


def _put(connection: sqlite3.Connection, rows: Sequence[Row], now: float, max_bytes: int) -> None:
    """One transaction per entry: other processes that write never wait for more than one of them."""
    for row in rows:
        if len(row.raw) <= max_bytes // 2:  # else it would push everything else out
            _in_transaction(connection, partial(_put_one, row=row, now=now, max_bytes=max_bytes))


def _put_one(connection: sqlite3.Connection, row: Row, now: float, max_bytes: int) -> None:
    _remove(connection, [row.key])
    _make_room(connection, len(row.raw) + _ROW_PAGES * PAGE_BYTES, max_bytes)
    new_id = connection.execute("INSERT INTO entries (raw) VALUES (?)", (row.raw,)).lastrowid
    connection.execute("INSERT INTO segments VALUES (?, ?, ?, ?)", (row.key, new_id, row.expires_at, now))


def _make_room(connection: sqlite3.Connection, num_bytes: int, max_bytes: int) -> None:
    while _used_bytes(connection) + num_bytes > max_bytes:
        query = "SELECT key FROM segments ORDER BY used_at LIMIT ?"
        keys = [key for (key,) in connection.execute(query, (_EVICT_ROWS,))]
        if not keys:
            return
        for key in keys:
            _remove(connection, [key])
            if _used_bytes(connection) + num_bytes <= max_bytes:
                return


def _used_bytes(connection: sqlite3.Connection) -> int:
    num_pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    num_free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    return (num_pages - num_free) * PAGE_BYTES


def _remove(connection: sqlite3.Connection, keys: Sequence[str]) -> None:
    for key in keys:
        connection.execute("DELETE FROM entries WHERE id = (SELECT id FROM segments WHERE key = ?)", (key,))
        connection.execute("DELETE FROM segments WHERE key = ?", (key,))


def _touch(connection: sqlite3.Connection, keys: Sequence[SegmentKey], now: float) -> None:
    def update(inside: sqlite3.Connection) -> None:
        inside.executemany("UPDATE segments SET used_at = ? WHERE key = ?", [(now, key) for key in keys])

    _in_transaction(connection, update)


def _note_purge(connection: sqlite3.Connection, tag: str) -> None:
    query = "INSERT INTO purges VALUES (?, 1) ON CONFLICT (tag) DO UPDATE SET number = number + 1"
    connection.execute(query, (tag,))


def _purge_step(connection: sqlite3.Connection, tag: str | None) -> int:
    # "." follows "-": the keys of a voice are those between "tag-" and "tag."
    bounds = ("", "~") if tag is None else (f"{tag}-", f"{tag}.")
    query = "SELECT key FROM segments WHERE key >= ? AND key < ? LIMIT ?"
    return _remove_found(connection, query, (*bounds, _PURGE_ROWS))


def _remove_found(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> int:
    def remove(inside: sqlite3.Connection) -> int:
        keys = [key for (key,) in inside.execute(query, values)]
        _remove(inside, keys)
        return len(keys)

    return _in_transaction(connection, remove)


def _sweep_step(connection: sqlite3.Connection, now: float, cold_before: float, num_rows: int) -> Swept:
    removed = _remove_found(connection, "SELECT key FROM segments WHERE expires_at <= ? LIMIT ?", (now, num_rows))
    if removed < num_rows:
        query = "SELECT key FROM segments WHERE used_at < ? LIMIT ?"
        removed += _remove_found(connection, query, (cold_before, num_rows - removed))
    num_free: int = connection.execute("PRAGMA freelist_count").fetchone()[0]
    if num_free:
        connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    return Swept(removed, more=removed == num_rows or num_free > _VACUUM_PAGES)


def _measure(connection: sqlite3.Connection) -> Measure:
    num_entries = connection.execute("SELECT COUNT(*) FROM segments").fetchone()[0]
    purges = dict(connection.execute("SELECT tag, number FROM purges").fetchall())
    return Measure(num_entries, _used_bytes(connection), purges)
