"""What the routes that speak have in common: from a body and its request to the checked message for the stages."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header
from starlette.requests import HTTPConnection

from deployments.errors import EmotionNotFound, MarkupInvalid, TextNotSpeakable, VoiceNotFound
from deployments.ingress.bodies import SpeechBody
from deployments.ingress.service import SpeechService
from deployments.ingress.wire import to_request
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

SPEECH_ERRORS = (TextNotSpeakable, MarkupInvalid, VoiceNotFound, EmotionNotFound)
CacheControl = Annotated[
    str, Header(description="no-cache: synthesise anew instead of answering from the cache.", examples=["no-cache"])
]


async def message_of(
    body: SpeechBody, service: SpeechService, settings: IngressSettings, connection: HTTPConnection
) -> SpeechRequest:
    """The message for the stages.

    Args:
        body: Checked for types and ranges.
        service: Knows the voices.
        settings: Limits and model names.
        connection: Its request id and cache-control go along.

    Raises:
        SpeechError: As in `to_request`.
    """
    return to_request(
        body,
        await service.voices(),
        settings,
        request_id=connection.state.request_id,
        use_cache=allows_cache(connection.headers.get("cache-control", "")),
    )


def allows_cache(cache_control: str) -> bool:
    """False when the header holds the directive no-cache (RFC 9111, 5.2.1.4) or no-store."""
    directives = {directive.partition("=")[0].strip().lower() for directive in cache_control.split(",")}
    return not directives & {"no-cache", "no-store"}
