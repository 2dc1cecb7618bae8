"""Model folders fetched by their id from ModelScope's hub into a cache folder.

modelscope is imported inside the functions, because it brings torch with it and most services never download. No zip
file is downloaded or unpacked: resource.zip holds a front end that this service does not use.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import logging
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from filelock import FileLock, Timeout

from deployments.errors import VoiceInvalid

log = logging.getLogger(__name__)

_MODEL_ID: Final = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
_WANTED: Final = ["configuration.json", "voices/*"]
# "*../*" keeps a listing that climbs out of the folder from being followed.
_UNWANTED: Final = ["*.zip", "*.onnx", "*.wav", "*../*"]
_MARKER: Final = ".complete.json"
_LOCK_NOTICE_S: Final = 60.0
_LOGGED_SHARE: Final = 0.1


def download_model(model: str, revision: str | None, cache_dir: Path) -> Path:
    """The local folder of a model id, downloaded first unless it is already complete.

    A complete folder is used as it is, without asking the hub: a service starts offline, and replicas never differ.
    Without a revision that means the hub's default at the time of the download; delete the folder to get a newer one.
    An interrupted download is taken up where it ended. Processes on one machine wait for each other and download once.

    Args:
        model: Id at the hub, "owner/name".
        revision: Branch, tag or commit to pin; None takes the hub's default.
        cache_dir: Where model folders are kept, one per model and revision.

    Returns:
        The folder that holds voices/.

    Raises:
        VoiceInvalid: The text is no model id, the hub lacks the model or revision or cannot be reached, a file arrived
            damaged, or the disk is full or not writable.
    """
    folder = folder_of(model, revision, cache_dir)
    if is_complete(folder):
        return folder
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _lock(cache_dir / f"{folder.name}.lock", folder):
            if not is_complete(folder):
                _fetch(model, revision, folder)
    except OSError as error:
        raise _explain(error, model, revision, folder) from error
    return folder


def folder_of(model: str, revision: str | None, cache_dir: Path) -> Path:
    """Where the download of a model id lies, whether it is there or not.

    Args:
        model: Id at the hub, "owner/name".
        revision: Branch, tag or commit; None for the hub's default.
        cache_dir: Where model folders are kept.

    Raises:
        VoiceInvalid: The text is no model id.
    """
    if not _MODEL_ID.fullmatch(model):
        raise VoiceInvalid(
            f"{model!r} is neither a folder nor a model id. Give an existing folder, an id such as "
            '"damo/speech_sambert-hifigan_tts_zh-cn_16k", or "bundled".',
            "voices.sources",
        )
    return cache_dir / f"{model.replace('/', '--')}@{quote(revision or 'default', safe='')}"


def is_complete(folder: Path) -> bool:
    """Whether a download into this folder ended well and its files are still all there, at their sizes."""
    try:
        sizes = json.loads((folder / _MARKER).read_text(encoding="utf-8"))["files"]
        return bool(sizes) and all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextlib.contextmanager
def _lock(path: Path, folder: Path) -> Iterator[None]:
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=_LOCK_NOTICE_S)
            break
        except Timeout:
            log.info("Another process is downloading into %s; waiting for it.", folder)
    try:
        yield
    finally:
        lock.release()


def _fetch(model: str, revision: str | None, folder: Path) -> None:
    try:
        from modelscope.hub.snapshot_download import snapshot_download
    except ImportError as error:
        raise VoiceInvalid(
            f"{model!r} must be downloaded, and the package modelscope cannot be imported ({error}). Install it "
            "(pip install modelscope), or copy the model folder to this machine and name its path in voices.sources.",
            "voices.sources",
        ) from error
    log.info("Downloading %s (revision %s) into %s.", model, revision or "default", folder)
    on_terminal = sys.stderr.isatty()
    try:
        with contextlib.nullcontext() if on_terminal else _without_bars():
            snapshot_download(
                model,
                revision=revision,
                # The hub's own locks go beside the folder, never into the home directory.
                cache_dir=str(folder.parent),
                local_dir=str(folder),
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
                progress_callbacks=None if on_terminal else [_ProgressLog],
            )
    except Exception as error:
        raise _explain(error, model, revision, folder) from error
    files = [file for file in folder.rglob("*") if file.is_file() and file.name != _MARKER]
    if not (folder / "voices").is_dir():
        raise VoiceInvalid(
            f"{model!r} (revision {revision or 'default'}) has no folder voices/; it is no Sambert-HifiGan model. "
            "Mend voices.sources.",
            "voices.sources",
        )
    sizes = {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
    content = json.dumps({"model": model, "revision": revision, "files": sizes}, indent=1)
    unfinished = folder / f"{_MARKER}.part"
    unfinished.write_text(content, encoding="utf-8")
    unfinished.replace(folder / _MARKER)
    log.info("%s is complete: %d files, %.0f MiB.", model, len(sizes), sum(sizes.values()) / 2**20)


class _ProgressLog:
    """Progress of one file as log lines, for services without a terminal; called from the hub's threads."""

    def __init__(self, filename: str, file_size: int) -> None:
        self._name = filename
        self._total = file_size
        self._done = 0
        self._next = _LOGGED_SHARE
        self._lock = threading.Lock()

    def update(self, size: int) -> None:
        """Counts bytes that arrived (or, negative, that must come again)."""
        with self._lock:
            self._done += size
            share = self._done / self._total if self._total else 0.0
            if self._next <= share < 1.0:
                self._next = share + _LOGGED_SHARE
                log.info("%s: %.0f %% of %.1f MiB.", self._name, 100 * share, self._total / 2**20)

    def end(self) -> None:
        """Called when the file is complete or given up."""
        if self._done >= self._total:
            log.info("%s: complete, %.1f MiB.", self._name, self._done / 2**20)


@contextlib.contextmanager
def _without_bars() -> Iterator[None]:
    """Keeps the hub's progress bars off a stderr that is a log; the hub has no switch for it."""
    hub_download: Any = importlib.import_module("modelscope_hub._download")
    bars: Any = getattr(hub_download, "tqdm", None)
    if bars is None:  # a later version names it otherwise: bars in the log are no reason to fail
        yield
        return
    hub_download.tqdm = lambda *args, **kwargs: bars(*args, **{**kwargs, "disable": True})
    try:
        yield
    finally:
        hub_download.tqdm = bars


def _explain(error: Exception, model: str, revision: str | None, folder: Path) -> VoiceInvalid:
    """The error of a failed download, with the fix that belongs to its kind."""
    what = f"{model!r} (revision {revision or 'default'})"
    kinds = _kinds(error)
    numbers = {cause.errno for cause in kinds.values() if isinstance(cause, OSError)}
    if numbers & {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        reason = f"the disk of {folder} is full. Free space or set voices.cache_dir to another disk"
    elif numbers & {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}:
        reason = f"{folder} cannot be written. Mend its permissions or set voices.cache_dir to another folder"
    elif kinds.keys() & {"AuthenticationError", "PermissionDeniedError"}:
        reason = "the hub refuses it to this account. Set MODELSCOPE_API_TOKEN to a token that may read it"
    elif "NotExistError" in kinds:
        reason = "the hub has no such model or revision. Mend its spelling in voices.sources"
    elif "FileIntegrityError" in kinds:
        reason = "a file arrived damaged. Start again: only that file is downloaded anew"
    elif kinds.keys() & {"NetworkError", "ServerError", "RateLimitError", "ConnectionError", "Timeout"}:
        reason = (
            "the hub cannot be reached. Check network and proxy and start again (the download goes on where it ended), "
            "or copy the model folder to this machine and name its path in voices.sources"
        )
    else:
        reason = "the download failed. Start again, or copy the model folder here and name its path in voices.sources"
    detail = next(reversed(kinds.values()))
    line = " ".join((str(detail).strip() or type(detail).__name__).splitlines()[0].split())[:200]
    return VoiceInvalid(f"{what} could not be downloaded: {reason}. ({line})", "voices.sources")


def _kinds(error: BaseException) -> dict[str, BaseException]:
    """Every class name in an error, its causes and the files that failed, with an example; the innermost comes last."""
    found: dict[str, BaseException] = {}
    queue: list[BaseException | None] = [error]
    seen: set[int] = set()
    while queue:
        current = queue.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        for kind in type(current).__mro__:
            found.setdefault(kind.__name__, current)
        queue += [*getattr(current, "failed_files", {}).values(), current.__cause__]
    return found
