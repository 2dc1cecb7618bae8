"""The real stages in this process, without Ray: front end, acoustic and vocoder engine, the bundled voice."""

import asyncio
from contextlib import aclosing

import torch

from deployments.acoustic.engine import AcousticEngine
from deployments.messages import AcousticRequest, SpokenSegment, StageStatus, VocoderRequest
from deployments.normalization.ordered import in_order
from deployments.normalization.planning import noise_key_of
from deployments.normalization.text.frontend import FrontEnd, Pauses
from deployments.settings import Settings
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.store import VoiceStore


class Pipeline:
    """A SpeechService of the real parts."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._settings = Settings()
        self._store = VoiceStore.open(self._settings.voices)
        folders = [self._store.folder(name) for name in self._store.names]
        self._front_end = FrontEnd()
        self._acoustic = AcousticEngine(folders, self._settings.acoustic, "cpu")
        self._vocoder = VocoderEngine(folders, self._settings.vocoder, "cpu")

    def close(self) -> None:
        self._acoustic.close()
        self._vocoder.close()

    async def speak(self, request):
        analysis = await self._read(request.text, request.voice, request.emotion, request.normalize)

        async def make(index):
            wanted = AcousticRequest(
                voice=request.voice,
                symbols=analysis.segments[index].symbols,
                emotion_intensity=request.emotion_intensity,
                speed=request.speed,
                pitch=request.pitch,
                priority=index,
                timeout_s=request.timeout_s,
            )
            mel = await self._acoustic.submit([wanted])[0].result()
            noise = VocoderRequest(voice=request.voice, noise_key=noise_key_of(wanted), priority=index)
            audio = await self._vocoder.submit([(noise, mel)])[0].result()
            return SpokenSegment(segment=analysis.segments[index], audio=audio, cache="miss", index=index)

        async with aclosing(in_order(len(analysis.segments), make, 8)) as spoken:
            async for segment in spoken:
                yield segment

    async def analyse(self, text, voice, normalize):
        return await self._read(text, voice, "neutral", normalize)

    async def voices(self):
        return self._store.infos

    async def stages(self):
        reasons = {"acoustic": self._acoustic.why_unhealthy(), "vocoder": self._vocoder.why_unhealthy()}
        return tuple(StageStatus(stage=stage, ready=not why, reason=why) for stage, why in reasons.items())

    async def _read(self, text, voice, emotion, normalize):
        info = next(info for info in self._store.infos if info.name == voice)
        settings = self._settings.normalizer
        return await asyncio.to_thread(
            self._front_end.analyse,
            text,
            normalize=normalize,
            emotion=emotion,
            speaker=info.speaker,
            max_segment_chars=settings.max_segment_chars,
            has_english=info.has_english,
            pauses=Pauses(),
        )
