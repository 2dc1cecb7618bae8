"""The routes, through the real application."""

import base64
import io
import json
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from ingress_double import Tones, tone

from deployments.errors import NotReady, Overloaded, StageStuck, SynthesisFailed, VoiceNotFound, all_errors
from deployments.ingress.encoders import MEDIA_TYPES
from deployments.messages import StageStatus

TEXT = "您好，欢迎"
PCM = np.concatenate([tone(3200), np.zeros(4000, np.int16), tone(3200)])
SPEECH = "/v1/audio/speech"


def is_error(response, status, code, param=None):
    """Whether an answer has the one error shape and says this."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (body["error"]["code"], body["error"]["param"]) == (code, param)
    assert body["error"]["message"].endswith((".", "!"))
    return body["error"]["message"]


class TestSpeech:
    async def test_wav_is_whole_and_exact(self, client):
        response = await client.post(SPEECH, json={"input": TEXT, "response_format": "wav", "stream": False})
        assert response.status_code == 200
        assert response.headers["content-type"] == "audio/wav"
        assert int(response.headers["content-length"]) == len(response.content) == 44 + 2 * len(PCM)
        with wave.open(io.BytesIO(response.content)) as file:
            assert file.readframes(len(PCM) + 1) == PCM.tobytes()

    async def test_headers_tell_cache_length_and_times(self, client):
        response = await client.post(SPEECH, json={"input": TEXT, "response_format": "pcm", "stream": False})
        assert response.content == PCM.tobytes()
        assert response.headers["x-cache"] == "miss"
        assert response.headers["x-audio-duration-ms"] == "650"
        stages = dict(part.split(";dur=") for part in response.headers["server-timing"].split(", "))
        assert list(stages) == ["text", "cache", "acoustic", "vocoder", "encode"]
        assert [stages["text"], stages["acoustic"], stages["vocoder"]] == ["3.0", "40.0", "20.0"]

    async def test_a_streamed_mp3_is_the_default(self, client):
        response = await client.post(SPEECH, json={"input": TEXT})
        assert response.headers["content-type"] == "audio/mpeg"
        assert not {"content-length", "x-cache", "x-audio-duration-ms", "server-timing"} & set(response.headers)
        response = await client.post(SPEECH, json={"input": TEXT, "stream": False})
        assert soundfile.info(io.BytesIO(response.content)).frames == len(PCM)

    @pytest.mark.parametrize("response_format", sorted(MEDIA_TYPES))
    async def test_streams_are_the_same_file_without_its_length(self, client, response_format):
        body = {"input": TEXT, "response_format": response_format}
        response = await client.post(SPEECH, json=body)
        assert response.status_code == 200
        assert response.headers["content-type"] == MEDIA_TYPES[response_format]
        assert "content-length" not in response.headers
        if response_format in ("pcm", "wav"):
            assert response.content[-2 * len(PCM) :] == PCM.tobytes()
        if response_format == "wav":
            assert response.content[4:8] == response.content[40:44] == b"\xff" * 4

    async def test_events_carry_the_audio(self, client):
        body = {"input": TEXT, "response_format": "pcm", "stream_format": "sse"}
        response = await client.post(SPEECH, json=body)
        assert response.headers["content-type"].startswith("text/event-stream")
        blocks = response.text.strip().split("\n\n")
        events = [json.loads(block.split("data: ")[1]) for block in blocks]
        assert [block.split("\n")[0] for block in blocks] == [f"event: {event['type']}" for event in events]
        assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
        assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == PCM.tobytes()

    async def test_sample_rate_and_volume_are_applied(self, client):
        body = {"input": TEXT, "response_format": "wav", "sample_rate": 48000, "volume": 0.5}
        samples, rate = soundfile.read(io.BytesIO((await client.post(SPEECH, json=body)).content))
        assert (len(samples), rate) == (3 * len(PCM), 48000)
        assert np.abs(samples[2000:8000]).max() == pytest.approx(0.25, abs=0.002)

    async def test_fields_of_other_services_are_ignored(self, client, tones):
        response = await client.post(SPEECH, json={"input": TEXT, "response_format": "pcm", "user": "u-1", "seed": 7})
        assert response.content == PCM.tobytes()

    @pytest.mark.parametrize(
        ("header", "used"), [(None, True), ("no-cache", False), ("max-age=0, No-Cache", False), ("max-age=5", True)]
    )
    async def test_no_cache_synthesises_anew(self, client, tones, header, used):
        headers = {"cache-control": header} if header else {}
        body = {"input": TEXT, "response_format": "pcm"}
        whole = await client.post(SPEECH, json={**body, "stream": False}, headers=headers)
        streamed = await client.post(SPEECH, json=body, headers=headers)
        assert [request.use_cache for request in tones.requests] == [used, used]
        assert whole.headers["x-cache"] == ("miss" if used else "bypass")
        assert streamed.headers.get("x-cache") == (None if used else "bypass")

    @pytest.mark.parametrize(
        ("change", "status", "code", "param"),
        [
            ({"input": None}, 400, "invalid_request", "input"),
            ({"input": ""}, 400, "invalid_request", "input"),
            ({"input": 5}, 400, "invalid_request", "input"),
            ({"input": "！。"}, 400, "text_not_speakable", "input"),
            ({"input": "字" * 4097}, 413, "too_large", "input"),
            ({"model": "whisper"}, 404, "model_not_found", "model"),
            ({"voice": "alloy"}, 400, "voice_not_found", "voice"),
            ({"voice": {"name": "demo"}}, 400, "invalid_request", "voice"),
            ({"voice": "../../etc/passwd"}, 400, "voice_not_found", "voice"),
            ({"emotion": "bored"}, 400, "emotion_not_found", "emotion"),
            ({"response_format": "ogg"}, 400, "invalid_request", "response_format"),
            ({"stream_format": "raw"}, 400, "invalid_request", "stream_format"),
            ({"speed": 0.249}, 400, "invalid_request", "speed"),
            ({"speed": 4.01}, 400, "invalid_request", "speed"),
            ({"speed": "1.0"}, 400, "invalid_request", "speed"),
            ({"speed": True}, 400, "invalid_request", "speed"),
            ({"emotion_intensity": 0.009}, 400, "invalid_request", "emotion_intensity"),
            ({"emotion_intensity": 2.1}, 400, "invalid_request", "emotion_intensity"),
            ({"pitch": -12.5}, 400, "invalid_request", "pitch"),
            ({"volume": 2.5}, 400, "invalid_request", "volume"),
            ({"sample_rate": 11025}, 400, "invalid_request", "sample_rate"),
            ({"normalize": "yes"}, 400, "invalid_request", "normalize"),
            ({"stream": 1}, 400, "invalid_request", "stream"),
        ],
    )
    async def test_wrong_fields_are_refused_by_name(self, client, tones, change, status, code, param):
        body = {"input": TEXT, "response_format": "pcm", **change}
        is_error(await client.post(SPEECH, json=body), status, code, param)
        assert all(request.text == "！。" for request in tones.requests)
        whole = await client.post(SPEECH, json={"stream": False, **body})
        assert whole.status_code == status

    async def test_messages_name_the_fix(self, client):
        message = is_error(await client.post(SPEECH, json={}), 400, "invalid_request", "input")
        assert message.startswith("The field input is missing.")
        response = await client.post(SPEECH, json={"input": TEXT, "speed": 9, "pitch": 99})
        message = is_error(response, 400, "invalid_request", "speed")
        assert "0.25 to 4.0" in message
        assert "-12 to 12" in message


class TestTts:
    async def test_the_readme_curl_line(self, client):
        # curl -X POST localhost:8000/tts -d '{"text": ...}' sends this content type
        headers = {"content-type": "application/x-www-form-urlencoded"}
        response = await client.post("/tts", content=json.dumps({"text": TEXT}), headers=headers)
        assert response.status_code == 200
        assert response.headers["content-disposition"] == 'attachment; filename="speech.wav"'
        with wave.open(io.BytesIO(response.content)) as file:
            assert file.readframes(len(PCM)) == PCM.tobytes()

    async def test_fields_arrive(self, client, tones):
        body = {"text": TEXT, "emotion": "开心", "voice": "demo", "speed": 1.5}
        assert (await client.post("/tts", json=body)).status_code == 200
        request = tones.requests[0]
        assert (request.text, request.emotion, request.voice, request.speed) == (TEXT, "happy", "demo", 1.5)

    @pytest.mark.parametrize(
        ("body", "code", "param"),
        [
            ({}, "invalid_request", "text"),
            ({"text": ""}, "invalid_request", "text"),
            ({"text": "……"}, "text_not_speakable", "text"),
            ({"text": TEXT, "voice": "x"}, "voice_not_found", "voice"),
            ({"text": TEXT, "speed": "fast"}, "invalid_request", "speed"),
        ],
    )
    async def test_refusals_name_its_own_fields(self, client, body, code, param):
        is_error(await client.post("/tts", json=body), 400, code, param)


class TestLists:
    async def test_voices(self, client):
        voices = (await client.get("/v1/audio/voices")).json()["voices"]
        assert voices[0] == {
            "id": "demo", "name": "demo", "model": "bundled", "emotions": ["neutral", "happy", "sad"],
            "sample_rate": 16000, "language": "zh-CN", "license": "demonstration", "default": True,
        }  # fmt: skip
        assert [voice["id"] for voice in voices] == ["demo", "plain"]

    async def test_models(self, client):
        body = (await client.get("/v1/models")).json()
        assert body["object"] == "list"
        assert [(m["id"], m["object"], m["owned_by"]) for m in body["data"]] == [
            ("sambert-hifigan", "model", "sambert-serve")
        ]
        assert isinstance(body["data"][0]["created"], int)

    async def test_analysis(self, client):
        body = (await client.post("/v1/text/analysis", json={"input": "段"})).json()
        segment = body["segments"][0]
        assert set(segment) == {"text", "normalized", "pinyin", "symbols", "phones"}
        assert (segment["pinyin"], segment["phones"]) == (["duan4"], ["d_c", "uan_c"])

    async def test_analysis_refuses_what_speech_refuses(self, client):
        is_error(await client.post("/v1/text/analysis", json={}), 400, "invalid_request", "input")
        refused = await client.post("/v1/text/analysis", json={"input": "a", "voice": "x"})
        is_error(refused, 400, "voice_not_found", "voice")
        is_error(await client.post("/v1/text/analysis", json={"input": "a" * 4097}), 413, "too_large", "input")


class TestOperation:
    async def test_health(self, client):
        assert (await client.get("/healthz")).json() == {"status": "ok"}

    async def test_ready(self, client):
        response = await client.get("/readyz")
        assert response.status_code == 200
        assert [stage["stage"] for stage in response.json()["stages"]] == ["normalizer", "acoustic", "vocoder"]

    async def test_not_ready_names_stage_and_reason(self, client, tones):
        tones.status = (*tones.status[:2], StageStatus(stage="vocoder", ready=False, reason="3 batches were stuck"))
        response = await client.get("/readyz")
        assert "vocoder: 3 batches were stuck" in is_error(response, 503, "not_ready")
        assert (await client.get("/healthz")).status_code == 200


class TestFailures:
    @pytest.mark.parametrize("kind", all_errors())
    async def test_every_error_of_the_tree_keeps_status_and_code(self, client, tones, kind):
        tones.refusal = kind("It went wrong. Do this.", "voice", 2.2)
        for stream in (False, True):
            response = await client.post(SPEECH, json={"input": TEXT, "stream": stream})
            is_error(response, kind.status, kind.code, "voice")
            assert response.headers["retry-after"] == "3"

    async def test_a_bug_is_an_internal_error_that_tells_nothing_but_its_id(self, client, tones, caplog):
        tones.refusal = ZeroDivisionError("secret detail")
        response = await client.post(SPEECH, json={"input": TEXT}, headers={"x-request-id": "abc-1"})
        message = is_error(response, 500, "internal_error")
        assert "abc-1" in message
        assert "secret" not in response.text
        assert "secret detail" in caplog.text

    @pytest.mark.parametrize("kind", [SynthesisFailed, StageStuck, NotReady, Overloaded])
    async def test_a_failure_midway_is_no_answer_at_all(self, client, tones, kind):
        tones.failure = kind("It went wrong midway.")
        is_error(await client.post(SPEECH, json={"input": TEXT, "stream": False}), kind.status, kind.code)

    @pytest.mark.parametrize(
        ("method", "path", "status", "code"),
        [
            ("GET", "/nope", 404, "not_found"),
            ("GET", "/v1/audio/speech/", 404, "not_found"),
            ("GET", "/v1/../etc/passwd", 404, "not_found"),
            ("GET", "/tts", 405, "method_not_allowed"),
            ("DELETE", SPEECH, 405, "method_not_allowed"),
        ],
    )
    async def test_wrong_paths_and_methods(self, client, method, path, status, code):
        response = await client.request(method, path)
        message = is_error(response, status, code)
        assert ("POST" in message) == (status == 405)
        assert response.headers.get("allow") == ("POST" if status == 405 else None)

    async def test_unserved_default_voice_is_told(self, client_of, tones):
        async def no_voices():
            return ()

        tones.voices = no_voices
        async with client_of(tones) as client:
            is_error(await client.post(SPEECH, json={"input": TEXT}), 400, VoiceNotFound.code, "voice")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "input", "model", "voice", "response_format", "speed", "stream", "stream_format", "instructions", "emotion",
    "emotion_intensity", "pitch", "volume", "sample_rate", "normalize", "text",
)  # fmt: skip
VALID = {
    "response_format": st.sampled_from(sorted(MEDIA_TYPES)),
    "sample_rate": st.sampled_from([None, 8000, 22050, 48000]),
    "voice": st.sampled_from([None, "demo", {"id": "plain"}]),
    "stream_format": st.sampled_from(["audio", "sse"]),
    "emotion": st.sampled_from(["happy", "开心", "sad"]),
    "volume": st.floats(0, 2),
    "stream": st.booleans(),
}
BODIES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6)
LIKELY = st.fixed_dictionaries({"input": st.text(max_size=12), "text": st.text(max_size=12)}, optional=VALID)


@settings(max_examples=60, deadline=None)
@given(body=st.one_of(BODIES, LIKELY, JSON), path=st.sampled_from([SPEECH, "/tts", "/v1/text/analysis"]))
async def test_any_json_gets_audio_or_a_refusal(client_of, body, path):
    async with client_of(Tones()) as client:
        content = json.dumps(body).encode()
        response = await client.post(path, content=content, headers={"content-type": "application/json"})
    assert response.status_code in (200, 400, 404, 413), response.text
    if response.status_code == 200:
        assert response.content
    else:
        is_error(response, response.status_code, response.json()["error"]["code"], response.json()["error"]["param"])


@settings(max_examples=40, deadline=None)
@given(content=st.binary(max_size=60), media_type=st.sampled_from(["application/json", "text/plain", "", "a/b+json"]))
async def test_any_bytes_get_a_refusal(client_of, content, media_type):
    async with client_of(Tones()) as client:
        response = await client.post(SPEECH, content=content, headers={"content-type": media_type})
    is_error(response, 400, "invalid_request", response.json()["error"]["param"])
