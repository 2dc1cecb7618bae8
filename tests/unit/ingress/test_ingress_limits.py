"""Time limits, callers that leave, sizes, request ids: what holds for every route."""

import asyncio
import json
import logging

import httpx
import pytest
import uvicorn
from ingress_double import Connection, Tones
from test_ingress_http import SPEECH, TEXT, is_error

from deployments.errors import DeadlineExceeded, Overloaded, SynthesisFailed
from deployments.ingress.middleware import request_id_of
from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings

BODY = json.dumps({"input": TEXT, "response_format": "pcm", "stream": False}).encode()
STREAM = json.dumps({"input": TEXT, "response_format": "pcm"}).encode()
LIMIT_S = 5.0


@pytest.fixture
def held(tones):
    """A service that stops before its second segment."""
    tones.hold = asyncio.Event()
    tones.num_free = 1
    return tones


class TestTime:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_late_answer_is_504_and_its_work_ends(self, client_of, tones, stream):
        tones.hold = asyncio.Event()
        async with client_of(tones, request_timeout_s=0.05) as client:
            response = await client.post(SPEECH, json={"input": TEXT, "stream": stream})
        is_error(response, 504, "deadline_exceeded")
        assert tones.closed.is_set()

    async def test_stages_are_told_the_limit(self, client_of, tones):
        async with client_of(tones, request_timeout_s=7, stream_timeout_s=50) as client:
            await client.post(SPEECH, json={"input": TEXT, "stream": False})
            await client.post(SPEECH, json={"input": TEXT})
        whole_s, stream_s = [request.timeout_s for request in tones.requests]
        assert 6.5 < whole_s < 7  # what is left of it
        assert stream_s == 50

    async def test_a_stream_ends_when_its_time_is_up(self, app_of, held):
        connection = Connection(app_of(held, stream_timeout_s=0.05), SPEECH, STREAM)
        with pytest.raises(RuntimeError) as caught:
            await connection.run()
        assert isinstance(caught.value.__cause__, DeadlineExceeded)
        assert connection.sent[-1]["more_body"] is True
        assert held.closed.is_set()

    async def test_a_caller_that_takes_nothing_is_cut_off(self, app_of, tones):
        class Stuck(Connection):
            async def _send(self, message):
                await super()._send(message)
                if message.get("body"):
                    await asyncio.Event().wait()

        connection = Stuck(app_of(tones, request_timeout_s=0.5), SPEECH, STREAM)
        async with asyncio.timeout(LIMIT_S):
            await connection.run()
        assert connection.sent[-1]["more_body"] is True
        assert tones.closed.is_set()

    async def test_a_late_segment_breaks_a_stream_off(self, app_of, held):
        connection = Connection(app_of(held, request_timeout_s=0.05), SPEECH, STREAM)
        with pytest.raises(RuntimeError):
            await connection.run()
        assert connection.status == 200
        assert connection.sent[-1]["more_body"] is True
        assert held.closed.is_set()

    async def test_stages_that_do_not_answer_are_not_ready(self, client_of, tones):
        async def silent():
            await asyncio.Event().wait()

        tones.stages = silent
        async with client_of(tones, readiness_timeout_s=0.02) as client:
            assert "within 0.02 s" in is_error(await client.get("/readyz"), 503, "not_ready")

    async def test_a_body_that_never_ends_is_504(self, client_of, tones):
        async def trickle():
            yield b"{"
            await asyncio.Event().wait()

        async with client_of(tones, request_timeout_s=0.05) as client:
            is_error(await client.post(SPEECH, content=trickle()), 504, "deadline_exceeded")


class TestSlowCallers:
    async def test_the_one_that_sends_longest_makes_way(self, client_of, tones):
        """Two of four requests may be read at once: the third slow one ends the first, and a quick one is served."""
        begun = [asyncio.Event() for _ in range(3)]

        async def trickle(number):
            yield b"{"
            begun[number].set()
            await asyncio.Event().wait()

        async with client_of(tones, admission={"max_reading": 2}) as client:
            slow = []
            for number in range(3):
                slow.append(asyncio.ensure_future(client.post(SPEECH, content=trickle(number))))
                await begun[number].wait()
            answer = await asyncio.wait_for(slow[0], LIMIT_S)
            is_error(answer, 429, "overloaded")
            assert answer.headers["retry-after"] == "1"
            quick = await asyncio.wait_for(client.post(SPEECH, content=BODY), LIMIT_S)
            assert quick.status_code == 200
            is_error(await asyncio.wait_for(slow[1], LIMIT_S), 429, "overloaded")
            assert not slow[2].done()
            slow[2].cancel()
            await asyncio.gather(slow[2], return_exceptions=True)


class TestCallersThatLeave:
    @pytest.mark.parametrize(("path", "body"), [(SPEECH, BODY), (SPEECH, STREAM), ("/tts", b'{"text": "a"}')])
    async def test_before_the_first_segment(self, app_of, tones, path, body, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        tones.hold = asyncio.Event()
        connection = Connection(app_of(tones), path, body)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            await tones.waiting.wait()
            assert not tones.closed.is_set()
            connection.gone.set()
        assert tones.closed.is_set()
        assert connection.status == 499
        assert f"POST {path} 499 " in caplog.text

    async def test_while_a_stream_waits_for_its_next_segment(self, app_of, held, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        connection = Connection(app_of(held), SPEECH, STREAM)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            await connection.body_begun.wait()
            await held.waiting.wait()
            connection.gone.set()
        assert held.closed.is_set()
        assert len(connection.body) == 6400
        assert f"POST {SPEECH} 499 " in caplog.text

    @pytest.mark.parametrize("body", [BODY, STREAM])
    async def test_a_cancelled_request_ends_its_work(self, app_of, held, body, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        connection = Connection(app_of(held), SPEECH, body)
        task = asyncio.create_task(connection.run())
        async with asyncio.timeout(LIMIT_S):
            await held.waiting.wait()
            task.cancel()
            await asyncio.wait([task])
        assert task.cancelled()
        assert held.closed.is_set()
        assert f"POST {SPEECH} 499 " in caplog.text

    async def test_work_that_cleans_up_slowly_does_not_hold_the_answer(self, app_of, tones, monkeypatch):
        monkeypatch.setattr("deployments.ingress.waiting.GRACE_S", 0.01)
        release = asyncio.Event()

        class Stubborn(Tones):
            async def speak(self, request):
                try:
                    await asyncio.Event().wait()
                    yield
                finally:
                    await release.wait()
                    self.closed.set()

        service = Stubborn()
        connection = Connection(app_of(service, request_timeout_s=0.01), SPEECH, BODY)
        async with asyncio.timeout(LIMIT_S):
            await connection.run()
            assert connection.status == 504
            assert not service.closed.is_set()
            release.set()
            await service.closed.wait()


class TestStreams:
    async def test_body_starts_before_the_last_segment(self, app_of, held):
        connection = Connection(app_of(held), SPEECH, STREAM)
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            await held.waiting.wait()
            await connection.body_begun.wait()
            held.hold.set()
        assert [len(message.get("body", b"")) for message in connection.sent] == [0, 6400, 8000 + 6400, 0]
        assert connection.sent[-1]["more_body"] is False

    async def test_a_fault_midway_breaks_off(self, app_of, tones):
        tones.failure = SynthesisFailed("The vocoder failed.")
        connection = Connection(app_of(tones), SPEECH, STREAM)
        with pytest.raises(RuntimeError) as caught:
            await connection.run()
        assert caught.value.__cause__ is tones.failure
        assert connection.sent[-1]["more_body"] is True

    async def test_a_refusal_comes_before_the_first_byte(self, client, tones):
        tones.refusal = Overloaded("Too much to do. Retry.", retry_after_s=0.2)
        response = await client.post(SPEECH, json={"input": TEXT, "stream": True})
        is_error(response, 429, "overloaded")
        assert response.headers["retry-after"] == "1"


class TestSizes:
    async def test_declared_size_is_refused_unread(self, app_of, tones):
        connection = Connection(app_of(tones, max_body_bytes=10), SPEECH, b"x" * 11)
        connection._unread.clear()
        async with asyncio.timeout(LIMIT_S):
            await connection.run()
        assert connection.status == 413

    async def test_undeclared_size_is_counted(self, client_of, tones):
        read = []

        async def chunks():
            for number in range(1000):
                read.append(number)
                yield b" " * 10

        async with client_of(tones, max_body_bytes=95) as client:
            is_error(await client.post(SPEECH, content=chunks()), 413, "too_large")
        assert len(read) == 10

    async def test_the_largest_body_passes(self, client_of, tones):
        body = json.dumps({"input": TEXT, "response_format": "pcm"}).encode()
        async with client_of(tones, max_body_bytes=len(body)) as client:
            assert (await client.post(SPEECH, content=body)).status_code == 200
            is_error(await client.post(SPEECH, content=body + b" "), 413, "too_large")

    @pytest.mark.parametrize("length", ["abc", "-1", "1e3", "٣"])
    async def test_nonsense_length(self, app_of, tones, length):
        connection = Connection(app_of(tones), SPEECH, BODY)
        connection._scope["headers"] = [(b"content-length", length.encode())]
        await connection.run()
        assert connection.status == 400

    @pytest.mark.parametrize("media_type", ["text/plain", "multipart/form-data; boundary=x", "application/xml"])
    async def test_types_that_are_no_json(self, client, media_type):
        response = await client.post(SPEECH, content=BODY, headers={"content-type": media_type})
        assert "content-type: application/json" in is_error(response, 400, "invalid_request")

    @pytest.mark.parametrize("media_type", [None, "application/json; charset=utf-8", "application/vnd.x+json"])
    async def test_types_that_are_json(self, client, media_type):
        headers = {"content-type": media_type} if media_type else {}
        assert (await client.post(SPEECH, content=BODY, headers=headers)).status_code == 200

    @pytest.mark.parametrize(
        "content", [b"", b"{", b"[]", b'"a"', b"\xff\xfe\x00", b"[" * 50_000, b'{"input": "\\ud800"}', b"1" * 9000]
    )
    async def test_broken_json(self, client, content):
        response = await client.post(SPEECH, content=content, headers={"content-type": "application/json"})
        is_error(response, 400, "invalid_request", response.json()["error"]["param"])


class TestRequestIds:
    @pytest.mark.parametrize("sent", ["abc", "a b", "x" * 128, "!~{}"])
    async def test_the_callers_own_comes_back_and_goes_through(self, client, tones, sent):
        response = await client.post(SPEECH, json={"input": TEXT}, headers={"x-request-id": sent})
        assert response.headers["x-request-id"] == tones.requests[0].request_id == sent

    @pytest.mark.parametrize("sent", ["", "x" * 129, "a\tb", "ä"])
    async def test_others_are_replaced(self, client, tones, sent):
        response = await client.post(SPEECH, json={"input": TEXT}, headers={"x-request-id": sent.encode("latin-1")})
        given = response.headers["x-request-id"]
        assert given == tones.requests[0].request_id == request_id_of(given)
        assert given != sent

    async def test_every_answer_has_one_of_its_own(self, client, tones):
        tones.refusal = ValueError()
        answers = [
            await client.get("/nope"),
            await client.get("/healthz"),
            await client.get("/docs"),
            await client.post(SPEECH, content=b"{"),
            await client.post(SPEECH, json={"input": TEXT}),
            await client.put("/tts"),
        ]
        assert [answer.status_code for answer in answers] == [404, 200, 200, 400, 500, 405]
        assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)

    async def test_behind_a_proxy_that_adds_it(self, tones):
        app = build_app(tones, IngressSettings(), adds_request_id=False)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://x") as client:
            response = await client.post(SPEECH, json={"input": TEXT}, headers={"x-request-id": "r1"})
        assert "x-request-id" not in response.headers
        assert tones.requests[0].request_id == "r1"


@pytest.fixture
async def server(held):
    """A real HTTP server on a free port of this machine, with its base URL."""
    app = build_app(held, IngressSettings(max_body_bytes=1000))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", lifespan="off")
    server = uvicorn.Server(config)
    started = asyncio.Event()
    startup = server.startup

    async def startup_and_tell(*args, **kwargs):
        await startup(*args, **kwargs)
        started.set()

    server.startup = startup_and_tell
    task = asyncio.create_task(server._serve())
    async with asyncio.timeout(LIMIT_S):
        await started.wait()
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await task


class TestRealServer:
    async def test_closing_the_socket_ends_the_work(self, server, held):
        async with httpx.AsyncClient() as client, asyncio.timeout(LIMIT_S):
            async with client.stream("POST", server + SPEECH, content=STREAM) as response:
                assert response.status_code == 200
                assert len(await anext(response.aiter_bytes())) == 6400
                await held.waiting.wait()
                assert not held.closed.is_set()
            await held.closed.wait()

    async def test_a_broken_off_stream_is_seen_by_the_client(self, server, held):
        held.hold = None
        held.failure = SynthesisFailed("The vocoder failed.")
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.post(server + SPEECH, content=STREAM)

    async def test_chunked_bodies_are_limited(self, server):
        async def chunks():
            for _ in range(20):
                yield b" " * 100

        async with httpx.AsyncClient() as client:
            is_error(await client.post(server + SPEECH, content=chunks()), 413, "too_large")
