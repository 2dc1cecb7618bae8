"""The connection to Redis: nothing is tried twice, nothing takes long, and every fault is of its user's own kind.

Each call runs in a task of its own that is never cancelled. The client library loses connections, and now and then the
cancellation itself, when a call is cancelled half-way; here a caller that goes away or gives up leaves the call to its
task, which the client's own time limits end.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from redis import asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisGone
from redis.exceptions import OutOfMemoryError, RedisError
from redis.exceptions import TimeoutError as RedisSlow

from deployments.errors import ConfigurationInvalid
from deployments.settings import RedisCacheSettings

Kind = Literal["slow", "gone", "full", "junk"]


class RedisClient:
    """Calls to one Redis.

    Args:
        settings: Address and connections.
        read_s: Seconds that a reply to read() may take, and a free connection.
        write_s: Seconds that a reply to write() may take.
        fault: Makes the exception that all calls raise, of what kind the fault is and a detail for the log.

    Raises:
        ConfigurationInvalid: cache.redis.url is not an address.
    """

    def __init__(
        self, settings: RedisCacheSettings, read_s: float, write_s: float, fault: Callable[[Kind, str], Exception]
    ) -> None:
        self.commands = _connect(settings, read_s, max(read_s, write_s))
        self._read_s = read_s
        self._write_s = write_s
        self._fault = fault
        self._calls: set[asyncio.Task[Any]] = set()
        scheme, _, rest = settings.url.partition("?")[0].partition("://")
        self.where = f"{scheme}://{rest.rpartition('@')[2]}"  # without user and password

    def begin(self, call: Awaitable[Any]) -> asyncio.Task[Any]:
        """Starts a call that goes on whatever becomes of its caller; its task raises a fault and nothing else."""
        task = asyncio.get_running_loop().create_task(self._judged(call))
        self._calls.add(task)
        task.add_done_callback(self._ended)
        return task

    async def read(self, call: Awaitable[Any]) -> Any:
        """The reply, within read_s.

        Raises:
            Exception: What `fault` makes: there is no reply, or it is an error.
        """
        return await self.reply(self.begin(call), self._read_s)

    async def write(self, call: Awaitable[Any]) -> Any:
        """The reply, within write_s.

        Raises:
            Exception: What `fault` makes: there is no reply, or it is an error.
        """
        return await self.reply(self.begin(call), self._write_s)

    async def reply(self, task: asyncio.Task[Any], timeout_s: float | None = None) -> Any:
        """The reply of a call that was begun, within read_s if nothing else is said.

        Raises:
            Exception: What `fault` makes: there is no reply, or it is an error.
        """
        timeout_s = self._read_s if timeout_s is None else timeout_s
        await asyncio.wait({task}, timeout=timeout_s)
        if not task.done():
            raise self._fault("slow", f"{self.where}: no answer within {timeout_s * 1e3:.0f} ms")
        return task.result()

    async def close(self) -> None:
        """Waits for the calls that were begun, and closes the connections."""
        while self._calls:
            await asyncio.wait(self._calls)
        await self.commands.aclose()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # of a call that nobody waits for any more: seen and done with

    async def _judged(self, call: Awaitable[Any]) -> Any:
        try:
            return await call
        except (TimeoutError, RedisSlow) as error:
            raise self._fault("slow", f"{self.where}: {error}") from error
        except (RedisGone, OSError) as error:
            raise self._fault("gone", f"{self.where}: {error}") from error
        except Exception as error:  # what a server that is no Redis, or a damaged one, makes of the client
            # Redis 6 wraps the error when a script meets it.
            is_full = isinstance(error, OutOfMemoryError) or (isinstance(error, RedisError) and "-OOM" in str(error))
            raise self._fault("full" if is_full else "junk", f"{self.where}: {error!r}") from error


def _connect(settings: RedisCacheSettings, connection_s: float, reply_s: float) -> redis.Redis:
    """A client that opens connections when they are needed."""
    options: dict[str, Any] = {
        "max_connections": settings.max_connections,
        "timeout": connection_s,  # for a free connection
        "socket_timeout": reply_s,
        "socket_connect_timeout": reply_s,
        "retry": Retry(NoBackoff(), 0),  # whoever calls decides when to try again
        "protocol": 2,  # every server speaks it
        "driver_info": None,  # saves a round trip per connection
    }
    if password := os.environ.get(settings.password_env):
        options["password"] = password
    try:
        pool = redis.BlockingConnectionPool.from_url(settings.url, **options)
    except ValueError as error:
        raise ConfigurationInvalid(
            f"cache.redis.url: {error} Write it as redis://host:port/db.", "cache.redis.url"
        ) from error
    return redis.Redis.from_pool(pool)
