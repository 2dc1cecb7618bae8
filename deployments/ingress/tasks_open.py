"""Which store keeps the tasks: Redis where the cache has it, else a file beside that of the cache."""

from __future__ import annotations

from pathlib import Path

from deployments.ingress.tasks import TaskStore
from deployments.ingress.tasks_redis import RedisTaskStore
from deployments.ingress.tasks_sqlite import SqliteTaskStore
from deployments.settings import CacheSettings, TaskSettings


def open_task_store(settings: TaskSettings, cache: CacheSettings) -> TaskStore:
    """The store that the settings ask for; nothing is opened before it is needed.

    Args:
        settings: Times, bounds and folder.
        cache: Its tier, and where that is kept.

    Raises:
        ConfigurationInvalid: cache.redis.url is not an address.
    """
    if cache.tier == "redis":
        return RedisTaskStore(cache.redis, settings)
    beside = Path(cache.sqlite.folder).expanduser().parent / "tasks"
    return SqliteTaskStore(Path(settings.folder).expanduser() if settings.folder else beside, settings)
