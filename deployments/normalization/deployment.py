"""The Normalizer deployment: text in, spoken segments out, in order; the only stage that calls the models."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from typing import Any

from ray.serve.handle import DeploymentHandle

from deployments.deployment import result_of
from deployments.errors import DeadlineExceeded, ReplicaLost, SpeechError
from deployments.messages import (
    AcousticRequest,
    Segment,
    SegmentAudio,
    SpeechRequest,
    SpokenSegment,
    StageStatus,
    TextAnalysis,
    VocoderRequest,
    VoiceInfo,
)
from deployments.normalization.ordered import in_order
from deployments.normalization.planning import check_emotion, noise_key_of, voice_named
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.settings import NormalizerSettings, VoicesSettings
from deployments.voices.store import VoiceStore

log = logging.getLogger(__name__)
STATUS_TIMEOUT_S = 5.0


class Normalizer:
    """Text front end: turns text into segments of symbols and hands them to the models, several at once, in order."""

    def __init__(
        self,
        settings: NormalizerSettings,
        voices: VoicesSettings,
        acoustic: DeploymentHandle[Any],
        vocoder: DeploymentHandle[Any],
    ) -> None:
        self._settings = settings
        self._acoustic = acoustic
        self._vocoder = vocoder
        self._infos = {info.name: info for info in VoiceStore.open(voices).infos}
        self._pauses = Pauses(
            sentence_s=settings.pause_sentence_s,
            clause_s=settings.pause_clause_s,
            paragraph_s=settings.pause_paragraph_s,
        )
        self._front_end = FrontEnd()
        self._threads = ThreadPoolExecutor(settings.text_threads, thread_name_prefix="front-end")

    async def speak(self, request: SpeechRequest) -> AsyncIterator[SpokenSegment]:
        """Yields the segments of a request in order, each as soon as it and all before it are done.

        Raises:
            SpeechError: The request is refused (before the first segment), or one of its segments failed.
        """
        deadline = None if request.timeout_s is None else time.monotonic() + request.timeout_s
        started = time.monotonic()
        voice = self._voice(request.voice)
        emotion = check_emotion(voice, request.emotion)
        analysis = await self._analyse(request.text, voice, emotion, request.normalize)
        text_s = time.monotonic() - started
        segments = analysis.segments

        async def make(index: int) -> SpokenSegment:
            audio = await self._synthesise(request, voice, segments[index], index, deadline)
            cache = "miss" if request.use_cache else "bypass"
            return SpokenSegment(
                segment=segments[index], audio=audio, cache=cache, index=index, text_s=text_s if index == 0 else 0.0
            )

        async with aclosing(in_order(len(segments), make, self._settings.max_segments_ahead)) as spoken:
            async for segment in spoken:
                yield segment

    async def analyse(self, text: str, voice: str | None, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking.

        Raises:
            VoiceNotFound: No such voice.
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        info = self._voice(voice)
        return await self._analyse(text, info, check_emotion(info, "neutral"), normalize)

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served, in order."""
        return tuple(self._infos.values())

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each stage behind the ingress can serve."""
        models = await asyncio.gather(self._status("acoustic", self._acoustic), self._status("vocoder", self._vocoder))
        return (StageStatus(stage="normalizer", ready=True), *models)

    async def _status(self, stage: str, handle: DeploymentHandle[Any]) -> StageStatus:
        try:
            status: StageStatus = await asyncio.wait_for(result_of(handle.status.remote()), STATUS_TIMEOUT_S)
        except TimeoutError:
            return StageStatus(stage=stage, ready=False, reason=f"no answer within {STATUS_TIMEOUT_S} s")
        except SpeechError as error:
            return StageStatus(stage=stage, ready=False, reason=error.message)
        return status

    def _voice(self, name: str | None) -> VoiceInfo:
        return voice_named(self._infos, name)

    async def _analyse(self, text: str, voice: VoiceInfo, emotion: str, normalize: bool) -> TextAnalysis:
        work = partial(
            self._front_end.analyse,
            text,
            normalize=normalize,
            emotion=emotion,
            speaker=voice.speaker,
            max_segment_chars=self._settings.max_segment_chars,
            has_english=voice.has_english,
            pauses=self._pauses,
        )
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _synthesise(
        self, request: SpeechRequest, voice: VoiceInfo, segment: Segment, index: int, deadline: float | None
    ) -> SegmentAudio:
        """One segment through both models; sent again when a replica dies under it, since it has no side effects."""
        for attempt in range(1, self._settings.max_attempts + 1):
            remaining_s = None if deadline is None else deadline - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                raise DeadlineExceeded("The request's time was up; ask for less or raise request_timeout_s.")
            try:
                return await self._through_models(request, voice, segment, index, remaining_s)
            except ReplicaLost:
                if attempt == self._settings.max_attempts:
                    raise
                log.warning("request %s: a replica died under segment %d; sending again", request.request_id, index)
        raise AssertionError("max_attempts is at least 1")

    async def _through_models(
        self, request: SpeechRequest, voice: VoiceInfo, segment: Segment, index: int, timeout_s: float | None
    ) -> SegmentAudio:
        acoustic_request = AcousticRequest(
            voice=voice.name,
            symbols=segment.symbols,
            emotion_intensity=request.emotion_intensity,
            speed=request.speed,
            pitch=request.pitch,
            priority=index,
            request_id=request.request_id,
            timeout_s=timeout_s,
        )
        vocoder_request = VocoderRequest(
            voice=voice.name,
            noise_key=noise_key_of(acoustic_request),
            priority=index,
            request_id=request.request_id,
            timeout_s=timeout_s,
        )
        mel: Any = self._acoustic.infer.remote(acoustic_request)
        try:
            audio: SegmentAudio = await result_of(self._vocoder.vocode.remote(vocoder_request, mel))
        except BaseException:
            mel.cancel()
            raise
        return audio
