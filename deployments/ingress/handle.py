"""What Python callers get through the application's handle: the same checks and samples as over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing

from deployments.answers import Audio
from deployments.ingress.answer import encoded, whole_audio
from deployments.ingress.encoders import PcmEncoder
from deployments.ingress.faults import naming
from deployments.ingress.middleware import request_id_of
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import while_wanted
from deployments.ingress.wire import checked
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings


async def synthesize(service: SpeechService, settings: IngressSettings, request: SpeechRequest) -> Audio:
    """The whole answer.

    Args:
        service: The stages.
        settings: Limits.
        request: What to say and how; emotions may be named in Chinese or English.

    Raises:
        SpeechError: The request was refused, failed or ran out of time.
    """
    request, limit_s = await _admit(service, settings, request)
    with naming("text"):
        return await while_wanted(whole_audio(service, request), None, limit_s)


async def stream(
    service: SpeechService, settings: IngressSettings, request: SpeechRequest
) -> AsyncGenerator[bytes, None]:
    """The answer as 16 bit little endian samples, as segments are finished.

    Args:
        service: The stages.
        settings: Limits; each piece may take request_timeout_s, all together stream_timeout_s or the request's time.
        request: See `synthesize`.

    Yields:
        Samples, never none; joined, they are those of `synthesize`.

    Raises:
        SpeechError: The request was refused, failed or ran out of time.
    """
    total_s = request.timeout_s or settings.stream_timeout_s
    request, limit_s = await _admit(service, settings, request)
    request = dataclasses.replace(request, timeout_s=total_s)
    with naming("text"):
        async with aclosing(encoded(service, request, PcmEncoder())) as chunks:
            while chunk := await while_wanted(anext(chunks, b""), None, limit_s):
                yield chunk


async def _admit(
    service: SpeechService, settings: IngressSettings, request: SpeechRequest
) -> tuple[SpeechRequest, float]:
    """The checked request and its time limit in seconds."""
    with naming("text"):
        request = checked(request, await service.voices(), settings)
    request = dataclasses.replace(request, request_id=request_id_of(request.request_id))
    return request, request.timeout_s or settings.request_timeout_s
