"""The Normalizer deployment: text in, spoken segments out, in order; the only stage that calls the models."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ray.serve.handle import DeploymentHandle

from deployments.deployment import RayMetrics, answering, inline, items_of, log_to_serve, result_of
from deployments.errors import DeadlineExceeded, ReplicaLost, SpeechError
from deployments.messages import (
    AcousticRequest,
    MelSpectrogram,
    SegmentAudio,
    SpeechRequest,
    SpokenSegment,
    StageStatus,
    TextAnalysis,
    VocoderRequest,
    VoiceInfo,
)
from deployments.metrics import LOAD, RETRIES, Gauging
from deployments.normalization.cache.metrics import METRICS as CACHE
from deployments.normalization.speaker import Speaker
from deployments.settings import CacheSettings, NormalizerSettings, VoicesSettings
from deployments.voices.store import VoiceStore

log = logging.getLogger(__name__)
STATUS_TIMEOUT_S = 4.0


class Normalizer:
    """Text front end and cache: turns text into segments and has each spoken by the models or found in the cache."""

    def __init__(
        self,
        settings: NormalizerSettings,
        cache: CacheSettings,
        voices: VoicesSettings,
        acoustic: DeploymentHandle[Any],
        vocoder: DeploymentHandle[Any],
    ) -> None:
        log_to_serve()
        self._max_attempts = settings.max_attempts
        self._acoustic = inline(acoustic)
        self._vocoder = inline(vocoder)
        self._vocoder_stream = inline(vocoder, stream=True)
        self._metrics = RayMetrics((*CACHE, *LOAD, *RETRIES))
        self._in_progress = Gauging(self._metrics, "in_progress", {"stage": "normalizer"})
        store = VoiceStore.open(voices)
        self._speaker = Speaker(
            settings,
            cache,
            store.infos,
            self._synthesise,
            self._synthesise_parts,
            metrics=self._metrics,
            lexicon_files=store.lexicon_files,
        )
        self._starting: asyncio.Task[None] | None = None

    async def reconfigure(self, _user_config: dict[str, Any]) -> None:
        """Called by Serve once the event loop runs: begins the upkeep of the cache and the warm-up."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._speaker.start())

    @answering
    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """Yields the segments of a request in order, each as soon as it and all before it are done.

        Raises:
            SpeechError: The request is refused (before the first segment), or one of its segments failed.
        """
        with self._in_progress:
            async with aclosing(self._speaker.speak(request)) as segments:
                async for segment in segments:
                    yield segment

    @answering
    async def analyse(self, text: str, voice: str | None, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking."""
        return await self._speaker.analyse(text, voice, normalize)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served, in order."""
        return self._speaker.voices

    async def purge(self, voice: str | None) -> int:
        """Forgets the cached segments of a voice, or all; returns how many entries were removed."""
        return await self._speaker.cache.purge(voice)

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each stage behind the ingress can serve."""
        models = await asyncio.gather(self._status("acoustic", self._acoustic), self._status("vocoder", self._vocoder))
        return (StageStatus(stage="normalizer", ready=True), *models)

    async def __del__(self) -> None:
        """Called by Serve when the replica stops: what the cache still has to write is written."""
        if hasattr(self, "_speaker"):
            await self._speaker.close()

    async def _status(self, stage: str, handle: DeploymentHandle[Any]) -> StageStatus:
        try:
            status: StageStatus = await asyncio.wait_for(result_of(handle.status.remote()), STATUS_TIMEOUT_S)
        except TimeoutError:
            return StageStatus(stage=stage, ready=False, reason=f"no answer within {STATUS_TIMEOUT_S} s")
        except SpeechError as error:
            return StageStatus(stage=stage, ready=False, reason=error.message)
        return status

    async def _synthesise(self, acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
        """One segment through both models; sent again when a replica dies under it, since it has no side effects."""
        started = time.monotonic()
        for attempt in range(1, self._max_attempts + 1):
            try:
                return await self._through_models(*_shortened(acoustic, vocoder, time.monotonic() - started))
            except ReplicaLost:
                if attempt == self._max_attempts:
                    raise
                self._send_again(acoustic, "segment")
        raise AssertionError("max_attempts is at least 1")

    async def _synthesise_parts(
        self, acoustic: AcousticRequest, vocoder: VocoderRequest
    ) -> AsyncGenerator[SegmentAudio, None]:
        """As _synthesise, in parts; when a replica dies, what was already sent is made again and skipped."""
        started = time.monotonic()
        num_sent = 0
        for attempt in range(1, self._max_attempts + 1):
            num_made = 0
            messages = _shortened(acoustic, vocoder, time.monotonic() - started)
            try:
                async with aclosing(items_of(self._vocoder_stream.vocode_stream.remote(*reversed(messages)))) as parts:
                    async for part in parts:
                        num_skipped = min(max(0, num_sent - num_made), len(part.pcm_S))
                        num_made += len(part.pcm_S)
                        if num_skipped < len(part.pcm_S):
                            num_sent = num_made
                            yield replace(part, pcm_S=part.pcm_S[num_skipped:])
                    return
            except ReplicaLost:
                if attempt == self._max_attempts:
                    raise
                self._send_again(acoustic, "stream")

    def _send_again(self, request: AcousticRequest, what: str) -> None:
        self._metrics.count("segments_sent_again", 1, {})
        log.warning("request %s: a replica died under a %s; sending it again", request.request_id, what)

    async def _through_models(self, acoustic: AcousticRequest, vocoder: VocoderRequest) -> SegmentAudio:
        """The mel spectrogram is awaited here, since Serve copies inline messages through this process anyway.

        Passing the response on instead would make Serve 2.60 try for ever, without a pause, to send it when the replica
        that works on it dies.
        """
        mel: MelSpectrogram = await result_of(self._acoustic.infer.remote(acoustic))
        audio: SegmentAudio = await result_of(self._vocoder.vocode.remote(vocoder, mel))
        return audio


def _shortened(
    acoustic: AcousticRequest, vocoder: VocoderRequest, elapsed_s: float
) -> tuple[AcousticRequest, VocoderRequest]:
    """The messages with what is left of the request's time.

    Raises:
        DeadlineExceeded: Nothing is left.
    """
    if acoustic.timeout_s is None:
        return acoustic, vocoder
    left_s = acoustic.timeout_s - elapsed_s
    if left_s <= 0:
        raise DeadlineExceeded("The request's time was up while it was sent again; retry.")
    return replace(acoustic, timeout_s=left_s), replace(vocoder, timeout_s=left_s)
