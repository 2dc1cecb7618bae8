"""The gate: keys on every path that works, room, deadlines, sizes, origins, WebSockets, and what the log tells."""

import asyncio
import hashlib
import json
import logging
import time

import httpx
import pytest
from ingress_double import Connection, Talk, Tones
from test_ingress_http import SPEECH, TEXT, is_error

from deployments.ingress.admission import Admission, Wish
from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings, TaskSettings

KEY = "a-long-random-key"
OTHER = "another-long-key"
BEARER = {"authorization": f"Bearer {KEY}"}
BODY = json.dumps({"input": TEXT, "response_format": "pcm", "stream": False}).encode()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """An application for holders of keys, its service, and a page of another origin that may use it."""
    folder = tmp_path_factory.mktemp("keyed")
    lines = [f"shop {hashlib.sha256(KEY.encode()).hexdigest()} requests=60000 characters=60000"]
    lines.append(f"small {hashlib.sha256(OTHER.encode()).hexdigest()} requests=2 characters=20")
    (folder / "keys").write_text("\n".join(lines), encoding="utf-8")
    settings = IngressSettings(
        tasks=TaskSettings(folder=str(folder)),
        api_keys_file=str(folder / "keys"),
        cors_origins=("https://page.example",),
    )
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SAMBERT_ADMIN_KEY", "admin")
        app = build_app(service := Tones(), settings)
    yield app, service
    asyncio.run(app.state.tasks.close())


@pytest.fixture
async def keyed_client(keyed):
    transport = httpx.ASGITransport(app=keyed[0], raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as client:
        yield client


class TestKeys:
    @pytest.mark.parametrize(
        ("method", "path"),
        [("POST", SPEECH), ("POST", f"{SPEECH}/with-timestamps"), ("POST", f"{SPEECH}/batch"), ("POST", "/tts"),
         ("POST", "/api/tts"), ("GET", "/stream_tts?text=a"), ("GET", "/v1/audio/voices"), ("GET", "/v1/models"),
         ("GET", "/api/tasks/abc"), ("GET", "/api/audio/abc.wav"), ("POST", "/v1/text/analysis"), ("GET", "/nowhere"),
         ("GET", f"{SPEECH}/stream"), ("OPTIONS", "/tts"), ("GET", "//healthz"), ("GET", "/page/../v1/models")],
    )  # fmt: skip
    async def test_no_path_that_works_or_tells_is_open(self, keyed, method, path):
        connection = Connection(keyed[0], path.partition("?")[0], b"")
        connection._scope.update(method=method, query_string=path.partition("?")[2].encode())
        await connection.run()
        if path.startswith("/page/"):
            assert connection.status == 404
            return
        assert connection.status == 401
        assert (b"www-authenticate", b"Bearer") in connection.sent[0]["headers"]
        assert json.loads(connection.body)["error"]["code"] == "invalid_api_key"

    @pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/docs", "/openapi.json", "/page/page.js"])
    async def test_health_documentation_and_page_are_open(self, keyed_client, path):
        assert (await keyed_client.get(path)).status_code == 200

    @pytest.mark.parametrize("headers", [BEARER, {"x-api-key": KEY}])
    async def test_the_key_opens(self, keyed_client, headers):
        assert (await keyed_client.post(SPEECH, json={"input": TEXT}, headers=headers)).status_code == 200
        assert (await keyed_client.get("/stream_tts", params={"text": TEXT}, headers=headers)).status_code == 200
        assert (await keyed_client.get("/v1/models", headers=headers)).status_code == 200

    async def test_operators_have_their_own_key(self, keyed_client):
        for headers, status in [({}, 401), (BEARER, 401), ({"authorization": "Bearer admin"}, 200)]:
            assert (await keyed_client.post("/admin/cache/purge", headers=headers)).status_code == status

    async def test_websockets_need_it_too(self, keyed):
        async with Talk(keyed[0]) as talk:
            assert await talk.hear() is None
        assert (talk.accepted, talk.code) == (None, 1008)
        async with Talk(keyed[0], BEARER) as talk:
            talk.tell({"type": "start"})
            talk.tell({"type": "text", "text": "好。"})
            talk.tell({"type": "end"})
            audio, _ = await talk.hear_all()
        assert (len(audio), talk.code) == (3200, 1000)

    async def test_openapi_tells_of_keys(self, keyed_client):
        described = (await keyed_client.get("/openapi.json")).json()
        speech, health = (described["paths"][path] for path in (SPEECH, "/healthz"))
        assert speech["post"]["security"] == [{"bearer": []}, {"apiKey": []}]
        assert "invalid_api_key" in speech["post"]["responses"]["401"]["content"]["application/json"]["examples"]
        assert "security" not in health["get"]
        assert set(described["components"]["securitySchemes"]) == {"bearer", "apiKey"}

    async def test_quotas_of_a_key(self, keyed, keyed_client):
        """Two requests and twenty characters a minute, on all paths together."""
        headers = {"x-api-key": OTHER}
        response = await keyed_client.post(SPEECH, json={"input": "好" * 15}, headers=headers)
        assert response.status_code == 200
        response = await keyed_client.post("/tts", json={"text": "好" * 15}, headers=headers)
        assert "20 characters" in is_error(response, 429, "rate_limit_exceeded", "key_characters")
        assert 25 <= int(response.headers["retry-after"]) <= 30
        response = await keyed_client.post(f"{SPEECH}/batch", json={"items": [{"input": "好"}]}, headers=headers)
        assert "2 requests" in is_error(response, 429, "rate_limit_exceeded", "key_requests")
        assert (await keyed_client.get("/v1/models", headers=headers)).status_code == 200

    async def test_the_log_has_names_and_hashes_but_no_keys_and_no_texts(self, keyed_client, caplog):
        caplog.set_level(logging.DEBUG)
        for text in (TEXT, TEXT, "别的"):
            await keyed_client.post("/tts", json={"text": text}, headers=BEARER)
        await keyed_client.post("/tts", json={"text": "！"}, headers={"x-api-key": KEY})
        await keyed_client.get("/stream_tts", params={"text": TEXT}, headers={"x-api-key": "wrong-key"})
        task = (await keyed_client.post("/api/tts", json={"text": TEXT}, headers=BEARER)).json()
        await keyed_client.get(task["audio_url"], headers=BEARER)
        ours = [record.getMessage() for record in caplog.records if record.name.startswith("deployments")]
        for secret in (TEXT, KEY, "wrong-key", hashlib.sha256(KEY.encode()).hexdigest(), task["audio_url"]):
            assert secret not in "\n".join(ours)
        said = [line.partition("key=shop text=")[2] for line in ours if "POST /tts 200" in line]
        assert said[0] == said[1] != said[2]
        assert [line.rpartition(" ")[2] for line in said] == ["chars=5", "chars=5", "chars=2"]
        assert "GET /api/audio/* 200" in caplog.text


class TestLog:
    async def test_texts_where_it_is_asked_for(self, client_of, tones, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        async with client_of(tones, log_texts=True) as client:
            await client.post("/tts", json={"text": "您好\n\x1b[2J"})
        assert r"text='您好\n\x1b[2J' chars=7" in caplog.text

    async def test_no_path_breaks_a_line_or_fills_the_log(self, client, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        await client.get("/a%0aPOST /tts 200 1.0 ms id=x%1b[2J" + "z" * 1000)
        (line,) = [record.getMessage() for record in caplog.records if record.name == "deployments.ingress"]
        assert "\n" not in line
        assert "\x1b" not in line
        assert len(line) < 300

    @pytest.mark.parametrize(("host", "warns"), [("127.0.0.1", 0), ("::1", 0), ("10.0.0.7", 1), ("2001:db8::1", 1)])
    async def test_an_open_service_that_is_reached_from_elsewhere_is_warned_of_once(self, tones, caplog, host, warns):
        app = build_app(tones, IngressSettings())
        for _ in range(3):
            connection = Connection(app, "/tts", b'{"text": "a"}')
            connection._scope["server"] = (host, 8000)
            await connection.run()
            assert connection.status == 200
        assert caplog.text.count("asks for no key") == warns


class TestOrigins:
    async def test_pages_of_other_origins_are_told_what_they_may(self, keyed_client):
        headers = {"origin": "https://page.example", "access-control-request-method": "POST",
                   "access-control-request-headers": "authorization, content-type"}  # fmt: skip
        response = await keyed_client.options(SPEECH, headers=headers)
        assert response.status_code == 200
        assert response.headers["access-control-allow-origin"] == "https://page.example"
        response = await keyed_client.options(SPEECH, headers={**headers, "origin": "https://evil.example"})
        assert response.status_code == 400
        assert "access-control-allow-origin" not in response.headers

    @pytest.mark.parametrize("key", [{}, BEARER])
    async def test_they_can_read_answers_and_refusals(self, keyed_client, key):
        response = await keyed_client.post(
            SPEECH, json={"input": TEXT}, headers={"origin": "https://page.example", **key}
        )
        assert response.status_code == (200 if key else 401)
        assert response.headers["access-control-allow-origin"] == "https://page.example"
        assert "x-request-id" in response.headers["access-control-expose-headers"]

    async def test_none_may_by_default(self, client):
        response = await client.post(SPEECH, json={"input": TEXT}, headers={"origin": "https://page.example"})
        assert not [name for name in response.headers if name.startswith("access-control")]

    @pytest.mark.parametrize(
        ("origin", "settings", "code"),
        [("https://evil.example", {}, 1008), ("null", {}, 1008), ("http://ingress", {}, 1000), (None, {}, 1000),
         ("https://evil.example", {"cors_origins": ["https://evil.example"]}, 1000),
         ("https://evil.example", {"cors_origins": ["*"]}, 1000)],
    )  # fmt: skip
    async def test_websockets_of_pages_of_other_origins(self, app_of, tones, origin, settings, code):
        headers = {"host": "ingress", **({"origin": origin} if origin else {})}
        async with Talk(app_of(tones, **settings), headers) as talk:
            talk.tell({"type": "start"})
            talk.tell({"type": "text", "text": "好。"})
            talk.tell({"type": "end"})
            await talk.hear_all()
        assert talk.code == code


class TestRoom:
    """An application of its own, whose room the test holds."""

    @pytest.fixture
    async def crowded(self, tones, tmp_path):
        settings = IngressSettings(
            tasks=TaskSettings(folder=str(tmp_path)),
            admission={"max_requests": 1, "max_cached_requests": 0},
            live_text={"max_sessions": 2},
        )
        admission = Admission(settings)
        app = build_app(tones, settings, admission=admission)
        yield app, admission, admission.enter(Wish(100))
        await app.state.tasks.close()

    @pytest.mark.parametrize("path", [SPEECH, f"{SPEECH}/batch", "/tts", "/api/tts", "/v1/text/analysis"])
    async def test_refusals_need_no_body(self, crowded, path):
        connection = Connection(crowded[0], path, BODY)
        connection._unread.clear()
        async with asyncio.timeout(5):
            await connection.run()
        assert connection.status == 429
        assert json.loads(connection.body)["error"]["code"] == "overloaded"
        headers = dict(connection.sent[0]["headers"])
        assert int(headers[b"retry-after"]) >= 1
        assert headers[b"content-type"] == b"application/json"

    @pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/v1/audio/voices", "/", "/docs"])
    async def test_what_speaks_nothing_is_answered(self, crowded, path):
        transport = httpx.ASGITransport(app=crowded[0])
        async with httpx.AsyncClient(transport=transport, base_url="http://ingress") as client:
            assert (await client.get(path)).status_code == 200

    async def test_refusing_is_fast(self, crowded):
        """A thousand refusals take less than a second of this machine, which a busy one may stretch tenfold."""
        started = time.process_time()
        for _ in range(1000):
            connection = Connection(crowded[0], SPEECH, BODY)
            await connection.run()
            assert connection.status == 429
        assert time.process_time() - started < 2

    async def test_a_new_session_is_refused_and_an_old_one_waits(self, crowded, tones):
        app, admission, place = crowded
        async with Talk(app) as refused:
            await refused.hear()
        assert refused.code == 1013
        place.leave(is_whole=False)
        async with Talk(app) as talk:
            talk.tell({"type": "start"})
            talk.tell({"type": "text", "text": "好。"})
            assert len(await talk.hear()) == 3200
            await talk.hear()
            other = admission.enter(Wish(100))
            talk.tell({"type": "text", "text": "走。"})
            talk.tell({"type": "end"})
            await asyncio.sleep(0.05)  # time to be spoken, if it would
            assert len(tones.requests) == 1
            other.leave(is_whole=False)
            audio, events = await talk.hear_all()
        assert (len(audio), events[-1]["type"]) == (2 * (4000 + 1600), "done")

    async def test_sessions_are_bounded(self, tones, tmp_path):
        settings = IngressSettings(tasks=TaskSettings(folder=str(tmp_path)), live_text={"max_sessions": 2})
        app = build_app(tones, settings)
        async with Talk(app) as first, Talk(app):
            async with Talk(app) as third:
                assert await third.hear() is None
            assert (third.accepted, third.code) == (None, 1013)
            first.leave()
            await first.running
            async with Talk(app) as fourth:
                fourth.tell({"type": "end"})
                await fourth.hear_all()
            assert fourth.accepted is not None
        await app.state.tasks.close()

    async def test_handshakes_are_refused_like_requests_where_the_server_can(self, crowded):
        sent = []

        async def send(message):
            sent.append(message)

        talk = Talk(crowded[0])
        await crowded[0]({**talk._scope, "extensions": {"websocket.http.response": {}}}, talk._told.get, send)
        assert [message["type"] for message in sent] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert sent[0]["status"] == 429
        assert b"retry-after" in dict(sent[0]["headers"])
        assert json.loads(sent[1]["body"])["error"]["code"] == "overloaded"


class TestTime:
    async def test_time_in_a_proxy_counts(self, client, tones):
        headers = {"x-request-start": f"t={time.time() - 20:.3f}"}
        await client.post(SPEECH, content=BODY, headers=headers)
        assert 39 < tones.requests[0].timeout_s < 40.1

    async def test_a_request_whose_time_was_up_in_a_proxy_is_not_begun(self, app_of, tones):
        headers = {"x-request-start": f"t={time.time() - 61:.3f}"}
        connection = Connection(app_of(tones), SPEECH, BODY, headers)
        connection._unread.clear()
        async with asyncio.timeout(5):
            await connection.run()
        assert connection.status == 504
        assert tones.requests == []

    @pytest.mark.parametrize("sent", ["", "t=", "t=nan", "t=inf", "soon", f"t={time.time() + 1e6}", "t=" + "9" * 400])
    async def test_nonsense_changes_nothing(self, client, tones, sent):
        assert (await client.post(SPEECH, content=BODY, headers={"x-request-start": sent})).status_code == 200
        assert 59 < tones.requests[0].timeout_s <= 60

    async def test_time_of_sending_the_body_counts(self, client_of, tones):
        async def slow():
            yield BODY[:5]
            await asyncio.sleep(0.2)
            yield BODY[5:]

        async with client_of(tones, request_timeout_s=5) as client:
            assert (await client.post(SPEECH, content=slow())).status_code == 200
        assert 4 < tones.requests[0].timeout_s < 4.81

    async def test_slow_bodies_have_a_limit_of_their_own(self, client_of, tones):
        async def trickle():
            yield b"{"
            await asyncio.Event().wait()

        async with client_of(tones, body_timeout_s=0.02) as client:
            response = await asyncio.wait_for(client.post(SPEECH, content=trickle()), 5)
        is_error(response, 504, "deadline_exceeded")

    async def test_an_idle_session_ends(self, app_of, tones):
        async with Talk(app_of(tones, live_text={"idle_timeout_s": 0.05})) as talk:
            talk.tell({"type": "start"})
            _, events = await talk.hear_all()
        assert (events[0]["error"]["code"], talk.code) == ("deadline_exceeded", 1011)


class TestHeads:
    @pytest.mark.parametrize("where", ["headers", "query", "path"])
    async def test_large_heads_are_refused_on_every_path(self, app_of, tones, where):
        connection = Connection(app_of(tones, max_header_bytes=2000), "/healthz", b"")
        connection._scope["headers"] = []
        if where == "headers":
            connection._scope["headers"] = [(b"x-a", b"a" * 100)] * 20
        elif where == "query":
            connection._scope["query_string"] = b"a" * 2001
        else:
            connection._scope["raw_path"] = b"/healthz" + b"a" * 2000
        await connection.run()
        assert connection.status == 431
        assert json.loads(connection.body)["error"]["code"] == "headers_too_large"

    async def test_usual_ones_pass(self, client):
        response = await client.get("/stream_tts", params={"text": "好" * 4096}, headers={"cookie": "a" * 4096})
        assert response.status_code == 200
