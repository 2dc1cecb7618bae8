"""The real stages in this process, without Ray: speaker with its cache, both engines, the bundled voice."""

from contextlib import aclosing

import torch

from deployments.acoustic.engine import AcousticEngine
from deployments.messages import StageStatus
from deployments.normalization.speaker import Speaker
from deployments.settings import CacheSettings, Settings
from deployments.vocoder.engine import VocoderEngine
from deployments.voices.store import VoiceStore


class Pipeline:
    """A SpeechService of the real parts; what it has spoken it keeps in memory."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        settings = Settings(cache=CacheSettings(tier="none"))
        store = VoiceStore.open(settings.voices)
        folders = [store.folder(name) for name in store.names]
        self._acoustic = AcousticEngine(folders, settings.acoustic, "cpu")
        self._vocoder = VocoderEngine(folders, settings.vocoder, "cpu")
        self._speaker = Speaker(settings.normalizer, settings.cache, store.infos, self._synthesise)

    def close(self) -> None:
        self._acoustic.close()
        self._vocoder.close()

    async def speak(self, request):
        async with aclosing(self._speaker.speak(request)) as segments:
            async for segment in segments:
                yield segment

    async def analyse(self, text, voice, normalize):
        return await self._speaker.analyse(text, voice, normalize)

    async def voices(self):
        return self._speaker.voices

    async def stages(self):
        reasons = {"acoustic": self._acoustic.why_unhealthy(), "vocoder": self._vocoder.why_unhealthy()}
        return tuple(StageStatus(stage=stage, ready=not why, reason=why) for stage, why in reasons.items())

    async def purge(self, voice):
        return await self._speaker.cache.purge(voice)

    async def _synthesise(self, acoustic, vocoder):
        mel = await self._acoustic.submit([acoustic])[0].result()
        return await self._vocoder.submit([(vocoder, mel)])[0].result()
