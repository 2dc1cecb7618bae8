"""The whole path in this process, without Ray: front end, cache and both engines behind the ingress's own interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

import torch

from deployments.acoustic.engine import AcousticEngine
from deployments.messages import (
    AcousticRequest,
    SegmentAudio,
    SpeechRequest,
    SpokenSegment,
    StageStatus,
    TextAnalysis,
    VocoderRequest,
    VoiceInfo,
)
from deployments.normalization.speaker import Speaker
from deployments.settings import Settings
from deployments.vocoder.engine import VocoderEngine
from deployments.vocoder.parts import vocode_chunks
from deployments.voices.store import VoiceStore

JOIN_S = 10.0


class Pipeline:
    """A SpeechService (ingress.service) of one process; an asynchronous context manager.

    Args:
        settings: As of the Serve application; replicas do not count here.

    Raises:
        ConfigurationInvalid: The settings do not fit each other or a voice.
        VoiceInvalid: A voice cannot be loaded.
    """

    def __init__(self, settings: Settings) -> None:
        torch.set_num_threads(max(settings.acoustic.threads, settings.vocoder.threads))
        store = VoiceStore.open(settings.voices)
        device = "cpu" if settings.acoustic.device == "auto" else settings.acoustic.device
        self._acoustic = AcousticEngine(store.folders, settings.acoustic, device)
        self._vocoder = VocoderEngine(store.folders, settings.vocoder, device)
        self._speaker = Speaker(
            settings.normalizer,
            settings.cache,
            store.infos,
            self._synthesise,
            self._synthesise_parts,
            lexicon_files=store.lexicon_files,
        )

    async def __aenter__(self) -> Pipeline:
        await self._speaker.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._speaker.close()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Gives the engines' threads back; what is in progress is finished, what waits fails."""
        engines = (self._acoustic, self._vocoder)
        for engine in engines:
            engine.close()
        for engine in engines:  # a process that ends under a thread of a runtime crashes
            engine.join(JOIN_S)

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """Yields the segments of a request in order; see Speaker.speak."""
        async with aclosing(self._speaker.speak(request)) as segments:
            async for segment in segments:
                yield segment

    async def analyse(self, text: str, voice: str | None, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking."""
        return await self._speaker.analyse(text, voice, normalize)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices, in order."""
        return self._speaker.voices

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each engine can serve."""
        reasons = {"acoustic": self._acoustic.why_unhealthy(), "vocoder": self._vocoder.why_unhealthy()}
        return tuple(StageStatus(stage=stage, ready=not reason, reason=reason) for stage, reason in reasons.items())

    async def purge(self, voice: str | None) -> int:
        """Forgets the cached segments of a voice, or all."""
        return await self._speaker.cache.purge(voice)

    async def _synthesise(self, acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
        mel = await self._acoustic.submit([acoustic])[0].result()
        return await self._vocoder.submit([(vocoder, mel)])[0].result()

    async def _synthesise_parts(
        self, acoustic: AcousticRequest, vocoder: VocoderRequest
    ) -> AsyncGenerator[SegmentAudio, None]:
        chunks = self._acoustic.submit([replace(acoustic, stream=True)])[0].chunks()
        async with aclosing(vocode_chunks(self._vocoder, vocoder, chunks)) as parts:
            async for part in parts:
                yield part
