"""Controls and SSML with the real models: fields, markup, streams and batches are one sound."""

import asyncio

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deployments.command.pipeline import Pipeline
from deployments.ingress.assemble import assemble
from deployments.messages import SpeechRequest
from deployments.settings import Settings

ROUNDING = 33  # DESIGN.md's bound of 1e-3 of full scale
RATE_HZ = 16000


@pytest.fixture(scope="module")
def runner():
    """One event loop and one pipeline for all tests here."""
    with asyncio.Runner() as loop:
        made = loop.run(Pipeline(Settings.load({"cache": {"tier": "none"}})).__aenter__())
        yield lambda *requests: loop.run(answers(made, *requests))
        loop.run(made.__aexit__())


async def answers(pipeline, *requests):
    """The answers to requests that are in progress at once."""
    return await asyncio.gather(*(answer(pipeline, request) for request in requests))


async def answer(pipeline, request):
    spoken = [segment async for segment in pipeline.speak(request)]
    return assemble(spoken, request.sample_rate_hz, request.volume)


def assert_same(one, other):
    assert len(one.pcm) == len(other.pcm)
    assert np.abs(one.pcm.astype(int) - other.pcm).max() <= ROUNDING


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    speed=st.floats(0.5, 2.0).map(lambda speed: round(speed, 2)),
    pitch=st.integers(-6, 6),
    intensity=st.floats(0.1, 2.0).map(lambda intensity: round(intensity, 2)),
    volume=st.floats(0.1, 2.0).map(lambda volume: round(volume, 2)),
    emotion=st.sampled_from(["neutral", "happy", "sad"]),
)
def test_random_controls_are_heard_alike_everywhere(runner, speed, pitch, intensity, volume, emotion):
    request = SpeechRequest(
        text="今天很好。我们走吧。",
        emotion=emotion,
        emotion_intensity=intensity,
        speed=speed,
        pitch=pitch,
        volume=volume,
        use_cache=False,
    )
    markup = SpeechRequest(
        text=f'<speak rate="{100 * speed:.2f}%" pitch="{pitch:+}st" volume="{100 * volume:.2f}%">'
        f'<emotion category="{emotion}" intensity="{intensity}">{request.text}</emotion></speak>',
        use_cache=False,
    )
    (alone,) = runner(request)
    others = runner(
        SpeechRequest(text="这是别人的话。", use_cache=False),
        request,
        SpeechRequest(**{**{name: getattr(request, name) for name in request.__slots__}, "stream": True}),
        markup,
        SpeechRequest(**{**{name: getattr(markup, name) for name in markup.__slots__}, "stream": True}),
    )
    for other in others[1:]:
        assert_same(alone, other)
        assert [segment.text for segment in other.segments] == [segment.text for segment in alone.segments]
        assert [segment.end_s for segment in other.segments] == [segment.end_s for segment in alone.segments]


def test_spans_sound_like_the_same_text_alone(runner):
    first, second = SpeechRequest(text="今天很好", emotion="happy"), SpeechRequest(text="我们走吧", speed=2.0)
    markup = SpeechRequest(
        text='<speak><emotion category="开心">今天很好</emotion><break time="700ms"/>'
        '<prosody rate="500">我们走吧</prosody></speak>'
    )
    one, other = runner(first, second)
    (both,) = runner(markup)
    silence = np.zeros(round(0.7 * RATE_HZ), np.int16)
    np.testing.assert_array_equal(both.pcm, np.concatenate([one.pcm, silence, other.pcm]))
    assert both.cache == "hit"
    start_s = (len(one.pcm) + len(silence)) / RATE_HZ
    assert both.segments[1].start_s == pytest.approx(start_s)
    assert both.segments[1].words[0].start_s == pytest.approx(start_s + other.segments[0].words[0].start_s)
    assert [segment.text for segment in both.segments] == ["今天很好", "我们走吧"]


def test_volume_of_a_span(runner):
    loud, quiet = runner(
        SpeechRequest(text="今天很好"), SpeechRequest(text='<speak volume="25">今天很好</speak>', volume=2.0)
    )
    assert np.abs(quiet.pcm * 2 - loud.pcm.astype(int)).max() <= 1


def test_a_fixed_reading_is_heard(runner):
    requests = [
        SpeechRequest(text=text)
        for text in ("银行", "银型", '<speak>银<phoneme ph="xing2">行</phoneme></speak>', "银行[xing2]")
    ]
    usual, other, markup, inline = runner(*requests)
    np.testing.assert_array_equal(markup.pcm, inline.pcm)
    assert len(markup.pcm) != len(usual.pcm) or np.abs(markup.pcm.astype(int) - usual.pcm).max() > 1000
    assert markup.segments[0].words[-1].pinyin[-1] == other.segments[0].words[-1].pinyin[-1] == "xing2"
