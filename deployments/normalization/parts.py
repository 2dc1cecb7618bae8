"""The first segment of a stream in parts: samples go out while the rest of the segment is being made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import numpy as np

from deployments.messages import Segment, SegmentAudio, SpokenSegment


class Parts:
    """Passes the parts of one segment from the task that makes it to the one that sends it.

    A segment that is found in the cache, or that another request is making, has no parts: it comes whole.
    """

    def __init__(self) -> None:
        self._made: asyncio.Queue[SegmentAudio] = asyncio.Queue()

    async def collect(self, parts: AsyncGenerator[SegmentAudio, None]) -> SegmentAudio:
        """Passes parts on as they come and returns the whole, for the cache.

        Args:
            parts: At least one; the first carries frames_T and acoustic_s.
        """
        collected = []
        async with aclosing(parts):
            async for part in parts:
                collected.append(part)
                self._made.put_nowait(part)
        pcm_S = np.concatenate([part.pcm_S for part in collected])
        return replace(collected[0], pcm_S=pcm_S, vocoder_s=sum(part.vocoder_s for part in collected))

    async def of(
        self, segment: Segment, spoken: AsyncGenerator[SpokenSegment, None]
    ) -> AsyncGenerator[SpokenSegment, None]:
        """The first segment in parts; the last part holds what was not sent before, and how the segment was had.

        Args:
            segment: The first one.
            spoken: All segments; the first is taken from it.
        """
        whole = asyncio.ensure_future(anext(spoken))
        num_parts = num_samples = 0
        try:
            while True:
                next_part = asyncio.ensure_future(self._made.get())
                await asyncio.wait((whole, next_part), return_when=asyncio.FIRST_COMPLETED)
                if not next_part.done():
                    next_part.cancel()
                    break
                audio = next_part.result()
                yield SpokenSegment(segment=segment, audio=audio, cache="miss", index=0, part=num_parts, is_last=False)
                num_parts += 1
                num_samples += len(audio.pcm_S)
            last = await whole
            yield replace(last, part=num_parts, audio=replace(last.audio, pcm_S=last.audio.pcm_S[num_samples:]))
        finally:
            whole.cancel()
            await asyncio.gather(whole, return_exceptions=True)
