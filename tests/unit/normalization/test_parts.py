"""Parts of the first segment: what is sent in parts joins to the whole, however the segment is had."""

import asyncio
from contextlib import aclosing

import numpy as np
import pytest

from deployments.messages import Segment, SegmentAudio, SpokenSegment
from deployments.normalization.parts import Parts

SEGMENT = Segment(text="好", normalized="好", words=(), symbols="{}", pause_s=0.1)


def audio(*samples):
    frames = np.array([len(samples)], np.int32)
    return SegmentAudio(pcm_S=np.array(samples, np.int16), sample_rate_hz=16000, frames_T=frames)


async def spoken_from(make):
    yield SpokenSegment(segment=SEGMENT, audio=await make(), cache="miss", index=0)


async def made_in_parts():
    for samples in ((1, 2), (3,), (4, 5)):
        await asyncio.sleep(0)
        yield audio(*samples)


async def test_parts_join_to_the_whole():
    parts = Parts()
    sent = [part async for part in parts.of(SEGMENT, spoken_from(lambda: parts.collect(made_in_parts())))]
    assert np.concatenate([part.audio.pcm_S for part in sent]).tolist() == [1, 2, 3, 4, 5]
    assert [part.is_last for part in sent] == [False] * (len(sent) - 1) + [True]
    assert [part.part for part in sent] == list(range(len(sent)))
    assert len(sent) > 1


async def test_a_segment_from_the_cache_comes_whole():
    async def cached():
        return audio(1, 2, 3)

    (only,) = [part async for part in Parts().of(SEGMENT, spoken_from(cached))]
    assert only.is_last
    assert only.audio.pcm_S.tolist() == [1, 2, 3]


async def test_a_fault_after_the_first_part_is_raised_after_it():
    async def failing():
        yield audio(1, 2)
        raise ValueError("no more")

    parts = Parts()
    seen = []
    with pytest.raises(ValueError, match="no more"):
        async for part in parts.of(SEGMENT, spoken_from(lambda: parts.collect(failing()))):
            seen.append(part)
    assert [part.audio.pcm_S.tolist() for part in seen] == [[1, 2]]


async def test_leaving_stops_the_work():
    stopped = asyncio.Event()

    async def endless():
        try:
            yield audio(1)
            await asyncio.Event().wait()
        finally:
            stopped.set()

    parts = Parts()
    async with aclosing(parts.of(SEGMENT, spoken_from(lambda: parts.collect(endless())))) as sent:
        assert (await anext(sent)).audio.pcm_S.tolist() == [1]
    assert stopped.is_set()
    assert len(asyncio.all_tasks()) == 1
