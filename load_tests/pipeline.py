"""The whole work of a request in one process, without Ray and HTTP: what the graph is held against."""

from __future__ import annotations

import asyncio

import torch

from deployments.acoustic.engine import AcousticEngine
from deployments.ingress.assemble import assemble, collect
from deployments.messages import AcousticRequest, Audio, SegmentAudio, SpeechRequest, VocoderRequest
from deployments.normalization.speaker import Speaker
from deployments.settings import Settings
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.store import VoiceStore


class Pipeline:
    """Front end, cache and both models behind one coroutine; an asynchronous context manager.

    Args:
        settings: As of the application that it is compared with.
    """

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(settings.vocoder.threads)
        store = VoiceStore.open(settings.voices)
        self._acoustic = AcousticEngine(store.folders, settings.acoustic, "cpu")
        self._vocoder = VocoderEngine(store.folders, settings.vocoder, "cpu")
        self._speaker = Speaker(settings.normalizer, settings.cache, store.infos, self._synthesise)

    async def __aenter__(self) -> Pipeline:
        await self._speaker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._speaker.close()
        self._acoustic.close()
        self._vocoder.close()

    async def speak(self, request: SpeechRequest) -> Audio:
        """The samples of a request.

        Raises:
            SpeechError: The request was refused or failed.
        """
        segments = await collect(self._speaker.speak(request))
        return await asyncio.to_thread(assemble, segments, request.sample_rate_hz, request.volume)

    async def _synthesise(self, acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
        mel = await self._acoustic.submit([acoustic])[0].result()
        return await self._vocoder.submit([(vocoder, mel)])[0].result()
