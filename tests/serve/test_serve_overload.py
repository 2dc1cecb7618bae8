"""Ten times more than it can do, on real Serve: refused at once in JSON, the rest is answered, and so is /healthz."""

import asyncio
import itertools
import os
import signal
import statistics
import time

import aiohttp
import pytest
import ray
from ray import serve
from ray.util.state import list_actors

from graph import build

# read by the proxy that the session's cluster starts
os.environ["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] = "deployments.ingress.front:layers"

APP, PREFIX = "crowded", "/crowded"
MAX_TEXTS, NUM_CALLERS, NUM_IDLE = 3, 30, 200
OVERLOAD_S = 5.0
KNOWN = "您好，欢迎致电客服中心，请稍候。"
NUMBERS = itertools.count(1)
SETTINGS = {
    "ingress": {
        "replicas": {"num_cpus": 0.1},
        "admission": {"max_requests": MAX_TEXTS},
        "live_text": {"max_sessions": NUM_IDLE},
    },
    "normalizer": {"replicas": {"num_cpus": 0.1}},
    "acoustic": {"replicas": {"num_cpus": 0.1}},
    "vocoder": {"replicas": {"num_cpus": 0.1}, "backend": "torch", "warm_up": False},
}


@pytest.fixture(scope="module")
def crowded(cluster, tmp_path_factory, speech_at):
    """The application with room for few texts, under a path of its own."""
    cache = {"sqlite": {"folder": str(tmp_path_factory.mktemp("cache"))}}
    handle = serve.run(build(SETTINGS | {"cache": cache}), name=APP, route_prefix=PREFIX)
    service = speech_at(handle, cluster + PREFIX)
    service.wait_until_ready()
    yield service
    serve.delete(APP)


def body(text=None):
    text = text or f"这是第{next(NUMBERS)}个新的句子，请您听一听。"
    return {"input": text, "response_format": "pcm", "stream": False}


async def ask(client, text=None):
    """Status, seconds, headers, body of one request."""
    started = time.perf_counter()
    async with client.post(f"{PREFIX}/v1/audio/speech", json=body(text)) as response:
        content = await response.read()
        return response.status, time.perf_counter() - started, response.headers, content


async def healthy(client):
    """Seconds that /healthz takes."""
    started = time.perf_counter()
    async with client.get(f"{PREFIX}/healthz") as response:
        assert response.status == 200
    return time.perf_counter() - started


def refused(answer):
    """Checks a refusal."""
    status, _, headers, content = answer
    assert status == 429
    assert headers["content-type"] == "application/json"
    assert 1 <= int(headers["retry-after"]) <= 60
    assert b'"code": "overloaded"' in content


def client_of(service):
    return aiohttp.ClientSession(
        service.base_url.removesuffix(PREFIX),
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(60),
    )


async def test_ten_times_the_load(crowded):
    """Callers that come back at once, whatever they are told."""
    answers, known, health = [], [], []

    async def call(client, ends, into, text=None):
        while time.perf_counter() < ends:
            into.append(await ask(client, text))

    async def watch(client, ends):
        while time.perf_counter() < ends:
            health.append(await healthy(client))
            await asyncio.sleep(0.1)

    async with client_of(crowded) as client:
        assert (await ask(client, KNOWN))[0] == 200
        ends = time.perf_counter() + OVERLOAD_S
        callers = [call(client, ends, answers) for _ in range(NUM_CALLERS)]
        await asyncio.gather(*callers, call(client, ends, known, KNOWN), watch(client, ends))
        assert (await ask(client))[0] == 200  # normal again at once

    spoken = [answer for answer in answers if answer[0] == 200]
    refusals = [answer for answer in answers if answer[0] != 200]
    for answer in refusals:
        refused(answer)
    assert all(len(content) > 16_000 for _, _, _, content in spoken)  # more than half a second of audio each
    assert len(spoken) >= MAX_TEXTS
    assert len(refusals) > len(spoken)
    # Ray's proxy may refuse known texts too: it asks only so often while the service is full.
    assert {headers["x-cache"] for status, _, headers, _ in known if status == 200} <= {"hit"}
    assert statistics.median(seconds for _, seconds, _, _ in refusals) < 0.2
    assert len(health) > 5
    assert max(health) < 5


async def test_idle_websockets_are_in_nobodys_way(crowded):
    async with client_of(crowded) as client:
        path = f"{PREFIX}/v1/audio/speech/stream"
        sockets = [await client.ws_connect(path) for _ in range(NUM_IDLE)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await client.ws_connect(path)
        assert caught.value.status == 429
        assert caught.value.headers["retry-after"] == "5"
        assert await healthy(client) < 5
        assert [(await ask(client))[0] for _ in range(2)] == [200, 200]
        await sockets[0].send_json({"type": "start"})
        await sockets[0].send_json({"type": "text", "text": "您好。"})
        assert (await sockets[0].receive()).type is aiohttp.WSMsgType.BINARY
        await asyncio.gather(*(socket.close() for socket in sockets))


async def test_a_killed_ingress_is_told_in_json(crowded):
    """What was under way in it is refused by Ray's proxy, in the one shape."""
    async with client_of(crowded) as client:
        long_text = "".join(f"第{number}天我们一起去公园散步，晚上再回家吃饭。" for number in range(1, 40))
        asked = [asyncio.create_task(ask(client, long_text)) for _ in range(2)]
        done, _ = await asyncio.wait(asked, timeout=0.5)
        assert not done
        for pid in pids_of("Ingress"):
            os.kill(pid, signal.SIGKILL)
        answers = await asyncio.gather(*asked)
    for status, _, headers, content in answers:
        assert (status, headers["content-type"]) == (503, "application/json")
        assert b'"code": "replica_lost"' in content
    await asyncio.to_thread(crowded.wait_until_ready)


def pids_of(deployment):
    """Processes of the replicas of a deployment."""
    filters = [("class_name", "=", f"ServeReplica:{APP}:{deployment}"), ("state", "=", "ALIVE")]
    address = ray.get_runtime_context().gcs_address  # other clusters may run on this machine
    return [actor.pid for actor in list_actors(address, filters=filters, detail=True)]
