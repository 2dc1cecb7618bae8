"""Tasks in a file that the ingress replicas of one machine share."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import filelock

from deployments.errors import NotReady, SpeechError
from deployments.ingress.tasks import LOST, Task, check_size
from deployments.settings import TaskSettings

Result = TypeVar("Result")
log = logging.getLogger("deployments.ingress")
_NAME: Final = re.compile(r"tasks-v1-(\d+)\.sqlite")
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_ROW_BYTES: Final = 512
_VACUUM_PAGES: Final = 256
_SCHEMA: Final = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS tasks (
    id TEXT PRIMARY KEY, status TEXT NOT NULL, lease_until REAL NOT NULL, expires_at REAL NOT NULL,
    duration_ms INTEGER NOT NULL, error TEXT NOT NULL, num_bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tasks_expiry ON tasks (expires_at);
CREATE TABLE IF NOT EXISTS audio (id TEXT PRIMARY KEY, wav BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS forget AFTER DELETE ON tasks BEGIN DELETE FROM audio WHERE id = OLD.id; END;
PRAGMA user_version = 1;
COMMIT;
"""


class SqliteTaskStore:
    """A TaskStore in a file; all calls run on one thread.

    A broken file stays where it is, since other replicas may have it open; everybody moves on to the next number.

    Args:
        folder: Of the file; made when it is needed.
        settings: Times and bounds.
        clock: Unix time in seconds.
    """

    def __init__(self, folder: Path, settings: TaskSettings, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tasks")
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[Path, int] | None = None
        self._is_closed = False

    async def begin(self, task_id: str) -> None:
        """See TaskStore.begin."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            self._make_room(connection, _ROW_BYTES, now)
            lease_until, expires_at = now + self._settings.lease_s, now + self._settings.ttl_s
            values = (task_id, "processing", lease_until, expires_at, 0, "{}", _ROW_BYTES)
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", values)

        await self._run(work)

    async def renew(self, task_ids: tuple[str, ...]) -> None:
        """See TaskStore.renew."""

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            query = "UPDATE tasks SET lease_until = ?, expires_at = ? WHERE id = ? AND lease_until > ?"
            until = (now + self._settings.lease_s, now + self._settings.ttl_s)
            connection.executemany(query, [(*until, task_id, now) for task_id in task_ids])

        await self._run(work)

    async def succeed(self, task_id: str, audio: bytes, duration_ms: int) -> bool:
        """See TaskStore.succeed."""
        check_size(audio, self._settings)

        def work(connection: sqlite3.Connection) -> bool:
            now = self._clock()
            if self._is_over(connection, task_id, now):
                return False
            num_bytes = len(audio) + _ROW_BYTES
            connection.execute("DELETE FROM tasks WHERE id = ?", (task_id,))
            self._make_room(connection, num_bytes, now)
            values = (task_id, "success", 0.0, now + self._settings.ttl_s, duration_ms, "{}", num_bytes)
            connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("INSERT INTO audio VALUES (?, ?)", (task_id, audio))
            return True

        return await self._run(work)

    async def fail(self, task_id: str, error: SpeechError) -> None:
        """See TaskStore.fail."""
        told = json.dumps(error.body()["error"])

        def work(connection: sqlite3.Connection) -> None:
            now = self._clock()
            query = (
                "UPDATE tasks SET status = 'failed', error = ?, expires_at = ?"
                " WHERE id = ? AND status = 'processing' AND lease_until > ?"
            )
            connection.execute(query, (told, now + self._settings.ttl_s, task_id, now))

        await self._run(work)

    async def find(self, task_id: str) -> Task | None:
        """See TaskStore.find."""

        def work(connection: sqlite3.Connection) -> Task | None:
            now = self._clock()
            query = "SELECT status, lease_until, duration_ms, error FROM tasks WHERE id = ? AND expires_at > ?"
            row = connection.execute(query, (task_id, now)).fetchone()
            if row is None:
                return None
            status, lease_until, duration_ms, error = row
            if status == "processing" and lease_until <= now:
                return Task("failed", error=LOST.body()["error"])
            return Task(status, duration_ms, json.loads(error))

        return await self._run(work, writes=False)

    async def audio(self, task_id: str) -> bytes | None:
        """See TaskStore.audio."""

        def work(connection: sqlite3.Connection) -> bytes | None:
            query = "SELECT wav FROM audio JOIN tasks USING (id) WHERE id = ? AND expires_at > ?"
            row = connection.execute(query, (task_id, self._clock())).fetchone()
            return None if row is None else row[0]

        return await self._run(work, writes=False)

    async def close(self) -> None:
        """See TaskStore.close."""
        if not self._is_closed:
            self._is_closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown(wait=False)

    def _is_over(self, connection: sqlite3.Connection, task_id: str, now: float) -> bool:
        """Whether a task that was begun may not be finished any more."""
        row = connection.execute("SELECT status, lease_until FROM tasks WHERE id = ?", (task_id,)).fetchone()
        return row is not None and (row[0] != "processing" or row[1] <= now)

    def _make_room(self, connection: sqlite3.Connection, num_bytes: int, now: float) -> None:
        """Forgets what is over its time, and the oldest results until so many bytes more are within the bound."""
        connection.execute("DELETE FROM tasks WHERE expires_at <= ?", (now,))
        used: int = connection.execute("SELECT COALESCE(SUM(num_bytes), 0) FROM tasks").fetchone()[0]
        excess = used + num_bytes - self._settings.max_bytes
        if excess > 0:
            query = "SELECT id, num_bytes FROM tasks WHERE status != 'processing' ORDER BY expires_at"
            for task_id, size in connection.execute(query).fetchall():
                connection.execute("DELETE FROM tasks WHERE id = ?", (task_id,))
                excess -= size
                if excess <= 0:
                    break

    async def _run(self, work: Callable[[sqlite3.Connection], Result], *, writes: bool = True) -> Result:
        """The work as one transaction on the thread.

        Raises:
            NotReady: It was not done, or not in time.
        """
        limit_s = self._settings.store_timeout_ms / 1e3
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._transact, work, writes)
        try:
            async with asyncio.timeout(limit_s):
                return await future
        except TimeoutError:
            log.warning("the file of tasks in %s does not answer within %g s", self._folder, limit_s)
        except (sqlite3.Error, OSError) as error:
            log.warning("the file of tasks in %s failed: %r", self._folder, error)
        raise NotReady("The store of tasks and their audio does not work now; retry.", retry_after_s=1.0)

    def _transact(self, work: Callable[[sqlite3.Connection], Result], writes: bool) -> Result:
        try:
            connection = self._connect()
            with connection:
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                result = work(connection)
            if writes:
                with contextlib.suppress(sqlite3.OperationalError):  # the work is done; space can be freed next time
                    connection.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")  # execute() frees one page
        except sqlite3.Error as error:
            self._disconnect()
            if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _BROKEN:
                self._abandon(error)
            raise
        return result

    def _connect(self) -> sqlite3.Connection:
        """A connection to the file in use; another one when somebody has removed or replaced it."""
        path = self._path()
        if self._connection is not None and path.exists() and self._opened == (path, path.stat().st_ino):
            return self._connection
        self._disconnect()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        busy_s = self._settings.store_timeout_ms / 2e3
        connection = sqlite3.connect(path, busy_s, isolation_level=None, check_same_thread=False)
        try:
            if not _has_schema(connection):
                with filelock.FileLock(self._folder / ".lock", timeout=busy_s):  # not even a mode may be set by two
                    if not _has_schema(connection):
                        connection.executescript(_SCHEMA)
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash may lose the last tasks, never the file
            connection.execute("PRAGMA journal_size_limit = 4194304")
        except BaseException:
            connection.close()
            raise
        self._connection, self._opened = connection, (path, path.stat().st_ino)
        return connection

    def _path(self) -> Path:
        numbers = [int(match[1]) for path in self._folder.glob("tasks-v1-*") if (match := _NAME.fullmatch(path.name))]
        return self._folder / f"tasks-v1-{max(numbers, default=0)}.sqlite"

    def _abandon(self, error: sqlite3.Error) -> None:
        path = self._path()
        number = int(path.stem.rpartition("-")[2]) + 1
        log.error("the file of tasks %s is broken (%s); going on with the next number", path, error)
        (self._folder / f"tasks-v1-{number}.sqlite").touch()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _has_schema(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA user_version").fetchone()[0])
