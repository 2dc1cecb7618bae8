"""The whole path in one process: streamed equals whole, sound starts early, leaving frees the models."""

import asyncio
from contextlib import aclosing

import numpy as np
import pytest

from deployments.command.pipeline import Pipeline
from deployments.messages import SpeechRequest
from deployments.settings import Settings

ROUNDING = 33  # 1e-3 of full scale
TEXT = "今天天气怎么样，我们一起去公园散步吧。晚上再回家吃饭。"


@pytest.fixture(scope="module")
def settings():
    return Settings.load({"cache": {"tier": "none"}})


async def spoken(pipeline, **request):
    async with aclosing(pipeline.speak(SpeechRequest(text=TEXT, use_cache=False, **request))) as segments:
        return [segment async for segment in segments]


@pytest.mark.parametrize("speed", [1.0, 0.7])
async def test_streamed_equals_whole(settings, speed):
    async with Pipeline(settings) as pipeline:
        whole = await spoken(pipeline, speed=speed)
        streamed, other = await asyncio.gather(
            spoken(pipeline, speed=speed, stream=True), spoken(pipeline, emotion="happy", stream=True)
        )
    assert len(whole) == 2
    assert [part.index for part in streamed].count(0) > 1
    assert [part.is_last for part in streamed].count(True) == 2
    assert other[-1].is_last
    joined, expected = (np.concatenate([part.audio.pcm_S for part in parts]) for parts in (streamed, whole))
    assert joined.shape == expected.shape
    assert np.abs(joined.astype(int) - expected).max() <= ROUNDING
    last = [part for part in streamed if part.is_last]
    assert [part.audio.frames_T.tolist() for part in last] == [part.audio.frames_T.tolist() for part in whole]


async def test_leaving_a_stream_frees_the_models(settings):
    async with Pipeline(settings) as pipeline:
        before = asyncio.all_tasks()
        async with aclosing(pipeline.speak(SpeechRequest(text=TEXT * 10, use_cache=False, stream=True))) as segments:
            await anext(segments)
        again = await asyncio.wait_for(spoken(pipeline), 10)
        assert len(again) == 2
        assert asyncio.all_tasks() == before
