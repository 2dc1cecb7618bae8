"""The Python handle: the checks and samples of HTTP."""

import asyncio

import numpy as np
import pytest
from ingress_double import Tones, tone

from deployments.errors import DeadlineExceeded, InvalidRequest, TextNotSpeakable, TooLarge, VoiceNotFound
from deployments.ingress.handle import stream, synthesize
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

PCM = np.concatenate([tone(3200), np.zeros(4000, np.int16), tone(3200)])
SETTINGS = IngressSettings()


async def test_synthesize():
    tones = Tones()
    audio = await synthesize(tones, SETTINGS, SpeechRequest(text="您好，欢迎", emotion="开心"))
    np.testing.assert_array_equal(audio.pcm, PCM)
    assert (audio.sample_rate_hz, audio.cache, len(audio.segments)) == (16000, "miss", 2)
    assert tones.requests[0].emotion == "happy"
    assert len(tones.requests[0].request_id) == 32


async def test_stream():
    pieces = [piece async for piece in stream(Tones(), SETTINGS, SpeechRequest(text="您好，欢迎"))]
    assert [len(piece) for piece in pieces] == [6400, 8000 + 6400]
    assert b"".join(pieces) == PCM.tobytes()


async def test_leaving_a_stream_ends_its_work():
    tones = Tones()
    pieces = stream(tones, SETTINGS, SpeechRequest(text="您好，欢迎"))
    await anext(pieces)
    assert not tones.closed.is_set()
    await pieces.aclose()
    assert tones.closed.is_set()


@pytest.mark.parametrize(
    ("request_", "kind", "param"),
    [
        (SpeechRequest(text=""), InvalidRequest, "text"),
        (SpeechRequest(text="字" * 4097), TooLarge, "text"),
        (SpeechRequest(text="！"), TextNotSpeakable, "text"),
        (SpeechRequest(text="好", voice="x"), VoiceNotFound, "voice"),
        (SpeechRequest(text="好", speed=9), InvalidRequest, "speed"),
    ],
)
async def test_refusals(request_, kind, param):
    with pytest.raises(kind) as caught:
        await synthesize(Tones(), SETTINGS, request_)
    assert caught.value.param == param
    with pytest.raises(kind):
        await anext(stream(Tones(), SETTINGS, request_))


async def test_time_limit():
    tones = Tones()
    tones.hold = asyncio.Event()
    with pytest.raises(DeadlineExceeded):
        await synthesize(tones, SETTINGS, SpeechRequest(text="好", timeout_s=0.02))
    assert tones.closed.is_set()
