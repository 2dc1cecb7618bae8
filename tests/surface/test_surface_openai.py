"""OpenAI's own Python client works unchanged."""

import base64
import io
import json

import av
import numpy as np
import openai
import pytest
import soundfile

TEXT = "您好，欢迎致电客服中心，请稍候。"
SECONDS = (2.0, 6.0)


@pytest.fixture(scope="module")
def client(surface):
    with openai.OpenAI(base_url=f"{surface.address}/v1", api_key="any", max_retries=0) as client:
        yield client


def decoded(data):
    """Samples, -1 to 1, and rate of a file of any format."""
    with av.open(io.BytesIO(data)) as container:
        resampler = av.AudioResampler("flt", "mono")
        frames = [out for frame in container.decode(audio=0) for out in resampler.resample(frame)]
        return np.concatenate([frame.to_ndarray()[0] for frame in frames]), frames[0].sample_rate


def is_speech(samples, rate):
    assert SECONDS[0] < len(samples) / rate < SECONDS[1]
    assert 0.02 < np.sqrt(np.mean(samples.astype(np.float64) ** 2)) < 0.5


@pytest.mark.parametrize("response_format", ["mp3", "opus", "aac", "flac", "wav"])
def test_create_in_every_container(client, response_format):
    reply = client.audio.speech.create(model="tts-1", voice="demo", input=TEXT, response_format=response_format)
    is_speech(*decoded(reply.content))


def test_create_pcm_with_everything_it_knows(client):
    reply = client.audio.speech.create(
        model="gpt-4o-mini-tts", voice="demo", input=TEXT, response_format="pcm", speed=1.0, instructions="Cheerful!"
    )
    is_speech(np.frombuffer(reply.content, "<i2") / 32768, 16000)


def test_the_default_is_mp3(client, tmp_path):
    client.audio.speech.create(model="tts-1-hd", voice="demo", input=TEXT).write_to_file(tmp_path / "speech.mp3")
    samples, rate = soundfile.read(tmp_path / "speech.mp3")
    is_speech(samples, rate)


def test_streaming_response(client, tmp_path):
    text = "今天天气怎么样？我们一起去公园散步吧。"
    arguments = {"model": "tts-1", "voice": "demo", "input": text, "response_format": "pcm"}
    with client.audio.speech.with_streaming_response.create(**arguments) as response:
        assert response.headers["content-type"] == "audio/pcm"
        assert "content-length" not in response.headers
        chunks = list(response.iter_bytes(4096))
    assert len(chunks) > 2
    with client.audio.speech.with_streaming_response.create(**{**arguments, "response_format": "wav"}) as response:
        response.stream_to_file(tmp_path / "speech.wav")
    assert (tmp_path / "speech.wav").read_bytes()[44:] == b"".join(chunks)
    whole = client.audio.speech.create(**arguments, extra_body={"stream": False})
    assert whole.content == b"".join(chunks)
    assert whole.response.headers["content-length"] == str(len(whole.content))


def test_events(client):
    arguments = {"model": "tts-1", "voice": "demo", "input": TEXT, "response_format": "pcm", "stream_format": "sse"}
    with client.audio.speech.with_streaming_response.create(**arguments) as response:
        events = [
            json.loads(line.removeprefix("data: ")) for line in response.iter_lines() if line.startswith("data: ")
        ]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    plain = client.audio.speech.create(model="tts-1", voice="demo", input=TEXT, response_format="pcm")
    assert b"".join(base64.b64decode(event["audio"]) for event in events[:-1]) == plain.content


async def test_the_asynchronous_client(surface):
    async with openai.AsyncOpenAI(base_url=f"{surface.address}/v1", api_key="any", max_retries=0) as client:
        arguments = {"model": "tts-1", "voice": {"id": "demo"}, "input": TEXT, "response_format": "pcm"}
        async with client.audio.speech.with_streaming_response.create(**arguments) as response:
            size = sum([len(chunk) async for chunk in response.iter_bytes()])
    assert 2 * 16000 * SECONDS[0] < size < 2 * 16000 * SECONDS[1]


@pytest.mark.parametrize(
    ("change", "kind", "code", "param"),
    [
        ({"voice": "alloy"}, openai.BadRequestError, "voice_not_found", "voice"),
        ({"model": "whisper-1"}, openai.NotFoundError, "model_not_found", "model"),
        ({"input": ""}, openai.BadRequestError, "invalid_request", "input"),
        ({"speed": 9.0}, openai.BadRequestError, "invalid_request", "speed"),
    ],
)
def test_errors_are_the_clients_own(client, change, kind, code, param):
    with pytest.raises(kind) as caught:
        client.audio.speech.create(**{"model": "tts-1", "voice": "demo", "input": TEXT, **change})
    assert (caught.value.code, caught.value.param) == (code, param)
    assert caught.value.type == "invalid_request_error"


def test_models(client):
    assert [model.id for model in client.models.list()] == ["sambert-hifigan"]
