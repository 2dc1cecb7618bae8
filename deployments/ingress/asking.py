"""What the routes that speak have in common: from a body and its request to the checked message for the stages."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

from fastapi import Header
from starlette.requests import HTTPConnection

from deployments.errors import DeadlineExceeded, EmotionNotFound, MarkupInvalid, TextNotSpeakable, VoiceNotFound
from deployments.ingress.bodies import SpeechBody
from deployments.ingress.logged import note_text
from deployments.ingress.service import SpeechService
from deployments.ingress.wire import spoken_chars, to_request
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
        connection: Its request id, cache-control and time limit go along; its caller's quota is charged.

    Raises:
        DeadlineExceeded: The request's time is up.
        RateLimited: The caller has no such quota left.
        SpeechError: As in `to_request`.
    """
    request = to_request(
        body,
        await service.voices(),
        settings,
        request_id=connection.state.request_id,
        use_cache=allows_cache(connection.headers.get("cache-control", "")),
    )
    note_text(connection.scope, body.input, settings)
    charge(connection, spoken_chars(body.input))
    return replace(request, timeout_s=left_s(connection))


def left_s(connection: HTTPConnection) -> float:
    """Seconds that are left of the request's time.

    Raises:
        DeadlineExceeded: None are left.
    """
    left: float = connection.state.deadline - time.monotonic()
    if left <= 0:
        raise DeadlineExceeded("The request's time was up before it was begun. Retry later.")
    return left


def charge(connection: HTTPConnection, num_chars: int) -> None:
    """Charges the quota of the caller's key.

    Raises:
        RateLimited: It has not so much left.
    """
    connection.state.caller.charge(num_chars)


def allows_cache(cache_control: str) -> bool:
    """False when the header holds the directive no-cache (RFC 9111, 5.2.1.4) or no-store."""
    directives = {directive.partition("=")[0].strip().lower() for directive in cache_control.split(",")}
    return not directives & {"no-cache", "no-store"}
