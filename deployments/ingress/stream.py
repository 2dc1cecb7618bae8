"""Answers whose body is sent as it is made: audio in chunks, or events that carry it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from deployments.errors import ClientGone
from deployments.ingress.answer import encoded
from deployments.ingress.encoders import MEDIA_TYPES, make_encoder
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import while_wanted
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

EVENT_STREAM = "text/event-stream"


async def streamed_answer(
    service: SpeechService,
    request: SpeechRequest,
    response_format: str,
    settings: IngressSettings,
    receive: Receive,
    *,
    as_events: bool = False,
) -> Response:
    """The answer as a body that starts with the first segment; refusals are raised before.

    Length, times and cache of the whole are not known when the headers go out, so they are left out.

    Raises:
        DeadlineExceeded: The first segment was not finished in time.
        ClientGone: The caller went away before it was.
        SpeechError: The text is refused or a stage failed.
    """
    first_s = request.timeout_s or settings.request_timeout_s
    request = replace(request, timeout_s=settings.stream_timeout_s)
    chunks = encoded(service, request, make_encoder(response_format, settings, streamed=True))
    if as_events:
        chunks = events(chunks, len(request.text))
    headers = {} if request.use_cache else {"x-cache": "bypass"}
    media_type = EVENT_STREAM if as_events else MEDIA_TYPES[response_format]
    return await begun(chunks, settings, receive, media_type, headers, first_s=first_s)


async def begun(
    chunks: AsyncGenerator[bytes, None],
    settings: IngressSettings,
    receive: Receive,
    media_type: str,
    headers: dict[str, str] | None = None,
    slack_s: float = 0.0,
    first_s: float | None = None,
) -> Response:
    """A streamed response whose first chunk is there, so that what is refused is refused with its own status.

    Args:
        chunks: The body; closed in every case.
        settings: Time for each chunk and for all.
        receive: The connection.
        media_type: Of the body.
        headers: Further headers.
        slack_s: Seconds that a chunk has beyond request_timeout_s, for chunks that hold to that limit by themselves.
        first_s: Seconds that are left for the first chunk, where they are fewer.

    Raises:
        SpeechError: What went wrong before the first chunk.
    """
    limit_s = settings.request_timeout_s + slack_s
    try:
        first = await while_wanted(anext(chunks, b""), receive, limit_s if first_s is None else first_s)
    except BaseException:
        await chunks.aclose()
        raise
    return Stream(first, chunks, limit_s, settings.stream_timeout_s, media_type, headers or {})


class Stream(Response):
    """A body that is sent as it is made.

    A fault after the first byte breaks the connection off, so that no caller takes a part for the whole.

    Args:
        first: The first bytes.
        chunks: The rest; closed in every case.
        limit_s: Seconds that each further chunk may take to be made, and again to be taken by the caller.
        total_s: Seconds that all may take together.
        media_type: Of the body.
        headers: Further headers.
    """

    def __init__(
        self,
        first: bytes,
        chunks: AsyncGenerator[bytes, None],
        limit_s: float,
        total_s: float,
        media_type: str,
        headers: dict[str, str],
    ) -> None:
        super().__init__(b"", 200, headers, media_type)
        del self.headers["content-length"]
        self._first = first
        self._chunks = chunks
        self._limit_s = limit_s
        self._ends_at = time.monotonic() + total_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends head and body."""
        async with aclosing(self._chunks):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            chunk: bytes | None = self._first
            while chunk is not None:
                await self._hand_over({"type": "http.response.body", "body": chunk, "more_body": True}, send)
                left_s = max(0.0, self._ends_at - time.monotonic())
                chunk = await while_wanted(anext(self._chunks, None), receive, min(self._limit_s, left_s))
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _hand_over(self, message: Message, send: Send) -> None:
        """Sends a message; a caller that neither takes it nor goes away is cut off."""
        try:
            async with asyncio.timeout(self._limit_s):
                await send(message)
        except TimeoutError:
            raise ClientGone(f"The caller took no audio for {self._limit_s:g} s.") from None


async def events(chunks: AsyncGenerator[bytes, None], num_chars: int) -> AsyncGenerator[bytes, None]:
    """Server-sent events as OpenAI names them: speech.audio.delta with base64 audio, at last speech.audio.done.

    Args:
        chunks: The audio.
        num_chars: Characters of the text, reported as the tokens that were used.
    """
    async with aclosing(chunks):
        async for chunk in chunks:
            yield _event({"type": "speech.audio.delta", "audio": base64.b64encode(chunk).decode()})
    usage = {"input_tokens": num_chars, "output_tokens": 0, "total_tokens": num_chars}
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
