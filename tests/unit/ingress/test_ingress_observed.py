"""What callers get is counted as it was: by code, route, voice and emotion, with few values whatever they send."""

import asyncio
import json
from contextlib import aclosing

import httpx
import pytest
from ingress_double import VOICES, Connection, Talk, Tones, spoken, tone

from deployments.errors import Overloaded, SynthesisFailed
from deployments.ingress.observed import ObservedHttp, observed
from deployments.ingress.routes import build_app
from deployments.messages import SpeechRequest
from deployments.metrics import METRICS
from deployments.settings import IngressSettings

TABLE = {metric.name: metric for metric in METRICS}


class Recorded:
    """A metrics system that checks what it gets against the table, and keeps it."""

    def __init__(self):
        self.got = []

    def count(self, name, amount, tags):
        self._add("count", name, amount, tags)

    def gauge(self, name, value, tags):
        self._add("gauge", name, value, tags)

    def observe(self, name, value, tags):
        self._add("histogram", name, value, tags)

    def _add(self, kind, name, value, tags):
        assert TABLE[name].kind == kind
        assert set(TABLE[name].tags) == set(tags)
        self.got.append((name, value, dict(tags)))

    def of(self, name):
        return [(value, tags) for got, value, tags in self.got if got == name]

    def outcomes(self, name="http_requests"):
        return [tuple(tags.values()) for _, tags in self.of(name)]


@pytest.fixture
def metrics():
    return Recorded()


async def speak(segments, request, metrics, limit=None):
    """Takes the segments, at most so many; returns how many came."""
    number = 0
    async with aclosing(observed(segments, request, VOICES, metrics)) as given:
        async for _ in given:
            number += 1
            if number == limit:
                break
    return number


async def test_a_spoken_text_is_counted_once_with_its_audio(metrics):
    request = SpeechRequest(text="今天，天气，好", voice="demo", emotion="happy")
    assert await speak(Tones().speak(request), request, metrics) == 3
    delivery = {"voice": "demo", "emotion": "happy"}
    assert metrics.of("speech_requests") == [(1, {**delivery, "code": "ok"})]
    assert metrics.of("audio_seconds") == [(pytest.approx(0.5), delivery)]  # 100 ms per character
    ((spent_s, _),) = metrics.of("speech_seconds")
    assert metrics.of("real_time_factor") == [(pytest.approx(spent_s / 0.5), {})]
    assert [tags for _, tags in metrics.of("first_audio_seconds")] == [{"source": "miss"}]
    assert metrics.of("text_seconds") == [(0.003, {})]
    assert len(metrics.of("cache_seconds")) == 3


async def test_time_that_the_caller_takes_is_not_the_services(metrics):
    request = SpeechRequest(text="好，好", voice="demo")
    async with aclosing(observed(Tones().speak(request), request, VOICES, metrics)) as given:
        async for _ in given:
            await asyncio.sleep(0.05)  # the caller's own time is what this test is about
    ((spent_s, _),) = metrics.of("speech_seconds")
    assert spent_s < 0.05


async def test_parts_of_a_segment_are_looked_up_once(metrics):
    async def parts():
        first, last = (spoken(0, tone(800), cache=cache) for cache in ("miss", "sqlite"))
        yield first.__class__(segment=first.segment, audio=first.audio, cache="miss", index=0, is_last=False)
        yield last

    request = SpeechRequest(text="好", voice="demo")
    assert await speak(parts(), request, metrics) == 2
    assert len(metrics.of("cache_seconds")) == len(metrics.of("text_seconds")) == 1
    assert metrics.of("audio_seconds") == [(pytest.approx(0.1), {"voice": "demo", "emotion": "neutral"})]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Overloaded("Later."), "overloaded"),
        (SynthesisFailed("No."), "synthesis_failed"),
        (KeyError(), "internal_error"),
    ],
)
async def test_a_fault_is_counted_by_its_code_and_goes_on(metrics, fault, code):
    tones = Tones()
    tones.refusal = fault
    request = SpeechRequest(text="好", voice="plain")
    with pytest.raises(type(fault)):
        await speak(tones.speak(request), request, metrics)
    assert metrics.of("speech_requests") == [(1, {"voice": "plain", "emotion": "neutral", "code": code})]
    assert not metrics.of("speech_seconds")


async def test_a_caller_that_leaves_is_counted_and_its_work_given_up(metrics):
    tones = Tones()
    request = SpeechRequest(text="好，好，好", voice="demo")
    assert await speak(tones.speak(request), request, metrics, limit=1) == 1
    assert tones.closed.is_set()
    assert [tags["code"] for _, tags in metrics.of("speech_requests")] == ["given_up"]


async def test_names_that_are_not_served_make_no_tags(metrics):
    for voice, emotion in [("x" * 99, "happy"), (None, "happy"), ("demo", "y" * 99)]:
        request = SpeechRequest(text="好", voice=voice, emotion=emotion)
        await speak(Tones().speak(request), request, metrics)
    assert metrics.outcomes("speech_requests") == [
        ("other", "other", "ok"),
        ("other", "other", "ok"),
        ("demo", "other", "ok"),
    ]


@pytest.fixture
def app(metrics):
    service = Tones()
    app = build_app(service, IngressSettings(tasks={"folder": None}), cache=None)
    app.add_middleware(ObservedHttp, metrics=metrics)
    app.state.service = service
    return app


async def test_requests_are_counted_by_route_status_and_code(app, metrics):
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        await client.post("/v1/audio/speech", json={"input": "好", "response_format": "wav"})
        await client.post("/v1/audio/speech", json={"input": "好", "voice": "nobody"})
        await client.post("/v1/audio/speech", content=b"{")
        await client.get("/api/tasks/3b4c")
        await client.get("/etc/passwd")
        await client.request("BREW", "/v1/audio/speech")
    assert metrics.outcomes() == [
        ("POST /v1/audio/speech", "200", "ok"),
        ("POST /v1/audio/speech", "400", "voice_not_found"),
        ("POST /v1/audio/speech", "400", "invalid_request"),
        ("GET /api/tasks/{task_id}", "404", "not_found"),
        ("GET other", "404", "not_found"),
        ("other /v1/audio/speech", "405", "method_not_allowed"),
    ]
    assert [tags["route"] for _, tags in metrics.of("http_seconds")] == [tags[0] for tags in metrics.outcomes()]


async def test_a_caller_that_has_gone_is_no_success(app, metrics):
    service = app.state.service
    service.hold = asyncio.Event()
    connection = Connection(app, "/v1/audio/speech", json.dumps({"input": "好", "stream": False}).encode())
    running = asyncio.create_task(connection.run())
    async with asyncio.timeout(5):
        await service.waiting.wait()
        connection.gone.set()
        await running
    assert metrics.outcomes() == [("POST /v1/audio/speech", "499", "client_gone")]


async def test_an_answer_that_breaks_off_is_no_success(app, metrics):
    app.state.service.failure = SynthesisFailed("The vocoder failed.")
    connection = Connection(app, "/v1/audio/speech", json.dumps({"input": "好，好", "response_format": "pcm"}).encode())
    with pytest.raises(RuntimeError, match="response already started"):
        await connection.run()
    assert connection.status == 200
    assert metrics.outcomes() == [("POST /v1/audio/speech", "200", "broken_off")]
    assert not metrics.of("http_seconds")


async def test_sessions_are_counted_by_their_close(app, metrics):
    async with Talk(app) as talk:
        talk.tell({"type": "start", "response_format": "pcm"})
        talk.tell({"type": "text", "text": "好。"})
        talk.tell({"type": "end"})
        await talk.hear_all()
    async with Talk(app) as talk:
        talk.tell({"type": "text", "text": "好。"})
        await talk.hear_all()
    async with Talk(app) as talk:
        talk.tell({"type": "start", "response_format": "pcm"})
    assert [tags["close"] for _, tags in metrics.of("live_sessions")] == ["1000", "1008", "gone"]
    assert [value for value, _ in metrics.of("live_sessions_open")] == [0, *[1, 0] * 3]
