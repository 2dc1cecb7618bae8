"""Tasks in the Redis that replicas and machines share.

Keys, all in one hash slot, P being "{prefix:tasks-v1}":
    P:t:<id>    hash: status, duration_ms, error; Redis itself forgets it when its time is up
    P:l:<id>    the claim of the replica that works on it; gone when it is not renewed
    P:a:<id>    the wav file of a success
    P:kept      sorted set: id -> Unix time in milliseconds at which its audio was kept
    P:size      hash: id -> bytes of its audio
    P:total     sum of P:size
"""

from __future__ import annotations

import json
import logging
from typing import Final

from deployments.errors import NotReady, SpeechError
from deployments.ingress.tasks import LOST, Task, check_size
from deployments.redis_client import RedisClient
from deployments.settings import RedisCacheSettings, TaskSettings

log = logging.getLogger("deployments.ingress")

# KEYS: task, claim, audio, kept, size, total. ARGV: id, wav file, duration in ms, time to live in ms, bytes at most,
# prefix of tasks, prefix of audio. 0 when the claim was lost. Whatever is over its time is struck out of the books.
SUCCEED: Final = """
local status = redis.call('HGET', KEYS[1], 'status')
if status and (status ~= 'processing' or redis.call('EXISTS', KEYS[2]) == 0) then return 0 end
redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[4])
redis.call('HSET', KEYS[1], 'status', 'success', 'duration_ms', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('DEL', KEYS[2])
local function forget(id)
    local size = tonumber(redis.call('HGET', KEYS[5], id) or '0')
    redis.call('UNLINK', ARGV[6] .. id, ARGV[7] .. id)
    redis.call('ZREM', KEYS[4], id)
    redis.call('HDEL', KEYS[5], id)
    return redis.call('DECRBY', KEYS[6], size)
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[4], now, ARGV[1])
redis.call('HSET', KEYS[5], ARGV[1], #ARGV[2])
local total = redis.call('INCRBY', KEYS[6], #ARGV[2])
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], 0, now - ARGV[4])) do total = forget(id) end
while total > tonumber(ARGV[5]) do
    local oldest = redis.call('ZRANGE', KEYS[4], 0, 0)[1]
    if not oldest or oldest == ARGV[1] then break end
    total = forget(oldest)
end
return 1
"""

# KEYS: task, claim. ARGV: error, time to live in ms.
FAIL: Final = """
if redis.call('HGET', KEYS[1], 'status') ~= 'processing' or redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'status', 'failed', 'error', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('DEL', KEYS[2])
"""


class RedisTaskStore:
    """A TaskStore in Redis.

    Args:
        redis_settings: Address and prefix.
        settings: Times and bounds.

    Raises:
        ConfigurationInvalid: cache.redis.url is not an address.
    """

    def __init__(self, redis_settings: RedisCacheSettings, settings: TaskSettings) -> None:
        self._settings = settings
        self._base = f"{{{redis_settings.prefix}:tasks-v1}}"
        self._books = [f"{self._base}:{part}" for part in ("kept", "size", "total")]
        self._lease_ms = round(settings.lease_s * 1e3)
        self._ttl_ms = round(settings.ttl_s * 1e3)
        limit_s = settings.store_timeout_ms / 1e3
        self._client = RedisClient(redis_settings, limit_s, limit_s, _fault)
        self._redis = self._client.commands
        self._succeed = self._redis.register_script(SUCCEED)
        self._fail = self._redis.register_script(FAIL)

    async def begin(self, task_id: str) -> None:
        """See TaskStore.begin."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hset(self._key("t", task_id), mapping={"status": "processing"})
        pipeline.pexpire(self._key("t", task_id), self._ttl_ms)
        pipeline.set(self._key("l", task_id), b"", px=self._lease_ms)
        await self._client.write(pipeline.execute())

    async def renew(self, task_ids: tuple[str, ...]) -> None:
        """See TaskStore.renew."""
        pipeline = self._redis.pipeline(transaction=False)
        for task_id in task_ids:
            pipeline.pexpire(self._key("l", task_id), self._lease_ms)
            pipeline.pexpire(self._key("t", task_id), self._ttl_ms)
        if task_ids:
            await self._client.write(pipeline.execute())

    async def succeed(self, task_id: str, audio: bytes, duration_ms: int) -> bool:
        """See TaskStore.succeed."""
        check_size(audio, self._settings)
        keys = [*(self._key(kind, task_id) for kind in "tla"), *self._books]
        bounds = (self._ttl_ms, self._settings.max_bytes, self._key("t", ""), self._key("a", ""))
        return bool(await self._client.write(self._succeed(keys=keys, args=[task_id, audio, duration_ms, *bounds])))

    async def fail(self, task_id: str, error: SpeechError) -> None:
        """See TaskStore.fail."""
        keys = [self._key(kind, task_id) for kind in "tl"]
        await self._client.write(self._fail(keys=keys, args=[json.dumps(error.body()["error"]), self._ttl_ms]))

    async def find(self, task_id: str) -> Task | None:
        """See TaskStore.find."""
        pipeline = self._redis.pipeline(transaction=True)
        pipeline.hgetall(self._key("t", task_id))
        pipeline.exists(self._key("l", task_id))
        known, is_claimed = await self._client.read(pipeline.execute())
        if not known:
            return None
        status = known[b"status"].decode()
        if status == "processing" and not is_claimed:
            return Task("failed", error=LOST.body()["error"])
        return Task(status, int(known.get(b"duration_ms", 0)), json.loads(known.get(b"error", b"{}")))

    async def audio(self, task_id: str) -> bytes | None:
        """See TaskStore.audio."""
        found: bytes | None = await self._client.read(self._redis.get(self._key("a", task_id)))
        return found

    async def close(self) -> None:
        """See TaskStore.close."""
        await self._client.close()

    def _key(self, kind: str, task_id: str) -> str:
        return f"{self._base}:{kind}:{task_id}"


def _fault(kind: str, detail: str) -> NotReady:
    log.warning("the tasks in Redis failed: %s: %s", kind, detail)
    return NotReady("The store of tasks and their audio does not work now; retry.", retry_after_s=1.0)
