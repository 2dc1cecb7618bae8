"""Tasks in a real Redis: the contract of every store, and what happens when Redis goes away."""

import asyncio

import pytest
import redis
from redis_server import RedisServer
from task_store_contract import SETTINGS, WAV, TaskStoreContract

from deployments.errors import ConfigurationInvalid, NotReady
from deployments.ingress.tasks_redis import RedisTaskStore
from deployments.settings import RedisCacheSettings, TaskSettings


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
def pass_time():
    return asyncio.sleep  # Redis has a clock of its own


class TestRedisTaskStore(TaskStoreContract):
    async def test_nothing_stays_when_the_time_is_up(self, server, stores, pass_time):
        await stores[0].begin("a")
        await stores[0].succeed("a", WAV, 1)
        await stores[0].succeed("b", WAV, 1)
        await pass_time(0.7)
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


async def test_a_redis_that_is_gone_or_silent_is_not_ready(tmp_path):
    server = RedisServer(tmp_path)
    store = RedisTaskStore(RedisCacheSettings(url=server.url), TaskSettings(store_timeout_ms=100))
    await store.begin("task")
    server.pause()
    with pytest.raises(NotReady):
        await store.find("task")
    server.resume()
    assert (await store.find("task")).status == "processing"
    server.kill()
    with pytest.raises(NotReady):
        await store.succeed("task", WAV, 1)
    server.start()
    assert await store.succeed("task", WAV, 1) is True
    await store.close()
    server.stop()


def test_an_address_that_is_none_is_refused_at_start_up():
    with pytest.raises(ConfigurationInvalid) as caught:
        RedisTaskStore(RedisCacheSettings(url="http://x"), TaskSettings())
    assert caught.value.param == "cache.redis.url"
