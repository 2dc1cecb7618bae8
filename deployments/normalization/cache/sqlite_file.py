"""The SQLite cache file: where it lies, how it is opened, and what happens when it is broken.

A broken file is never renamed or mended: other processes may have it open, and SQLite finds its side files by name.
The folder holds segments-v1-0.sqlite; when that one is broken everybody moves on to segments-v1-1.sqlite. The last
broken one stays for inspection.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import filelock

from deployments.normalization.cache.tier import TierFault

Result = TypeVar("Result")
log = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 1
PAGE_BYTES: Final = 4096
_APPLICATION_ID: Final = 0x53534547  # "SSEG"
_LOCK_TIMEOUT_S: Final = 1.0
_OPEN_ATTEMPTS: Final = 3
_NAME: Final = re.compile(r"segments-v(\d+)-(\d+)\.sqlite")
_BROKEN: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_SCHEMA: Final = f"""
PRAGMA page_size = {PAGE_BYTES};
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
BEGIN IMMEDIATE;
CREATE TABLE segments (
    key TEXT PRIMARY KEY, id INTEGER NOT NULL, expires_at REAL NOT NULL, used_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX segments_used ON segments (used_at);
CREATE INDEX segments_expiry ON segments (expires_at);
-- Apart from their rows, so that noting a use does not write the audio again.
CREATE TABLE entries (id INTEGER PRIMARY KEY, raw BLOB NOT NULL);
CREATE TABLE purges (tag TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""


class _Foreign(Exception):
    """The file is a sound database, but not of this schema."""


class CacheFolder:
    """Knows the file in use. Shared by the threads of one process.

    Args:
        folder: Of the cache files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mutex = threading.Lock()
        self._number: int | None = None

    @property
    def path(self) -> Path:
        """The file in use."""
        with self._mutex:
            if self._number is None:
                self._number = max(self._numbers(), default=0)
            return self._path(self._number)

    def refresh(self) -> Path:
        """The file in use after a look at the folder: another process may have moved on, or somebody removed it."""
        with self._mutex:
            self._number = None
        return self.path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the lock of the folder between processes while a file is made or given up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(self.folder / ".lock", timeout=_LOCK_TIMEOUT_S):
            yield

    def abandon(self, path: Path, why: str) -> None:
        """Moves on from a broken file, unless somebody else has done so."""
        with self.locked(), self._mutex:
            number = max(self._numbers(), default=0)
            if path == self._path(number):
                log.error("cache file %s is broken (%s); starting a new one, this one stays for inspection", path, why)
                number += 1
                self._path(number).touch()
                self._drop_before(number - 1)
            self._number = number

    def drop_old(self, older_than: float) -> None:
        """Removes files of earlier schema versions that nobody has written since a Unix time."""
        for path in self.folder.glob("segments-v*.sqlite"):
            match = _NAME.fullmatch(path.name)
            if match and int(match[1]) < SCHEMA_VERSION and path.stat().st_mtime < older_than:
                _unlink(path)

    def _drop_before(self, number: int) -> None:
        for old in self._numbers():
            if old < number:
                _unlink(self._path(old))

    def _path(self, number: int) -> Path:
        return self.folder / f"segments-v{SCHEMA_VERSION}-{number}.sqlite"

    def _numbers(self) -> list[int]:
        matches = (_NAME.fullmatch(path.name) for path in self.folder.glob(f"segments-v{SCHEMA_VERSION}-*.sqlite"))
        return [int(match[2]) for match in matches if match]


class CacheFile:
    """One connection to the file in use. Belongs to one thread.

    Args:
        folder: Knows the file in use.
        max_bytes: Size of the file at most; SQLite itself refuses to grow it further.
        busy_timeout_s: How long to wait for another process that writes.
    """

    def __init__(self, folder: CacheFolder, max_bytes: int, busy_timeout_s: float) -> None:
        self._folder = folder
        self._max_pages = max_bytes // PAGE_BYTES
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._path: Path | None = None
        self._inode = 0

    def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """work(connection), on a connection to the file in use.

        Raises:
            TierFault: It cannot be opened, or the work failed. A broken file has been given up: the next call has a
                new one.
        """
        try:
            return work(self._open())
        except sqlite3.Error as error:
            raise self._fault(error) from error
        except (OSError, filelock.Timeout) as error:
            raise TierFault("gone", repr(error)) from error

    def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _open(self) -> sqlite3.Connection:
        for _ in range(_OPEN_ATTEMPTS):
            path = self._folder.path
            if self._connection is not None and path == self._path and self._is_the_same(path):
                return self._connection
            self.close()
            try:
                self._connection, self._path = self._connect(path), path
                self._inode = path.stat().st_ino
            except (_Foreign, sqlite3.DatabaseError) as error:
                if not isinstance(error, _Foreign) and not _is_broken(error):
                    raise
                self._folder.abandon(path, str(error))
        raise TierFault("corrupt", f"{self._folder.folder} holds only broken files")

    def _is_the_same(self, path: Path) -> bool:
        """False once somebody has removed the file under the connection."""
        try:
            return path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def _connect(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, self._busy_timeout_s, isolation_level=None, check_same_thread=False)
        try:
            if not _has_schema(connection):
                with self._folder.locked():
                    if not _has_schema(connection):
                        connection.executescript(_SCHEMA)
            connection.execute("PRAGMA synchronous = NORMAL")  # a crash may lose the last entries, never the file
            connection.execute("PRAGMA journal_size_limit = 4194304")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA max_page_count = {self._max_pages}").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _fault(self, error: sqlite3.Error) -> TierFault:
        """What an error means; leaves the connection without a transaction, or closed where it cannot be trusted."""
        code = (getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR) & 0xFF
        detail = f"{self._path}: {error}"
        if _is_broken(error):
            self.close()
            if self._path is not None:
                with contextlib.suppress(OSError, filelock.Timeout):
                    self._folder.abandon(self._path, str(error))
            return TierFault("corrupt", detail)
        if self._connection is not None and self._connection.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._connection.rollback()
        if code == sqlite3.SQLITE_FULL:
            return TierFault("full", detail)
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            return TierFault("slow", detail)
        self.close()
        return TierFault("junk" if code == sqlite3.SQLITE_ERROR else "gone", detail)


def _has_schema(connection: sqlite3.Connection) -> bool:
    """True for this schema, False for an empty database.

    Raises:
        _Foreign: It is neither.
    """
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables and not version and not application:
        return False
    if (version, application) != (SCHEMA_VERSION, _APPLICATION_ID) or tables != {"segments", "entries", "purges"}:
        raise _Foreign(f"schema {version} of application {application:#x} with tables {sorted(tables)}")
    return True


def _is_broken(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _BROKEN


def _unlink(path: Path) -> None:
    for side in ("", "-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
