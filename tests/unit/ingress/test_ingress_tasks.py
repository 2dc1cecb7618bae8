"""POST /api/tts, its tasks and its audio."""

import asyncio
import io
import re
import wave

import httpx
import pytest
from ingress_double import Connection, Switch, Tones, until
from test_ingress_http import PCM, TEXT, is_error

from deployments.errors import NotReady, SynthesisFailed
from deployments.ingress.older_routes import range_of
from deployments.ingress.routes import build_app
from deployments.ingress.tasks_open import open_task_store
from deployments.ingress.tasks_sqlite import SqliteTaskStore
from deployments.settings import CacheSettings, IngressSettings, TaskSettings

API = "/api/tts"
ASYNC = {"text": TEXT, "async": True}


@pytest.fixture(scope="session")
def shells():
    """Applications whose tasks and service every test replaces: making one takes longer than most tests."""
    switches = [Switch() for _ in range(2)]
    return [(switch, build_app(switch, IngressSettings())) for switch in switches]


@pytest.fixture
async def replica_of(tmp_path, shells):
    """Makes applications that share a store, as replicas do, with a client each."""
    made = []

    def make(service, folder=tmp_path, **settings):
        switch, app = shells[len(made)]
        switch.target = service
        settings = IngressSettings.model_validate({"tasks": {"folder": str(folder), **settings}})
        store = open_task_store(settings.tasks, CacheSettings())
        app.state.tasks.__init__(service, settings, store)  # the routes hold this object
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        made.append((app, httpx.AsyncClient(transport=transport, base_url="http://replica")))
        return made[-1]

    yield make
    for app, client in made:
        await client.aclose()
        await app.state.tasks.close()


@pytest.fixture
def replica(replica_of, tones):
    return replica_of(tones)[1]


async def ended(client, task_id):
    """The task once it is not in progress any more."""
    async with asyncio.timeout(5):
        while True:
            reply = await client.get(f"/api/tasks/{task_id}")
            assert reply.status_code == 200, reply.text
            if reply.json()["status"] != "processing":
                return reply.json()
            await asyncio.sleep(0.002)


def pcm_of(wav):
    with wave.open(io.BytesIO(wav)) as file:
        return file.readframes(file.getnframes())


async def test_audio_is_kept_where_the_answer_says(replica):
    reply = await replica.post(API, json={"text": TEXT})
    assert reply.status_code == 200
    assert set(reply.json()) == {"status", "audio_url", "duration_ms"}
    assert (reply.json()["status"], reply.json()["duration_ms"]) == ("success", 650)
    url = reply.json()["audio_url"]
    assert re.fullmatch(r"/api/audio/[A-Za-z0-9_-]{32}\.wav", url)
    audio = await replica.get(url)
    assert audio.headers["content-type"] == "audio/wav"
    assert int(audio.headers["content-length"]) == len(audio.content)
    assert pcm_of(audio.content) == PCM.tobytes()


async def test_a_task_runs_while_nobody_waits(replica, tones):
    tones.hold = asyncio.Event()
    reply = await replica.post(API, json={**ASYNC, "emotion": "开心", "speed": 2})
    assert (reply.status_code, reply.json()["status"]) == (202, "processing")
    task_id = reply.json()["task_id"]
    assert (await replica.get(f"/api/tasks/{task_id}")).json() == {"status": "processing", "task_id": task_id}
    is_error(await replica.get(f"/api/audio/{task_id}.wav"), 404, "not_found")
    tones.hold.set()
    task = await ended(replica, task_id)
    assert task == {"status": "success", "audio_url": f"/api/audio/{task_id}.wav", "duration_ms": 650}
    assert pcm_of((await replica.get(task["audio_url"])).content) == PCM.tobytes()
    (request,) = tones.requests
    assert (request.emotion, request.speed, request.timeout_s) == ("happy", 2.0, 600)


async def test_any_replica_answers(replica_of, tones):
    (_, mine), (_, other) = replica_of(tones), replica_of(Tones())
    task_id = (await mine.post(API, json=ASYNC)).json()["task_id"]
    task = await ended(other, task_id)
    assert (await other.get(task["audio_url"])).content == (await mine.get(task["audio_url"])).content


async def test_ids_are_never_the_same(replica):
    ids = {(await replica.post(API, json=ASYNC)).json()["task_id"] for _ in range(20)}
    assert len(ids) == 20
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{32}", task_id) for task_id in ids)


@pytest.mark.parametrize("fault", [SynthesisFailed("The vocoder failed. Retry.", "text"), ZeroDivisionError("secret")])
async def test_a_failure_is_told(replica, tones, fault):
    tones.refusal = fault
    task_id = (await replica.post(API, json=ASYNC)).json()["task_id"]
    task = await ended(replica, task_id)
    assert (set(task), task["status"]) == ({"status", "task_id", "error"}, "failed")
    assert set(task["error"]) == {"message", "type", "param", "code"}
    known = isinstance(fault, SynthesisFailed)
    assert task["error"]["code"] == ("synthesis_failed" if known else "internal_error")
    assert "secret" not in task["error"]["message"]


async def test_nothing_speakable_is_found_by_the_task(replica):
    is_error(await replica.post(API, json={"text": "！"}), 400, "text_not_speakable", "text")
    task = await ended(replica, (await replica.post(API, json={"text": "！", "async": True})).json()["task_id"])
    assert (task["error"]["code"], task["error"]["param"]) == ("text_not_speakable", "text")


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("change", "code", "param"),
    [
        ({"text": ""}, "invalid_request", "text"),
        ({"text": None}, "invalid_request", "text"),
        ({"voice": "x"}, "voice_not_found", "voice"),
        ({"emotion": "bored"}, "emotion_not_found", "emotion"),
        ({"speed": 9}, "invalid_request", "speed"),
        ({"async": "yes"}, "invalid_request", "async"),
    ],
)
async def test_what_can_be_refused_is_refused_at_once(replica, tones, asynchronous, change, code, param):
    body = {"text": TEXT, "async": asynchronous, **change}
    message = is_error(await replica.post(API, json=body), 400, code, param)
    assert code != "invalid_request" or f"The field {param} is wrong" in message
    assert tones.requests == []


@pytest.mark.parametrize(
    "path",
    [
        "/api/tasks/x", f"/api/tasks/{'a' * 32}", "/api/tasks/..%2f..%2fetc", "/api/audio/x.wav", "/api/audio/.wav",
        f"/api/audio/{'a' * 32}.wav", f"/api/audio/{'a' * 32}", "/api/audio/%00.wav", f"/api/tasks/{'a' * 5000}",
    ],
)  # fmt: skip
async def test_what_is_not_there(replica, path):
    assert len(is_error(await replica.get(path), 404, "not_found")) < 300


async def test_too_many_tasks_are_refused(replica_of, tones):
    _, client = replica_of(tones, max_running=2)
    tones.hold = asyncio.Event()
    first, second, third = [await client.post(API, json=ASYNC) for _ in range(3)]
    assert first.status_code == second.status_code == 202
    is_error(third, 429, "overloaded")
    assert third.headers["retry-after"] == "1"
    tones.hold.set()
    await ended(client, first.json()["task_id"])
    await ended(client, second.json()["task_id"])
    assert (await client.post(API, json=ASYNC)).status_code == 202


async def test_a_task_has_an_end(replica_of, tones):
    _, client = replica_of(tones, timeout_s=0.05)
    tones.hold = asyncio.Event()
    task = await ended(client, (await client.post(API, json=ASYNC)).json()["task_id"])
    assert task["error"]["code"] == "deadline_exceeded"
    assert tones.closed.is_set()


async def test_a_claim_is_renewed_for_as_long_as_it_takes(replica_of, tones, tmp_path):
    app, client = replica_of(tones, lease_s=0.1)
    now, renewed = [1_800_000_000.0], []
    store = SqliteTaskStore(tmp_path, TaskSettings(lease_s=30), clock=lambda: now[0])
    renew = store.renew

    async def counted(task_ids):
        await renew(task_ids)
        renewed.append(task_ids)
        now[0] += 20

    store.renew = counted
    app.state.tasks.store = store
    tones.hold = asyncio.Event()
    task_id = (await client.post(API, json=ASYNC)).json()["task_id"]
    await until(lambda: len(renewed) >= 4)  # longer than the lease
    assert renewed[0] == (task_id,)
    assert (await client.get(f"/api/tasks/{task_id}")).json()["status"] == "processing"
    tones.hold.set()
    assert (await ended(client, task_id))["status"] == "success"


async def test_the_tasks_of_a_replica_that_died_have_failed(replica_of, tones):
    app, client = replica_of(tones, lease_s=0.1)
    _, other = replica_of(Tones(), lease_s=0.1)
    tones.hold = asyncio.Event()
    task_id = (await client.post(API, json=ASYNC)).json()["task_id"]
    app.state.tasks._renewing.cancel()  # a dead process renews nothing
    task = await ended(other, task_id)
    assert (task["status"], task["error"]["code"]) == ("failed", "replica_lost")
    tones.hold.set()
    await until(lambda: not app.state.tasks._running)
    assert (await other.get(f"/api/tasks/{task_id}")).json() == task


async def test_a_stopping_replica_finishes_what_it_can(replica_of, tones):
    tones.hold = asyncio.Event()
    app, client = replica_of(tones)
    slow = (await client.post(API, json=ASYNC)).json()["task_id"]
    closing = asyncio.create_task(app.state.tasks.close())
    await tones.waiting.wait()
    tones.hold.set()
    await closing
    _, other = replica_of(Tones())
    assert (await ended(other, slow))["status"] == "success"


async def test_what_a_stopping_replica_cannot_finish_has_failed_at_once(replica_of, tones):
    tones.hold = asyncio.Event()
    app, client = replica_of(tones, drain_s=0.01)
    task_id = (await client.post(API, json=ASYNC)).json()["task_id"]
    await app.state.tasks.close()
    assert tones.closed.is_set()
    _, other = replica_of(Tones())
    task = (await other.get(f"/api/tasks/{task_id}")).json()
    assert (task["status"], task["error"]["code"]) == ("failed", "replica_lost")


async def test_a_store_that_fails_is_not_ready(tmp_path, replica_of, tones):
    (tmp_path / "file").touch()
    _, client = replica_of(tones, folder=tmp_path / "file" / "tasks")
    for reply in [
        await client.post(API, json={"text": TEXT}),
        await client.post(API, json=ASYNC),
        await client.get(f"/api/tasks/{'a' * 32}"),
        await client.get(f"/api/audio/{'a' * 32}.wav"),
    ]:
        is_error(reply, 503, "not_ready")
        assert reply.headers["retry-after"] == "1"


async def test_an_end_is_noted_again_when_the_store_was_away(replica_of, tones):
    app, client = replica_of(tones, lease_s=4)
    tones.hold = asyncio.Event()
    task_id = (await client.post(API, json=ASYNC)).json()["task_id"]
    succeed, calls = app.state.tasks.store.succeed, []

    async def shaky(*args):
        calls.append(args)
        if len(calls) == 1:
            raise NotReady("The store is away; retry.")
        return await succeed(*args)

    app.state.tasks.store.succeed = shaky
    tones.hold.set()
    assert (await ended(client, task_id))["status"] == "success"
    assert len(calls) == 2


async def test_audio_that_cannot_be_kept_is_told(replica_of, tones):
    _, client = replica_of(tones, max_bytes=1 << 16)
    long_text = "字" * 20  # 64,044 bytes
    is_error(await client.post(API, json={"text": long_text}), 413, "too_large")
    task = await ended(client, (await client.post(API, json={"text": long_text, "async": True})).json()["task_id"])
    assert task["error"]["code"] == "too_large"


async def test_leaving_ends_the_work_of_who_waits(app_of, tones):
    tones.hold = asyncio.Event()
    connection = Connection(app_of(tones), API, b'{"text": "a"}')
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(connection.run())
        await tones.waiting.wait()
        connection.gone.set()
    assert tones.closed.is_set()
    assert connection.status == 499


class TestRanges:
    @pytest.mark.parametrize(
        ("header", "found"),
        [
            ("bytes=0-0", (0, 1)), ("bytes=0-", (0, 100)), ("bytes=10-19", (10, 20)), ("bytes=90-500", (90, 100)),
            ("bytes=-10", (90, 100)), ("bytes=-500", (0, 100)), (" bytes=99- ", (99, 100)),
            ("", None), ("bytes=", None), ("bytes=-", None), ("bytes=a-b", None), ("bytes=5-4", None),
            ("bytes=100-", None), ("bytes=-0", None), ("bytes=0-1,3-4", None), ("items=0-1", None),
            ("bytes=0-" + "9" * 30, None), ("bytes=٣-", None),
        ],
    )  # fmt: skip
    def test_which_bytes(self, header, found):
        part = range_of(header, 100)
        assert (part and (part.start, part.stop)) == found

    async def test_browsers_seek(self, replica):
        url = (await replica.post(API, json={"text": TEXT})).json()["audio_url"]
        whole = await replica.get(url)
        assert whole.headers["accept-ranges"] == "bytes"
        part = await replica.get(url, headers={"range": "bytes=44-143"})
        assert part.status_code == 206
        assert part.content == whole.content[44:144]
        assert part.headers["content-range"] == f"bytes 44-143/{len(whole.content)}"
        assert (await replica.get(url, headers={"range": "bytes=x"})).status_code == 200
