"""From a request to its spoken segments: front end, cache, models; knows the models only as a function."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from deployments.errors import DeadlineExceeded, Overloaded
from deployments.messages import (
    AcousticRequest,
    Controls,
    Segment,
    SegmentAudio,
    SpeechRequest,
    SpokenSegment,
    TextAnalysis,
    VocoderRequest,
    VoiceInfo,
)
from deployments.metrics import Metrics
from deployments.normalization.analyser import Analyser
from deployments.normalization.cache.key import SegmentKey, key_of, noise_key
from deployments.normalization.cache.memo import TextMemo
from deployments.normalization.cache.segment_cache import SegmentCache
from deployments.normalization.cache.warmup import read_phrases, warm_up
from deployments.normalization.lexicons import Lexicons
from deployments.normalization.ordered import in_order
from deployments.normalization.parts import Parts
from deployments.normalization.text.frontend import FrontEnd
from deployments.normalization.voices import Voices
from deployments.settings import CacheSettings, NormalizerSettings
from deployments.voices.served import calm

Synthesise = Callable[[AcousticRequest, VocoderRequest], Awaitable[SegmentAudio]]
SynthesiseParts = Callable[[AcousticRequest, VocoderRequest], AsyncGenerator[SegmentAudio, None]]


class Deadline:
    """When a request's time is up.

    Args:
        timeout_s: Seconds from now, None for never.
    """

    def __init__(self, timeout_s: float | None) -> None:
        self._ends = None if timeout_s is None else time.monotonic() + timeout_s

    def remaining_s(self) -> float | None:
        """Seconds that are left, None without a limit.

        Raises:
            DeadlineExceeded: None are left.
        """
        if self._ends is None:
            return None
        remaining_s = self._ends - time.monotonic()
        if remaining_s <= 0:
            raise DeadlineExceeded("The request's time was up; send less text or raise ingress.request_timeout_s.")
        return remaining_s


class Speaker:
    """Speaks requests segment by segment. Belongs to one event loop.

    Args:
        settings: Segments, pauses, threads.
        cache: Tiers and bounds.
        voices: What is served, in order.
        synthesise: Takes one segment through both models.
        synthesise_parts: The same, with the samples in parts as they are made; the first part carries frames_T.
        model_version: Whatever else decides the samples beside the voice: part of the cache key.
        metrics: Gets what the cache counts, or None.
        lexicon_files: Lexicons that lie in the voices' folders, by name of the voice.

    Raises:
        ConfigurationInvalid: The cache settings, the warm-up file or a lexicon are wrong.
    """

    def __init__(
        self,
        settings: NormalizerSettings,
        cache: CacheSettings,
        voices: Sequence[VoiceInfo],
        synthesise: Synthesise,
        synthesise_parts: SynthesiseParts,
        model_version: str = "",
        metrics: Metrics | None = None,
        lexicon_files: Mapping[str, Path] | None = None,
    ) -> None:
        self._settings = settings
        self._voices = Voices(voices)
        self._synthesise = synthesise
        self._synthesise_parts = synthesise_parts
        self._model_version = f"{version('sambert-serve')} {model_version}"
        lexicons = Lexicons(settings, self._voices.names, lexicon_files or {})
        memo = TextMemo(cache.text_memo_bytes if cache.enabled else 0)
        self._analyser = Analyser(settings, self._voices, lexicons, memo, FrontEnd())
        self.cache = SegmentCache(cache, metrics)
        self._phrases = () if cache.warmup_file is None else read_phrases(Path(cache.warmup_file).expanduser())
        self._warmup_concurrency = cache.warmup_concurrency

    @property
    def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served, in order."""
        return self._voices.infos

    async def start(self) -> None:
        """Opens the cache, then speaks the phrases of the warm-up file."""
        await self.cache.start()
        await warm_up(self._phrases, self._speak_all, self._warmup_concurrency)

    async def close(self) -> None:
        """Writes what the cache still has to write."""
        await self.cache.close()
        self._analyser.close()

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """Yields the segments of a request in order, each as soon as it and all before it are done.

        With `stream` the first segment comes in parts while it is being made; those after it are made meanwhile.

        Raises:
            Overloaded: The request is cached_only and one of its segments would have to be made.
            SpeechError: The request is refused (before the first segment), or one of its segments failed.
        """
        deadline = Deadline(request.timeout_s)
        started = time.monotonic()
        base = self._voices.controls(request)
        analysis = await self._analyser.analyse(request)
        text_s = time.monotonic() - started
        if request.cached_only:
            for known in await self._known(request, base, analysis):
                yield replace(known, text_s=text_s if known.index == 0 else 0.0)
            return
        deadline.remaining_s()  # the text may have waited for its turn: nothing is begun for nobody
        parts = Parts() if request.stream else None

        async def make(index: int) -> SpokenSegment:
            segment = analysis.segments[index]
            if index > 0:
                return await self._spoken(request, base, segment, index, deadline)
            spoken = await self._spoken(request, base, segment, index, deadline, parts)
            return replace(spoken, text_s=text_s)

        async with aclosing(in_order(len(analysis.segments), make, self._settings.max_segments_ahead)) as spoken:
            if parts is not None:
                async with aclosing(parts.of(analysis.segments[0], spoken)) as first:
                    async for part in first:
                        yield part
            async for segment in spoken:
                yield segment

    async def analyse(self, text: str, voice: str | None, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking.

        Raises:
            VoiceNotFound: No such voice.
            MarkupInvalid: The text is SSML and wrong.
            TextNotSpeakable: Nothing in the text can be spoken.
        """
        emotion = calm(self._voices.find(voice))
        return await self._analyser.analyse(SpeechRequest(text=text, voice=voice, emotion=emotion, normalize=normalize))

    async def _spoken(
        self,
        request: SpeechRequest,
        base: Controls,
        segment: Segment,
        index: int,
        deadline: Deadline,
        parts: Parts | None = None,
    ) -> SpokenSegment:
        controls = segment.controls or base
        key = self._key(segment, controls)
        started = time.monotonic()
        made_s = 0.0

        async def make() -> SegmentAudio:
            nonlocal made_s
            make_started = time.monotonic()
            try:
                messages = self._messages(request, controls, segment, index, deadline, key)
                if parts is None:
                    return await self._synthesise(*messages)
                return await parts.collect(self._synthesise_parts(*messages))
            finally:
                made_s = time.monotonic() - make_started

        audio, source = await self.cache.get_or_make(key, make, bypass=not request.use_cache)
        cache_s = time.monotonic() - started - made_s
        return SpokenSegment(segment=segment, audio=audio, cache=source, index=index, cache_s=cache_s)

    async def _known(self, request: SpeechRequest, base: Controls, analysis: TextAnalysis) -> Sequence[SpokenSegment]:
        """All segments, from the cache."""
        found = []
        for index, segment in enumerate(analysis.segments):
            started = time.monotonic()
            known = await self.cache.find(self._key(segment, segment.controls or base)) if request.use_cache else None
            if known is None:
                raise Overloaded("There is no room for a text that is not in the cache; retry.", retry_after_s=1.0)
            audio, source = known
            cache_s = time.monotonic() - started
            found.append(SpokenSegment(segment=segment, audio=audio, cache=source, index=index, cache_s=cache_s))
        return found

    def _key(self, segment: Segment, controls: Controls) -> SegmentKey:
        return key_of(
            segment.symbols,
            self._voices.find(controls.voice),
            emotion_intensity=controls.emotion_intensity,
            speed=controls.speed,
            pitch=controls.pitch,
            version=self._model_version,
        )

    def _messages(
        self,
        request: SpeechRequest,
        controls: Controls,
        segment: Segment,
        index: int,
        deadline: Deadline,
        key: SegmentKey,
    ) -> tuple[AcousticRequest, VocoderRequest]:
        remaining_s = deadline.remaining_s()
        acoustic = AcousticRequest(
            voice=controls.voice,
            symbols=segment.symbols,
            emotion_intensity=controls.emotion_intensity,
            speed=controls.speed,
            pitch=controls.pitch,
            priority=index,
            request_id=request.request_id,
            timeout_s=remaining_s,
        )
        vocoder = VocoderRequest(
            voice=controls.voice,
            noise_key=noise_key(key),
            priority=index,
            request_id=request.request_id,
            timeout_s=remaining_s,
        )
        return acoustic, vocoder

    async def _speak_all(self, request: SpeechRequest) -> None:
        async with aclosing(self.speak(request)) as segments:
            async for _ in segments:
                pass
