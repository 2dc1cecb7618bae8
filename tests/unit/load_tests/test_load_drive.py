"""The driver against a real HTTP server."""

import asyncio
from itertools import islice

import pytest
from aiohttp import web

from load_tests.drive import Client, closed_loop, parse_timings
from load_tests.traffic import Traffic

CALLS = list(islice(Traffic(num_phrases=20).calls(), 30))


class Server:
    """Answers as the service does, and remembers what it was asked."""

    def __init__(self, status=200):
        self.status = status
        self.bodies = []
        self.at_once = 0
        self.most_at_once = 0
        self.full = asyncio.Event()

    async def speak(self, request):
        self.bodies.append(await request.json())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(20):  # lets the other callers come
            await asyncio.sleep(0)
        self.at_once -= 1
        headers = {"x-cache": "miss", "x-audio-duration-ms": "1500", "server-timing": "text;dur=2.5, vocoder;dur=40.0"}
        return web.Response(body=b"RIFF", status=self.status, headers=headers)

    async def healthz(self, _request):
        return web.json_response({"status": "ok"})


@pytest.fixture
async def start():
    runners = []

    async def start(server):
        app = web.Application()
        app.router.add_post("/app/v1/audio/speech", server.speak)
        app.router.add_get("/app/healthz", server.healthz)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        site = web.TCPSite(runners[-1], "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{runners[-1].addresses[0][1]}/app"

    yield start
    for runner in runners:
        await runner.cleanup()


async def test_every_call_is_made_once_by_so_many_callers(start):
    server = Server()
    async with Client(await start(server), "demo", 4) as client:
        run = await closed_loop(client, CALLS, 4)
    assert sorted(body["input"] for body in server.bodies) == sorted(call.phrase.text for call in CALLS)
    assert {(body["voice"], body["stream"]) for body in server.bodies} == {("demo", False)}
    assert server.most_at_once == 4
    assert len(run.answers) == 30
    assert run.elapsed_s >= max(answer.latency_s for answer in run.answers)
    assert {(answer.status, answer.cache, answer.audio_s) for answer in run.answers} == {(200, "miss", 1.5)}
    assert run.answers[0].timings_s == {"text": 0.0025, "vocoder": 0.04}


async def test_one_caller_asks_in_order(start):
    server = Server()
    async with Client(await start(server), "demo", 1) as client:
        await closed_loop(client, CALLS, 1)
        assert (await client.healthz()).status == 200
    assert [body["input"] for body in server.bodies] == [call.phrase.text for call in CALLS]
    assert server.most_at_once == 1


async def test_a_refusal_ends_the_run(start):
    async with Client(await start(Server(status=503)), "demo", 2) as client:
        with pytest.raises(RuntimeError, match="answered 503"):
            await closed_loop(client, CALLS, 2)


def test_timings_of_a_header():
    assert parse_timings("text;dur=3.0, acoustic;dur=120.5") == {"text": 0.003, "acoustic": 0.1205}
    assert parse_timings("") == {}
