"""HTTP in front of the real stages and the bundled voice."""

import asyncio
import io

import numpy as np
import pytest
import soundfile
from inprocess import Pipeline
from test_ingress_http import SPEECH, is_error

from deployments.ingress import handle
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

TEXT = "您好，欢迎致电客服中心，请稍候。"
NUM_SYLLABLES = 14


@pytest.fixture(scope="module")
def pipeline():
    made = Pipeline()
    yield made
    made.close()


@pytest.fixture
async def real(client_of, pipeline):
    async with client_of(pipeline) as client:
        yield client


async def samples_of(client, **body):
    response = await client.post(SPEECH, json={"input": TEXT, "response_format": "pcm", **body})
    assert response.status_code == 200, response.text
    return np.frombuffer(response.content, "<i2")


async def test_tts_speaks(real):
    response = await real.post("/tts", content=f'{{"text":"{TEXT}"}}')
    samples, rate = soundfile.read(io.BytesIO(response.content))
    assert rate == 16000
    assert 0.12 < len(samples) / rate / NUM_SYLLABLES < 0.5
    assert 0.02 < np.sqrt(np.mean(samples**2)) < 0.5
    assert int(response.headers["x-audio-duration-ms"]) == round(1000 * len(samples) / rate)


async def test_stream_batch_and_python_handle_give_the_samples_of_a_single_answer(real, pipeline):
    text = "今天天气很好。我们去公园，好吗？"
    alone = await samples_of(real, input=text)
    streamed, *others, again = await asyncio.gather(
        samples_of(real, input=text, stream=True),
        samples_of(real, input="一二三四五。"),
        samples_of(real, emotion="sad"),
        samples_of(real, input=text),
    )
    audio = await handle.synthesize(pipeline, IngressSettings(), SpeechRequest(text=text))
    pieces = [piece async for piece in handle.stream(pipeline, IngressSettings(), SpeechRequest(text=text))]
    handled = np.frombuffer(b"".join(pieces), "<i2")
    assert len(pieces) == len(audio.segments) == 2
    for samples in (streamed, again, audio.pcm, handled):
        assert len(samples) == len(alone)
        assert np.abs(samples.astype(int) - alone).max() <= 33  # DESIGN.md's bound of 1e-3 of full scale
    assert len({len(samples) for samples in (alone, *others)}) == 3


async def test_controls_are_heard(real):
    plain = await samples_of(real)
    assert len(await samples_of(real, speed=2.0)) < 0.7 * len(plain)
    happy = await samples_of(real, emotion="开心")
    np.testing.assert_array_equal(happy, await samples_of(real, instructions="in a happy voice"))
    assert len(happy) != len(plain) or np.abs(happy.astype(int) - plain).max() > 1000
    assert len(await samples_of(real, sample_rate=48000)) == 3 * len(plain)
    quiet = await samples_of(real, volume=0.5)
    assert np.abs(quiet - plain / 2).max() <= 34


async def test_analysis_shows_the_reading(real):
    body = (await real.post("/v1/text/analysis", json={"input": "重庆银行有3家。"})).json()
    assert body["segments"][0]["pinyin"] == ["chong2", "qing4", "yin2", "hang2", "you3", "san1", "jia1"]
    assert body["segments"][0]["phones"][:2] == ["ch_c", "ong_c"]


async def test_nothing_to_speak(real):
    is_error(await real.post(SPEECH, json={"input": "。。。！"}), 400, "text_not_speakable", "input")
    is_error(await real.post("/tts", json={"text": "  "}), 400, "text_not_speakable", "text")


async def test_lists_and_readiness(real, pipeline):
    voices = (await real.get("/v1/audio/voices")).json()["voices"]
    assert [voice["id"] for voice in voices if voice["default"]] == ["demo"]
    assert {"neutral", "happy", "sad"} <= set(voices[0]["emotions"])
    assert (await real.get("/readyz")).status_code == 200
