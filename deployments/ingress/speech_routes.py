"""The routes under /v1/audio/speech: one text, one text with its times, several texts."""

from __future__ import annotations

import asyncio
import base64

from fastapi import APIRouter, Request
from starlette.responses import Response

from deployments.ingress import subtitles
from deployments.ingress.admitted import Admitted
from deployments.ingress.answer import Whole, whole_answer, whole_file
from deployments.ingress.asking import SPEECH_ERRORS, CacheControl, allows_cache, charge, message_of
from deployments.ingress.batch import batch_lines
from deployments.ingress.bodies import BatchBody, SpeechBody
from deployments.ingress.faults import naming
from deployments.ingress.openapi import AUDIO_HEADERS, AUDIO_REPLY, BATCH_REPLY, describe_errors
from deployments.ingress.replies import SubtitlesReply, TimestampsReply, timed_reply
from deployments.ingress.stream import begun, streamed_answer
from deployments.ingress.wire import spoken_chars
from deployments.settings import IngressSettings

NDJSON = "application/x-ndjson"
SLACK_S = 5.0


def routes(service: Admitted, settings: IngressSettings) -> APIRouter:
    """The routes under /v1/audio/speech.

    Args:
        service: The stages behind them.
        settings: Limits of requests and answers.
    """
    router = APIRouter(tags=["speech"])

    @router.post(
        "/v1/audio/speech",
        summary="Speak a text",
        response_class=Response,
        responses={200: AUDIO_REPLY, **describe_errors(*SPEECH_ERRORS, synthesis=True)},
    )
    async def speech(body: SpeechBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks a text in a voice and emotion; takes what OpenAI's speech endpoint takes, and more."""
        message = await message_of(body, service, settings, request)
        as_events = body.stream_format == "sse"
        with naming("input"):
            if body.stream or as_events:
                return await streamed_answer(
                    service, message, body.response_format, settings, request.receive, as_events=as_events
                )
            return await whole_answer(service, message, body.response_format, settings, request.receive)

    @router.post(
        "/v1/audio/speech/with-timestamps",
        summary="Speak a text and tell when each word is heard",
        response_model=TimestampsReply,
        responses={200: {"headers": AUDIO_HEADERS}, **describe_errors(*SPEECH_ERRORS, synthesis=True)},
    )
    async def speech_with_timestamps(body: SpeechBody, request: Request, cache_control: CacheControl = "") -> Response:
        """The whole audio with the times of its segments, words and characters, and subtitles made of them."""
        message = await message_of(body, service, settings, request)
        with naming("input"):
            whole = await whole_file(service, message, body.response_format, settings, request.receive)
        content = await asyncio.to_thread(_with_timestamps, whole, body.response_format)
        return Response(content, media_type="application/json", headers=whole.headers)

    @router.post(
        "/v1/audio/speech/batch",
        summary="Speak several texts",
        response_class=Response,
        responses={200: BATCH_REPLY, **describe_errors(synthesis=True)},
    )
    async def batch(body: BatchBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks texts concurrently. One JSON object per line, in order of completion; an item fails alone."""
        charge(request, sum(spoken_chars(item.input) for item in body.items))
        use_cache = allows_cache(cache_control)
        lines = batch_lines(service.background(), settings, body.items, request.state.request_id, use_cache=use_cache)
        return await begun(lines, settings, request.receive, NDJSON, slack_s=SLACK_S)

    return router


def _with_timestamps(whole: Whole, response_format: str) -> bytes:
    """The JSON of a TimestampsReply."""
    segments = whole.render.assembly.timeline()
    shown = subtitles.cues(segments)
    reply = TimestampsReply(
        audio=base64.b64encode(whole.body).decode(),
        response_format=response_format,
        sample_rate=whole.sample_rate_hz,
        duration_s=whole.duration_s,
        segments=[timed_reply(segment) for segment in segments],
        subtitles=SubtitlesReply(srt=subtitles.srt(shown), vtt=subtitles.vtt(shown)),
    )
    return reply.model_dump_json().encode("utf-8", "backslashreplace")
