"""One request's answer: whole or streamed, within its time, given up when the caller goes."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deployments.errors import ClientGone, DeadlineExceeded
from deployments.ingress.assemble import Assembly, assemble, collect
from deployments.ingress.encoders import MEDIA_TYPES, Encoder, make_encoder
from deployments.ingress.service import SpeechService
from deployments.messages import Audio, SpeechRequest, SpokenSegment
from deployments.settings import IngressSettings

Result = TypeVar("Result")
# how long work that was given up may take to clean up before the caller's answer goes out all the same
GRACE_S = 1.0


async def whole_audio(service: SpeechService, request: SpeechRequest) -> Audio:
    """The whole answer as samples.

    Args:
        service: The stages.
        request: Checked.

    Raises:
        SpeechError: The text is refused or a stage failed.
    """
    segments = await collect(service.speak(request))
    return await asyncio.to_thread(assemble, segments, request.sample_rate_hz, request.volume)


async def encoded(service: SpeechService, request: SpeechRequest, encoder: Encoder) -> AsyncGenerator[bytes, None]:
    """The answer in an encoding, as segments are finished.

    Yields:
        Bytes of one file, never empty.

    Raises:
        SpeechError: The text is refused or a stage failed.
    """
    async with aclosing(service.speak(request)) as segments:
        render = Render(request, encoder)
        async for segment in segments:
            if data := await asyncio.to_thread(render.feed, segment):
                yield data
        if data := await asyncio.to_thread(render.finish):
            yield data


class Render:
    """Segments in, bytes of one file out.

    Args:
        request: Volume and sample rate.
        encoder: Not started yet.
    """

    def __init__(self, request: SpeechRequest, encoder: Encoder) -> None:
        self.assembly = Assembly(request.sample_rate_hz, request.volume)
        self._encoder = encoder
        self._started = False

    def feed(self, segment: SpokenSegment) -> bytes:
        """The bytes that this segment makes known."""
        pcm_S = self.assembly.add(segment)
        head = b"" if self._started else self._encoder.start(self.assembly.sample_rate_hz)
        self._started = True
        return head + self._encoder.feed(pcm_S)

    def finish(self) -> bytes:
        """The rest.

        Raises:
            TextNotSpeakable: There was no segment.
        """
        pcm_S = self.assembly.finish()
        head = b"" if self._started else self._encoder.start(self.assembly.sample_rate_hz)
        return head + self._encoder.feed(pcm_S) + self._encoder.finish()


async def whole_answer(
    service: SpeechService,
    request: SpeechRequest,
    response_format: str,
    settings: IngressSettings,
    connection: Request,
) -> Response:
    """The whole answer as one body with exact sizes.

    Raises:
        DeadlineExceeded: It was not finished in time.
        ClientGone: The caller went away.
        SpeechError: The text is refused or a stage failed.
    """
    limit_s = settings.request_timeout_s
    segments = await while_wanted(collect(service.speak(request)), connection.receive, limit_s)
    encoder = make_encoder(response_format, settings, streamed=False)
    started = time.perf_counter()
    audio, body = await asyncio.to_thread(_render_whole, segments, request, encoder)
    timings_s = {**audio.timings_s, "encode": time.perf_counter() - started}
    headers = {
        "x-cache": audio.cache,
        "x-audio-duration-ms": str(round(1000 * len(audio.pcm) / audio.sample_rate_hz)),
        "server-timing": ", ".join(f"{stage};dur={1000 * spent_s:.1f}" for stage, spent_s in timings_s.items()),
    }
    return Response(body, media_type=MEDIA_TYPES[response_format], headers=headers)


async def streamed_answer(
    service: SpeechService,
    request: SpeechRequest,
    response_format: str,
    settings: IngressSettings,
    connection: Request,
    *,
    as_events: bool = False,
) -> Response:
    """The answer as a body that starts with the first segment; refusals are raised before.

    Raises:
        DeadlineExceeded: The first segment was not finished in time.
        ClientGone: The caller went away before it was.
        SpeechError: The text is refused or a stage failed.
    """
    encoder = make_encoder(response_format, settings, streamed=True)
    chunks = encoded(service, request, encoder)
    if as_events:
        chunks = events(chunks, len(request.text))
    try:
        first = await while_wanted(anext(chunks, b""), connection.receive, settings.request_timeout_s)
    except BaseException:
        await chunks.aclose()
        raise
    headers = {} if request.use_cache else {"x-cache": "bypass"}
    media_type = "text/event-stream" if as_events else MEDIA_TYPES[response_format]
    return Stream(first, chunks, settings.request_timeout_s, media_type, headers)


class Stream(Response):
    """A body that is sent as it is made.

    A fault after the first byte breaks the connection off, so that no caller takes a part for the whole.

    Args:
        first: The first bytes.
        chunks: The rest; closed in every case.
        limit_s: Seconds that each further chunk may take.
        media_type: Of the body.
        headers: Further headers.
    """

    def __init__(
        self,
        first: bytes,
        chunks: AsyncGenerator[bytes, None],
        limit_s: float,
        media_type: str,
        headers: dict[str, str],
    ) -> None:
        super().__init__(b"", 200, headers, media_type)
        del self.headers["content-length"]
        self._first = first
        self._chunks = chunks
        self._limit_s = limit_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends head and body."""
        async with aclosing(self._chunks):
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            chunk: bytes | None = self._first
            while chunk is not None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk = await while_wanted(anext(self._chunks, None), receive, self._limit_s)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


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


async def while_wanted(work: Awaitable[Result], receive: Receive | None, limit_s: float) -> Result:
    """Awaits work as long as its caller is there and its time is not up; gives it up otherwise.

    Args:
        work: Cancelled when it is given up, and awaited until it has cleaned up.
        receive: The connection, its body read; tells when the caller goes. None where nothing tells.
        limit_s: Seconds.

    Raises:
        DeadlineExceeded: The time is up.
        ClientGone: The caller went away.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive) if receive else asyncio.Event().wait())
    try:
        await asyncio.wait((task, gone), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():  # however it ended: a connection that fails to tell is gone too
            raise ClientGone("The caller went away before the answer was complete.")
        raise DeadlineExceeded(
            f"The answer was not finished within {limit_s} s. Send less text or retry when the service is less busy."
        )
    finally:
        for future in (gone, task):
            future.cancel()
            future.add_done_callback(_ignore)
        await asyncio.wait((gone, task), timeout=GRACE_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _ignore(future: asyncio.Future[Any]) -> None:
    """Takes what a future that was given up has to say, which asyncio would log as lost otherwise."""
    if not future.cancelled():
        future.exception()


def _render_whole(segments: list[SpokenSegment], request: SpeechRequest, encoder: Encoder) -> tuple[Audio, bytes]:
    audio = assemble(segments, request.sample_rate_hz, request.volume)
    return audio, b"".join((encoder.start(audio.sample_rate_hz), encoder.feed(audio.pcm), encoder.finish()))


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
