"""The WebSocket: text in pieces, audio as clauses are complete, events with times, errors, limits."""

import asyncio
import io
import json
import logging
from dataclasses import replace

import av
import numpy as np
import pytest
from ingress_double import Talk, Tones, tone, until
from test_ingress_http import is_error

from deployments.errors import SynthesisFailed
from deployments.ingress.encoders import MEDIA_TYPES

START = {"type": "start"}
END = {"type": "end"}
PAUSE, SHORT_PAUSE = np.zeros(4000, np.int16), np.zeros(1600, np.int16)


def said(text):
    return {"type": "text", "text": text}


def spoken(*clauses):
    """What the tones say of clauses of so many characters, between them the pause of the service."""
    parts = [tone(1600 * clauses[0])]
    for clause in clauses[1:]:
        parts += [PAUSE, tone(1600 * clause)]
    return np.concatenate(parts).tobytes()


async def heard(app, *messages):
    async with Talk(app) as talk:
        for message in messages:
            talk.tell(message)
        audio, events = await talk.hear_all()
        return audio, events, talk.code


async def test_text_in_pieces_becomes_one_answer(app_of, tones):
    pieces = ["今天", "天气", "好。我", "们走", "吧"]
    audio, events, code = await heard(app_of(tones), START, *map(said, pieces), END)
    assert code == 1000
    assert audio == spoken(5, 4)
    segments = [event for event in events if event["type"] == "segment"]
    assert [(s["start_s"], s["end_s"]) for s in segments] == [(0, 0.5), (0.75, 1.15)]
    assert segments[0]["words"][0]["text"] == "段"
    assert segments[0]["words"][0]["characters"] == [{"text": "段", "start_s": 0, "end_s": 0.5}]
    assert events[-1] == {"type": "done", "duration_s": len(audio) / 32000, "sample_rate": 16000}
    assert [request.text for request in tones.requests] == ["今天天气好。", "我们走吧"]


async def test_a_clause_is_heard_before_the_rest_is_written(app_of, tones):
    async with Talk(app_of(tones)) as talk:
        talk.tell(START)
        talk.tell(said("您好，欢迎致电客服中心，请"))
        assert await talk.hear() == tone(1600 * 2).tobytes()
        assert (await talk.hear())["type"] == "segment"
        assert len(await talk.hear()) == 2 * (4000 + 1600 * 8)
        assert (await talk.hear())["end_s"] == 0.2 + 0.25 + 0.8
        # after a comma the pause of a clause, though the service asks for more
        talk.tell(said("稍候。"))
        talk.tell(END)
        audio, events = await talk.hear_all()
    assert audio == np.concatenate([PAUSE, tone(1600 * 3)]).tobytes()
    assert events[-1]["type"] == "done"


async def test_pauses_between_pieces_follow_their_marks(app_of):
    class Restless(Tones):
        async def speak(self, request):
            async for part in super().speak(request):
                yield replace(part, segment=replace(part.segment, pause_s=0.0))

    async with Talk(app_of(Restless())) as talk:
        talk.tell(START)
        for text, samples in [("一二三四五六七八，", 8 * 1600), ("好。", 1600 + 1600), ("好。", 4000 + 1600)]:
            talk.tell(said(text))
            assert len(await talk.hear()) == 2 * samples
            assert (await talk.hear())["type"] == "segment"
        talk.tell(END)
        assert await talk.hear() == {"type": "done", "duration_s": 1.35, "sample_rate": 16000}


async def test_unfinished_text_is_spoken_when_nothing_more_comes(app_of, tones):
    app = app_of(tones, live_text={"idle_flush_s": 0.05})
    async with Talk(app) as talk:
        talk.tell(START)
        talk.tell(said("还没有"))
        assert await talk.hear() == tone(1600 * 3).tobytes()
        assert [request.text for request in tones.requests] == ["还没有"]


async def test_markup_waits_for_its_end(app_of, tones):
    app = app_of(tones, live_text={"idle_flush_s": 0.02})
    async with Talk(app) as talk:
        talk.tell(START)
        for piece in ("<speak>", "好。", "走。", "</speak>"):
            talk.tell(said(piece))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):  # several times the idle time
                await talk.hear()
        talk.tell(END)
        await talk.hear_all()
    assert [request.text for request in tones.requests] == ["<speak>好。走。</speak>"]


@pytest.mark.parametrize("response_format", sorted(MEDIA_TYPES))
async def test_one_container_per_session(app_of, tones, response_format):
    start = {**START, "response_format": response_format, "sample_rate": 16000}
    audio, _, code = await heard(app_of(tones), start, said("今天天气好。"), said("我们走吧。"), END)
    assert code == 1000
    if response_format == "pcm":
        assert audio == spoken(5, 4)
    elif response_format == "wav":
        assert audio[:4] == b"RIFF"
        assert audio[4:8] == b"\xff" * 4
        assert audio[44:] == spoken(5, 4)
    else:
        with av.open(io.BytesIO(audio)) as container:
            duration_s = sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))
        # the codecs' own padding at the ends
        assert 0 <= duration_s - len(spoken(5, 4)) / 32000 < 0.2


async def test_the_voice_is_as_asked(app_of, tones):
    start = {
        **START, "voice": "demo", "emotion": "开心", "emotion_intensity": 0.5, "speed": 2, "pitch": 1.5,
        "volume": 0.5, "sample_rate": 8000, "normalize": False, "whatever": 1,
    }  # fmt: skip
    async with Talk(app_of(tones), headers={"x-request-id": "call-7", "cache-control": "no-cache"}) as talk:
        talk.tell(start)
        talk.tell(said("好。"))
        talk.tell(END)
        await talk.hear_all()
    assert (b"x-request-id", b"call-7") in talk.accepted
    (request,) = tones.requests
    assert (request.voice, request.emotion, request.emotion_intensity) == ("demo", "happy", 0.5)
    assert (request.speed, request.pitch, request.normalize) == (2.0, 1.5, False)
    assert (request.request_id, request.use_cache) == ("call-7", False)


async def test_mere_marks_are_silent(app_of, tones):
    audio, events, code = await heard(app_of(tones), START, said("！。"), said("好。"), said("……"), END)
    assert (audio, code) == (spoken(1), 1000)
    assert events[-1]["type"] == "done"


async def test_long_audio_comes_in_frames_that_clients_take(app_of, tones):
    async with Talk(app_of(tones)) as talk:
        talk.tell(START)
        talk.tell(said("字" * 100 + "。"))
        sizes = [len(await talk.hear()) for _ in range(5)]
    assert sizes == [1 << 16] * 4 + [320_000 - 4 * (1 << 16)]


async def test_without_an_upgrade_the_answer_says_what_it_is(client):
    assert "ws://" in is_error(await client.get("/v1/audio/speech/stream"), 404, "not_found")
    assert "/v1/audio/speech/stream" in (await client.get("/openapi.json")).json()["info"]["description"]


class TestErrors:
    @pytest.mark.parametrize(
        ("messages", "code", "param"),
        [
            (["{"], "invalid_request", None),
            (["[" * 5000], "invalid_request", None),
            (['"start"'], "invalid_request", "type"),
            (["{}"], "invalid_request", "type"),
            ([{"type": ["start"]}], "invalid_request", "type"),
            ([{"type": "begin"}], "invalid_request", "type"),
            ([b"\x00"], "invalid_request", None),
            ([said("好")], "invalid_request", "type"),
            ([END], "invalid_request", "type"),
            ([START, START], "invalid_request", "type"),
            ([START, {"type": "text"}], "invalid_request", "text"),
            ([START, said(5)], "invalid_request", "text"),
            ([START, {"type": "text", "text": "\ud800"}], "invalid_request", "text"),
            ([{**START, "speed": 9}], "invalid_request", "speed"),
            ([{**START, "response_format": "ogg"}], "invalid_request", "response_format"),
            ([{**START, "voice": "alloy"}], "voice_not_found", "voice"),
            ([{**START, "emotion": "bored"}], "emotion_not_found", "emotion"),
            ([{**START, "model": "gpt"}], "model_not_found", "model"),
            ([START, END], "text_not_speakable", "input"),
            ([START, said("！"), END], "text_not_speakable", "input"),
            ([START, said("字" * 21)], "too_large", "text"),
            ([START, said("字" * 11), END], "too_large", "text"),
        ],
    )
    async def test_refusals(self, app_of, tones, messages, code, param):
        app = app_of(tones, live_text={"max_chars": 20}, max_input_chars=10)
        audio, events, closed = await heard(app, *messages)
        assert (audio, closed) == (b"", 1008)
        (event,) = events
        assert event["type"] == "error"
        assert set(event["error"]) == {"message", "type", "param", "code"}
        assert (event["error"]["code"], event["error"]["param"]) == (code, param)

    async def test_nothing_may_follow_the_end(self, app_of, tones):
        tones.hold = asyncio.Event()
        _, events, closed = await heard(app_of(tones), START, said("好。"), END, said("再"))
        assert (events[0]["error"]["code"], closed) == ("invalid_request", 1008)
        assert tones.closed.is_set()

    async def test_a_failure_midway_is_told(self, app_of, tones):
        tones.failure = SynthesisFailed("The vocoder failed. Retry.")
        audio, events, closed = await heard(app_of(tones), START, said("您好，欢迎致电客服中心。"))
        assert (len(audio), closed) == (2 * 3200, 1011)
        assert events[-1] == {"type": "error", **tones.failure.body()}

    async def test_a_bug_tells_nothing_but_its_id(self, app_of, tones, caplog):
        tones.refusal = ZeroDivisionError("secret detail")
        _, events, closed = await heard(app_of(tones), START, said("好。"))
        assert (events[0]["error"]["code"], closed) == ("internal_error", 1011)
        assert "secret" not in json.dumps(events)
        assert "secret detail" in caplog.text

    @pytest.mark.parametrize("messages", [[], [START], [START, said("<speak>")]])
    async def test_a_caller_that_says_nothing_is_not_waited_for(self, app_of, tones, messages):
        _, events, closed = await heard(app_of(tones, request_timeout_s=0.05), *messages)
        assert (events[0]["error"]["code"], closed) == ("deadline_exceeded", 1011)

    async def test_late_audio_is_told(self, app_of, tones):
        tones.hold = asyncio.Event()
        _, events, closed = await heard(app_of(tones, request_timeout_s=0.05), START, said("好。"))
        assert (events[0]["error"]["code"], closed) == ("deadline_exceeded", 1011)
        assert tones.closed.is_set()

    async def test_a_session_has_an_end(self, app_of, tones):
        _, events, closed = await heard(app_of(tones, stream_timeout_s=0.05), START)
        assert (events[0]["error"]["code"], closed) == ("deadline_exceeded", 1011)


class TestCallersThatLeave:
    @pytest.mark.parametrize("num_free", [0, 1])
    async def test_leaving_ends_the_work(self, app_of, tones, num_free, caplog):
        caplog.set_level(logging.INFO, logger="deployments.ingress")
        tones.hold, tones.num_free = asyncio.Event(), num_free
        async with Talk(app_of(tones)) as talk:
            talk.tell(START)
            talk.tell(said("您好，欢迎。"))
            async with asyncio.timeout(5):
                await tones.waiting.wait()
                assert not tones.closed.is_set()
                talk.leave()
                await tones.closed.wait()
                await talk.running
        assert talk.code is None
        assert "WS /v1/audio/speech/stream gone" in caplog.text

    async def test_a_slow_reader_holds_the_work(self, app_of, tones):
        async with Talk(app_of(tones)) as talk:
            talk.tell(START)
            talk.tell(said("好。"))
            await talk.hear()
            await talk.hear()
            talk.reads.clear()
            talk.tell(said("一。二。三。四。"))
            await until(lambda: tones.num_given == 2)
            await asyncio.sleep(0.05)  # time to run on, if it would
            assert talk.num_sent == 2  # nothing is made beyond what waits to be sent
            assert tones.num_given == 2
            talk.reads.set()
            talk.tell(END)
            audio, _ = await talk.hear_all()
        assert len(audio) == 2 * 4 * (4000 + 1600)

    async def test_a_reader_that_takes_nothing_is_cut_off(self, app_of, tones):
        async with Talk(app_of(tones, request_timeout_s=0.5)) as talk:
            talk.tell(START)
            await until(lambda: talk.accepted is not None)
            talk.reads.clear()
            talk.tell(said("好。"))
            async with asyncio.timeout(5):
                await tones.closed.wait()
            talk.reads.set()

    async def test_leaving_at_once(self, app_of, tones):
        async with Talk(app_of(tones)) as talk:
            talk.leave()
            await talk.running
        assert tones.requests == []
