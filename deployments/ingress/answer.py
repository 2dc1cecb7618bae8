"""Answers as samples and as files, whole or in pieces, as segments are finished."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from starlette.responses import Response
from starlette.types import Receive

from deployments.answers import Audio
from deployments.ingress.assemble import Assembly, assemble, collect
from deployments.ingress.encoders import MEDIA_TYPES, Encoder, make_encoder
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import while_wanted
from deployments.messages import SpeechRequest, SpokenSegment
from deployments.settings import IngressSettings


class Render:
    """Segments in, bytes of one file out.

    Args:
        request: Volume and sample rate.
        encoder: Not started yet.

    Attributes:
        assembly: Samples, times and headers so far.
        encode_s: Seconds spent here so far.
    """

    def __init__(self, request: SpeechRequest, encoder: Encoder) -> None:
        self.assembly = Assembly(request.sample_rate_hz, request.volume)
        self.encode_s = 0.0
        self._encoder = encoder
        self._started = False

    def feed(self, segment: SpokenSegment) -> bytes:
        """The bytes that this segment makes known."""
        started = time.perf_counter()
        pcm_S = self.assembly.add(segment)
        head = b"" if self._started else self._encoder.start(self.assembly.sample_rate_hz)
        self._started = True
        data = head + self._encoder.feed(pcm_S)
        self.encode_s += time.perf_counter() - started
        return data

    def finish(self) -> bytes:
        """The rest.

        Raises:
            TextNotSpeakable: There was no segment.
        """
        started = time.perf_counter()
        pcm_S = self.assembly.finish()
        head = b"" if self._started else self._encoder.start(self.assembly.sample_rate_hz)
        data = head + self._encoder.feed(pcm_S) + self._encoder.finish()
        self.encode_s += time.perf_counter() - started
        return data


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole answer as one file with exact sizes.

    Attributes:
        body: The file.
        render: What it was made by: times of its segments, samples, cache.
    """

    body: bytes
    render: Render

    @property
    def sample_rate_hz(self) -> int:
        """Of the file."""
        return self.render.assembly.sample_rate_hz

    @property
    def duration_s(self) -> float:
        """Seconds of audio."""
        return self.render.assembly.num_samples / self.sample_rate_hz

    @property
    def duration_ms(self) -> int:
        """Milliseconds of audio."""
        return round(1000 * self.duration_s)

    @property
    def headers(self) -> dict[str, str]:
        """What a response says of it: cache, length, times of the stages."""
        timings_s = {**self.render.assembly.timings_s, "encode": self.render.encode_s}
        return {
            "x-cache": self.render.assembly.cache,
            "x-audio-duration-ms": str(self.duration_ms),
            "server-timing": ", ".join(f"{stage};dur={1000 * spent_s:.1f}" for stage, spent_s in timings_s.items()),
        }


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


async def whole_file(
    service: SpeechService,
    request: SpeechRequest,
    response_format: str,
    settings: IngressSettings,
    receive: Receive | None = None,
) -> Whole:
    """The whole answer as a file, within the request's time.

    Args:
        service: The stages.
        request: Checked.
        response_format: A key of MEDIA_TYPES.
        settings: Bit rates and the time limit of requests that have none of their own.
        receive: The connection, or None where nothing tells that the caller has gone.

    Raises:
        DeadlineExceeded: It was not finished in time.
        ClientGone: The caller went away.
        SpeechError: The text is refused or a stage failed.
    """
    limit_s = request.timeout_s or settings.request_timeout_s
    segments = await while_wanted(collect(service.speak(request)), receive, limit_s)
    render = Render(request, make_encoder(response_format, settings, streamed=False))
    return await asyncio.to_thread(_whole, segments, render)


async def whole_answer(
    service: SpeechService,
    request: SpeechRequest,
    response_format: str,
    settings: IngressSettings,
    receive: Receive,
) -> Response:
    """The whole answer as one body with exact sizes.

    Raises:
        SpeechError: See `whole_file`.
    """
    whole = await whole_file(service, request, response_format, settings, receive)
    return Response(whole.body, media_type=MEDIA_TYPES[response_format], headers=whole.headers)


async def encoded(service: SpeechService, request: SpeechRequest, encoder: Encoder) -> AsyncGenerator[bytes, None]:
    """The answer in an encoding, as segments are finished.

    Yields:
        Bytes of one file, never empty.

    Raises:
        SpeechError: The text is refused or a stage failed.
    """
    async with aclosing(service.speak(replace(request, stream=True))) as segments:
        render = Render(request, encoder)
        async for segment in segments:
            if data := await asyncio.to_thread(render.feed, segment):
                yield data
        if data := await asyncio.to_thread(render.finish):
            yield data


def _whole(segments: Sequence[SpokenSegment], render: Render) -> Whole:
    parts = [render.feed(segment) for segment in segments]
    return Whole(b"".join([*parts, render.finish()]), render)
