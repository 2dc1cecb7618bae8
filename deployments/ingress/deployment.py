"""The Ingress deployment: HTTP and the Python handle in front of the graph."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import aclosing

from ray.serve.handle import DeploymentHandle
from starlette.types import ASGIApp

from deployments.deployment import items_of, result_of
from deployments.errors import SpeechError
from deployments.ingress.assemble import Assembly
from deployments.ingress.routes import build_app
from deployments.messages import Audio, SpeechRequest, SpokenSegment, StageStatus, TextAnalysis, VoiceInfo
from deployments.settings import IngressSettings

STATUS_TIMEOUT_S = 8.0


class Ingress:
    """HTTP surface: validates requests, encodes answers; also the handle for Python callers (synthesize, stream)."""

    def __init__(self, settings: IngressSettings, normalizer: DeploymentHandle) -> None:
        self._settings = settings
        self._normalizer = normalizer

    def __serve_build_asgi_app__(self) -> ASGIApp:
        return build_app(self, self._settings)

    async def speak(self, request: SpeechRequest) -> AsyncIterator[SpokenSegment]:
        """Yields the segments of a request in order."""
        request = dataclasses.replace(request, timeout_s=request.timeout_s or self._settings.request_timeout_s)
        async with aclosing(items_of(self._normalizer.options(stream=True).speak.remote(request))) as segments:
            async for segment in segments:
                yield segment

    async def synthesize(self, request: SpeechRequest) -> Audio:
        """The whole answer to a Python caller.

        Raises:
            SpeechError: The request was refused, failed or ran out of time.
        """
        return await synthesize(self, request)

    async def stream(self, request: SpeechRequest) -> AsyncIterator[bytes]:
        """16 bit PCM in pieces, each as soon as it is spoken."""
        async for piece in stream(self, request): yield piece

    async def analyse(self, text: str, voice: str | None, normalize: bool) -> TextAnalysis:
        """What will be spoken, without speaking."""
        return await result_of(self._normalizer.analyse.remote(text, voice, normalize))

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that are served, in order."""
        return await result_of(self._normalizer.voices.remote())

    async def stages(self) -> tuple[StageStatus, ...]:
        """Whether each stage can serve."""
        try:
            return await asyncio.wait_for(result_of(self._normalizer.stages.remote()), STATUS_TIMEOUT_S)
        except TimeoutError:
            reason = f"no answer within {STATUS_TIMEOUT_S} s"
        except SpeechError as error:
            reason = error.message
        return (StageStatus(stage="normalizer", ready=False, reason=reason),)
