"""Tasks in a real Redis: the contract of every store, and what happens when Redis goes away."""

import pytest
import redis
from redis_server import RedisServer
from task_store_contract import SETTINGS, TTL_S, WAV, TaskStoreContract

from deployments.errors import ConfigurationInvalid, NotReady
from deployments.ingress.tasks_redis import RedisTaskStore
from deployments.settings import RedisCacheSettings, TaskSettings

KEPT = "{sambert:tasks-v1}:kept"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.stop()


@pytest.fixture
async def stores(server):
    with redis.Redis(port=server.port) as client:
        client.flushall()
    made = [RedisTaskStore(RedisCacheSettings(url=server.url), SETTINGS) for _ in range(2)]
    yield made
    for store in made:
        await store.close()


@pytest.fixture
def pass_time(server):
    """Redis has a clock of its own, so everything in it is made older instead."""

    async def pass_time(seconds):
        passed_ms = round(seconds * 1000)
        with redis.Redis(port=server.port) as client:
            for key in client.keys("*"):
                left_ms = client.pttl(key)
                if 0 <= left_ms <= passed_ms:
                    client.delete(key)
                elif left_ms > 0:
                    client.pexpire(key, left_ms - passed_ms)
            for task_id in client.zrange(KEPT, 0, -1):
                client.zincrby(KEPT, -passed_ms, task_id)

    return pass_time


class TestRedisTaskStore(TaskStoreContract):
    async def test_nothing_stays_when_the_time_is_up(self, server, stores, pass_time):
        await stores[0].begin("a")
        await stores[0].succeed("a", WAV, 1)
        await stores[0].succeed("b", WAV, 1)
        await pass_time(TTL_S * 1.1)
        await stores[0].succeed("c", WAV, 1)
        with redis.Redis(port=server.port) as client:
            assert sorted(key.decode().partition("}:")[2] for key in client.keys("*")) == [
                "a:c", "kept", "size", "t:c", "total",
            ]  # fmt: skip
            assert int(client.get("{sambert:tasks-v1}:total")) == len(WAV)

    async def test_prefixes_keep_services_apart(self, server, stores):
        other = RedisTaskStore(RedisCacheSettings(url=server.url, prefix="other"), SETTINGS)
        await stores[0].succeed("a", WAV, 1)
        assert await other.find("a") is None
        await other.close()


@pytest.fixture
def own_server(tmp_path):
    server = RedisServer(tmp_path)
    yield server
    server.stop()


async def test_a_redis_that_is_gone_or_silent_is_not_ready(own_server):
    store = RedisTaskStore(RedisCacheSettings(url=own_server.url), TaskSettings(store_timeout_ms=1000))
    await store.begin("task")
    own_server.pause()
    with pytest.raises(NotReady):
        await store.find("task")
    own_server.resume()
    assert (await store.find("task")).status == "processing"
    own_server.kill()
    with pytest.raises(NotReady):
        await store.succeed("task", WAV, 1)
    own_server.start()
    assert await store.succeed("task", WAV, 1) is True
    await store.close()


def test_an_address_that_is_none_is_refused_at_start_up():
    with pytest.raises(ConfigurationInvalid) as caught:
        RedisTaskStore(RedisCacheSettings(url="http://x"), TaskSettings())
    assert caught.value.param == "cache.redis.url"
