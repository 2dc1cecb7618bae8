"""The whole work of a request in one process, without Ray and HTTP: what the graph is held against."""

from __future__ import annotations

import asyncio

from deployments.answers import Audio
from deployments.command import pipeline
from deployments.ingress.assemble import assemble, collect
from deployments.messages import SpeechRequest


class Pipeline(pipeline.Pipeline):
    """Front end, cache and both models behind one coroutine."""

    async def __aenter__(self) -> Pipeline:
        await super().__aenter__()
        return self

    async def spoken(self, request: SpeechRequest) -> Audio:
        """The samples of a request.

        Raises:
            SpeechError: The request was refused or failed.
        """
        segments = await collect(self.speak(request))
        return await asyncio.to_thread(assemble, segments, request.sample_rate_hz, request.volume)
