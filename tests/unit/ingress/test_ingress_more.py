"""Batches, words with their times, the streamed wav of the older services, what operators may do."""

import asyncio
import base64
import io
import json
import logging

import httpx
import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from ingress_double import Connection, Switch, Tones, tone, until
from test_ingress_http import PCM, SPEECH, TEXT, is_error

from deployments.errors import Overloaded, SynthesisFailed
from deployments.ingress.batch import in_order_of_completion
from deployments.ingress.routes import build_app
from deployments.settings import IngressSettings

BATCH = f"{SPEECH}/batch"
TIMES = f"{SPEECH}/with-timestamps"


class TestTimestamps:
    async def test_audio_times_and_subtitles(self, client):
        response = await client.post(TIMES, json={"input": TEXT, "response_format": "wav"})
        assert response.status_code == 200
        assert response.headers["x-cache"] == "miss"
        assert response.headers["x-audio-duration-ms"] == "650"
        assert "acoustic;dur=" in response.headers["server-timing"]
        body = response.json()
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(body.pop("audio"))), dtype="int16")
        np.testing.assert_array_equal(samples, PCM)
        assert rate == 16000
        subtitles = body.pop("subtitles")
        word = {"text": "段", "pinyin": ["duan4"]}
        times = [{"start_s": 0.0, "end_s": 0.2}, {"start_s": 0.45, "end_s": 0.65}]
        assert body == {
            "response_format": "wav",
            "sample_rate": 16000,
            "duration_s": 0.65,
            "segments": [
                {"text": f"段{n}", **time, "words": [{**word, **time, "characters": [{"text": "段", **time}]}]}
                for n, time in enumerate(times)
            ],
        }
        assert subtitles["srt"] == "1\n00:00:00,000 --> 00:00:00,650\n段0段1\n\n"
        assert subtitles["vtt"] == "WEBVTT\n\n00:00:00.000 --> 00:00:00.650\n段0段1\n\n"

    async def test_it_is_whole_whatever_the_body_says_of_streams(self, client):
        body = {"input": TEXT, "stream": True, "stream_format": "sse", "response_format": "pcm", "sample_rate": 48000}
        reply = (await client.post(TIMES, json=body)).json()
        assert len(base64.b64decode(reply["audio"])) == 2 * 3 * len(PCM)
        assert (reply["sample_rate"], reply["duration_s"], reply["segments"][1]["end_s"]) == (48000, 0.65, 0.65)

    async def test_refusals_and_failures(self, client, tones):
        is_error(await client.post(TIMES, json={"input": "！"}), 400, "text_not_speakable", "input")
        is_error(await client.post(TIMES, json={"input": TEXT, "speed": 9}), 400, "invalid_request", "speed")
        tones.failure = SynthesisFailed("The vocoder failed. Retry.")
        is_error(await client.post(TIMES, json={"input": TEXT}), 500, "synthesis_failed")


def lines_of(response):
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


class TestBatch:
    async def test_every_item_has_its_line(self, client, tones):
        items = [
            {"input": TEXT, "response_format": "pcm"},
            {"input": "！"},
            {"input": "好", "response_format": "wav", "sample_rate": 8000, "stream": True, "stream_format": "sse"},
            {"input": "好", "voice": "alloy"},
            {"input": "字" * 4097},
        ]
        response = await client.post(BATCH, json={"items": items}, headers={"x-request-id": "b1"})
        lines = sorted(lines_of(response), key=lambda line: line["index"])
        assert [line["index"] for line in lines] == [0, 1, 2, 3, 4]
        assert base64.b64decode(lines[0].pop("audio")) == PCM.tobytes()
        assert lines[0] == {"index": 0, "response_format": "pcm", "sample_rate": 16000, "duration_s": 0.65}
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(lines[2]["audio"])))
        assert (len(samples), rate, lines[2]["duration_s"]) == (800, 8000, 0.1)
        assert [(set(lines[n]), lines[n]["error"]["code"], lines[n]["error"]["param"]) for n in (1, 3, 4)] == [
            ({"index", "error"}, code, param)
            for code, param in [("text_not_speakable", "input"), ("voice_not_found", "voice"), ("too_large", "input")]
        ]
        assert {request.request_id for request in tones.requests} == {"b1.0", "b1.1", "b1.2"}
        assert all(59 < request.timeout_s <= 60 for request in tones.requests)  # what is left after waiting for room

    async def test_lines_come_as_items_are_finished_and_no_more_are_worked_on(self, app_of):
        gates = {name: asyncio.Event() for name in "甲乙丙丁"}
        begun = []

        class Gated(Tones):
            async def speak(self, request):
                begun.append(request.text)
                await gates[request.text].wait()
                async for segment in super().speak(request):
                    yield segment

        body = json.dumps({"items": [{"input": name, "response_format": "pcm"} for name in gates]}).encode()
        connection = Connection(app_of(Gated(), batch_concurrency=2), BATCH, body)
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            for number, name in enumerate("乙甲丁丙"):
                await until(lambda name=name: name in begun)
                assert len(begun) <= 2 + number
                gates[name].set()
                await until(lambda number=number: connection.body.count(b"\n") == number + 1)
        assert [json.loads(line)["index"] for line in connection.body.splitlines()] == [1, 0, 3, 2]

    async def test_leaving_ends_the_work(self, app_of, tones, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        tones.hold, tones.num_free = asyncio.Event(), 1
        body = json.dumps({"items": [{"input": "好"}, {"input": TEXT}, {"input": TEXT}]}).encode()
        connection = Connection(app_of(tones), BATCH, body)
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            await connection.body_begun.wait()
            await tones.waiting.wait()
            tones.closed.clear()
            connection.gone.set()
        assert tones.closed.is_set()
        assert f"POST {BATCH} 499 " in caplog.text

    async def test_an_item_that_is_late_or_fails_fails_alone(self, client_of, tones):
        tones.hold, tones.num_free = asyncio.Event(), 1
        async with client_of(tones, request_timeout_s=0.5) as client:
            lines = lines_of(await client.post(BATCH, json={"items": [{"input": TEXT}, {"input": "好"}]}))
        assert {line["index"]: line.get("error", {}).get("code") for line in lines} == {0: "deadline_exceeded", 1: None}
        tones.hold, tones.refusal = None, ZeroDivisionError("secret")
        async with client_of(tones) as client:
            (line,) = lines_of(await client.post(BATCH, json={"items": [{"input": TEXT}]}))
        assert line["error"]["code"] == "internal_error"
        assert "secret" not in line["error"]["message"]

    async def test_no_cache_holds_for_all(self, client, tones):
        items = [{"input": "好"}, {"input": "走"}]
        lines_of(await client.post(BATCH, json={"items": items}, headers={"cache-control": "no-cache"}))
        assert [request.use_cache for request in tones.requests] == [False, False]

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({}, "items"),
            ({"items": []}, "items"),
            ({"items": {}}, "items"),
            ({"items": [{"input": "好"}] * 65}, "items"),
            ({"items": [{"input": "好"}, 5]}, "items[1]"),
            ({"items": [{"input": "好"}, {"input": ""}]}, "items[1].input"),
            ({"items": [{"input": "好", "speed": 9}]}, "items[0].speed"),
        ],
    )
    async def test_a_body_that_makes_no_sense_is_refused_whole(self, client, tones, body, param):
        message = is_error(await client.post(BATCH, json=body), 400, "invalid_request", param)
        assert "speed" not in param or "0.25 to 4.0" in message
        assert tones.requests == []


@settings(max_examples=40, deadline=None)
@given(delays=st.lists(st.integers(0, 5), max_size=8), limit=st.integers(1, 4), stop=st.integers(1, 9))
def test_completion_order_is_bounded_and_cleans_up(delays, limit, stop):
    async def check():
        running, most, ended = 0, 0, []

        async def work(number):
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                for _ in range(delays[number]):
                    await asyncio.sleep(0)
                ended.append(number)
                return number
            finally:
                running -= 1

        results = []
        iteration = in_order_of_completion([lambda n=n: work(n) for n in range(len(delays))], limit)
        async for result in iteration:
            results.append(result)
            if len(results) == stop:
                break
        await iteration.aclose()
        assert running == 0
        assert most <= limit
        assert len(results) == min(stop, len(delays))
        assert len(set(results)) == len(results)
        assert set(results) <= set(ended)

    asyncio.run(check())


class TestStreamTts:
    async def test_a_wav_that_starts_at_once(self, client, tones):
        params = {"text": TEXT, "emotion": "开心", "voice": "demo", "speed": "1.5", "else": "x"}
        response = await client.get("/stream_tts", params=params)
        assert response.status_code == 200
        assert response.headers["content-type"] == "audio/wav"
        assert "content-length" not in response.headers
        assert response.content[4:8] == response.content[40:44] == b"\xff" * 4
        assert response.content[44:] == PCM.tobytes()
        (request,) = tones.requests
        assert (request.emotion, request.voice, request.speed, request.use_cache) == ("happy", "demo", 1.5, True)

    async def test_first_bytes_come_before_the_last_segment(self, app_of, tones):
        tones.hold, tones.num_free = asyncio.Event(), 1
        connection = Connection(app_of(tones), "/stream_tts", b"")
        connection._scope |= {"method": "GET", "query_string": b"text=a%EF%BC%8Cb", "headers": []}
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            group.create_task(connection.run())
            await tones.waiting.wait()
            await connection.body_begun.wait()
            tones.hold.set()
        assert connection.body[44:] == np.concatenate([tone(1600), np.zeros(4000, np.int16), tone(1600)]).tobytes()

    @pytest.mark.parametrize(
        ("params", "code", "param"),
        [
            ({}, "invalid_request", "text"),
            ({"text": ""}, "invalid_request", "text"),
            ({"text": "！"}, "text_not_speakable", "text"),
            ({"text": "好", "voice": "x"}, "voice_not_found", "voice"),
            ({"text": "好", "emotion": "bored"}, "emotion_not_found", "emotion"),
            ({"text": "好", "speed": "fast"}, "invalid_request", "speed"),
            ({"text": "好", "speed": "9"}, "invalid_request", "speed"),
            ({"text": "好", "speed": "nan"}, "invalid_request", "speed"),
        ],
    )
    async def test_refusals(self, client, params, code, param):
        is_error(await client.get("/stream_tts", params=params), 400, code, param)

    async def test_too_long(self, client):
        is_error(await client.get("/stream_tts", params={"text": "字" * 4097}), 413, "too_large", "text")


@pytest.fixture(scope="module")
def switched():
    """An application that was made while the key was set."""
    switch = Switch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KEY_OF_THE_TEST", "open sesame")
        return switch, build_app(switch, IngressSettings(admin_key_env="KEY_OF_THE_TEST"))


class TestAdmin:
    @pytest.fixture
    async def admin(self, switched, tones):
        switch, app = switched
        switch.target = tones
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            yield client

    @pytest.mark.parametrize(("content", "voice"), [(b"", None), (b"{}", None), (b'{"voice": "demo"}', "demo")])
    async def test_purge(self, admin, tones, content, voice):
        headers = {"authorization": "Bearer open sesame"}
        response = await admin.post("/admin/cache/purge", content=content, headers=headers)
        assert (response.status_code, response.json()) == (200, {"removed": 3})
        assert tones.purged == [voice]

    @pytest.mark.parametrize(
        "key", [None, "", "Bearer", "Bearer ", "Bearer open", "open sesame", "Basic open sesame", "Bearer öpen"]
    )
    async def test_without_the_key_nothing_happens(self, admin, tones, key):
        headers = {} if key is None else {"authorization": key.encode()}
        response = await admin.post("/admin/cache/purge", content=b'{"voice": 5}', headers=headers)
        is_error(response, 401, "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"
        assert tones.purged == []

    async def test_what_goes_wrong_is_told(self, admin, tones):
        headers = {"authorization": "bearer open sesame"}
        reply = await admin.post("/admin/cache/purge", json={"voice": 5}, headers=headers)
        is_error(reply, 400, "invalid_request", "voice")

        async def busy(voice):
            raise Overloaded("Too busy; retry.", retry_after_s=2.0)

        tones.purge = busy
        is_error(await admin.post("/admin/cache/purge", headers=headers), 429, "overloaded")

    async def test_without_a_key_in_the_environment_there_is_no_such_path(self, client, tones):
        reply = await client.post("/admin/cache/purge", headers={"authorization": "Bearer "})
        is_error(reply, 404, "not_found")
        assert "/admin/cache/purge" not in (await client.get("/openapi.json")).text
        assert tones.purged == []
