"""The Ingress deployment: HTTP and the Python handle in front of the graph."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from deployments.answers import Audio
from deployments.deployment import RayMetrics, inline, items_of, log_to_serve, result_of, translate
from deployments.errors import DeadlineExceeded, SpeechError
from deployments.ingress import handle
from deployments.ingress.admission import ADMISSION, Admission
from deployments.ingress.admitted import Admitted
from deployments.ingress.observed import ObservedHttp, observed
from deployments.ingress.routes import build_app
from deployments.messages import SpeechRequest, SpokenSegment, StageStatus, TextAnalysis, VoiceInfo
from deployments.metrics import HTTP, LOAD, SPEECH, Gauging
from deployments.settings import CacheSettings, IngressSettings


class Ingress:
    """HTTP surface: validates requests and encodes answers; also the handle of Python callers (synthesize, stream)."""

    def __init__(self, settings: IngressSettings, cache: CacheSettings, normalizer: DeploymentHandle[Any]) -> None:
        log_to_serve()
        self._metrics = RayMetrics((*HTTP, *SPEECH, *LOAD, *ADMISSION))
        self._in_progress = Gauging(self._metrics, "in_progress", {"stage": "ingress"})
        self._settings = settings
        self._admission = Admission(settings, self._metrics)
        self._admitted = Admitted(self, self._admission)
        self._cache = cache
        self._normalizer = inline(normalizer)
        self._normalizer_stream = inline(normalizer, stream=True)
        self._voices: tuple[VoiceInfo, ...] = ()
        self._voices_age_from = float("-inf")

    def __serve_build_asgi_app__(self) -> ASGIApp:
        app = build_app(self, self._settings, cache=self._cache, admission=self._admission, adds_request_id=False)
        app.add_middleware(ObservedHttp, metrics=self._metrics)
        return app

    async def synthesize(self, request: SpeechRequest) -> Audio:
        """The whole answer for a Python caller.

        Raises:
            SpeechError: The request was refused, failed or ran out of time.
        """
        return await handle.synthesize(self._admitted, self._settings, request)

    async def stream(self, request: SpeechRequest) -> AsyncGenerator[bytes, None]:
        """16 bit PCM in pieces for a Python caller, each as soon as it is spoken.

        Raises:
            SpeechError: The request was refused (before the first piece), failed or ran out of time.
        """
        async with aclosing(handle.stream(self._admitted, self._settings, request)) as pieces:
            async for piece in pieces:
                yield piece

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        """Yields the segments of a checked request in order."""
        timeout_s = request.timeout_s or self._settings.request_timeout_s
        message = dataclasses.replace(request, timeout_s=timeout_s)
        segments = items_of(self._normalizer_stream.speak.remote(message))
        with self._in_progress:
            async with aclosing(observed(segments, request, self._voices, self._metrics)) as spoken:
                async for segment in spoken:
                    yield segment

    async def analyse(self, text: str, voice: str, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking."""
        analysis: TextAnalysis = await result_of(self._normalizer.analyse.remote(text, voice, normalize))
        return analysis

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served, in order; at most voices_refresh_s old, so that updates are followed."""
        now = time.monotonic()
        if now - self._voices_age_from > self._settings.voices_refresh_s:
            self._voices = await result_of(self._normalizer.voices.remote())
            self._voices_age_from = now
        return self._voices

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each stage can serve."""
        try:
            stages: tuple[StageStatus, ...] = await result_of(self._normalizer.stages.remote())
        except SpeechError as error:
            return (StageStatus(stage="normalizer", ready=False, reason=error.message),)
        return stages

    async def purge(self, voice: str | None) -> int:
        """Forgets the cached segments of a voice, or all, in every replica; returns how many entries were removed."""
        limit_s = self._settings.request_timeout_s
        try:
            removed = await self._normalizer.broadcast("purge", voice).results_async(timeout_s=limit_s)
        except TimeoutError:
            raise DeadlineExceeded(f"Not every replica purged its cache within {limit_s:g} s. Send it again.") from None
        except Exception as error:
            raise translate(error) from None
        return sum(removed)
