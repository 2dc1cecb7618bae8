"""The endpoints of the older services: /tts, /api/tts with its tasks and audio, /stream_tts."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request
from starlette.responses import JSONResponse, Response

from deployments.errors import NotFound
from deployments.ingress.answer import whole_answer, whole_file
from deployments.ingress.asking import SPEECH_ERRORS, CacheControl, message_of
from deployments.ingress.bodies import StreamQuery, TaskBody, TtsBody
from deployments.ingress.faults import naming
from deployments.ingress.openapi import (
    KEPT_WAV_REPLY,
    PART_REPLY,
    STREAMED_WAV_REPLY,
    TASK_LINKS,
    WAV_REPLY,
    describe_errors,
)
from deployments.ingress.replies import AudioUrlReply, ErrorDetail, FailedTaskReply, TaskReply
from deployments.ingress.service import SpeechService
from deployments.ingress.stream import streamed_answer
from deployments.ingress.tasks import Tasks
from deployments.settings import IngressSettings

ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
TaskId = Annotated[str, Path(description="As POST /api/tts told it.")]


def routes(service: SpeechService, settings: IngressSettings, tasks: Tasks) -> APIRouter:
    """The routes that older clients know.

    Args:
        service: The stages behind them.
        settings: Limits of requests and answers.
        tasks: Works on texts while nobody waits.
    """
    router = APIRouter(tags=["older services"])
    _add_speech(router, service, settings)
    _add_tasks(router, service, settings, tasks)
    return router


def _add_speech(router: APIRouter, service: SpeechService, settings: IngressSettings) -> None:
    @router.post(
        "/tts",
        summary="Speak a text as a wav file",
        response_class=Response,
        responses={200: WAV_REPLY, **describe_errors(*SPEECH_ERRORS, synthesis=True)},
    )
    async def tts(body: TtsBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks a text; the answer is a wav file to be saved as speech.wav."""
        with naming("text"):
            message = await message_of(body.to_speech(), service, settings, request)
            response = await whole_answer(service, message, "wav", settings, request.receive)
        response.headers["content-disposition"] = 'attachment; filename="speech.wav"'
        return response

    @router.get(
        "/stream_tts",
        summary="Speak a text as a wav stream",
        response_class=Response,
        responses={200: STREAMED_WAV_REPLY, **describe_errors(*SPEECH_ERRORS, synthesis=True)},
    )
    async def stream_tts(
        query: Annotated[StreamQuery, Query()], request: Request, cache_control: CacheControl = ""
    ) -> Response:
        """Speaks a text; the wav starts with the first segment, so that an audio element can play the address."""
        with naming("text"):
            message = await message_of(query.to_speech(), service, settings, request)
            return await streamed_answer(service, message, "wav", settings, request.receive)


def _add_tasks(router: APIRouter, service: SpeechService, settings: IngressSettings, tasks: Tasks) -> None:
    @router.post(
        "/api/tts",
        summary="Speak a text and keep the audio",
        response_model=AudioUrlReply,
        responses={
            202: {"model": TaskReply, "description": "The task was begun (async).", "links": TASK_LINKS},
            **describe_errors(*SPEECH_ERRORS, synthesis=True),
        },
    )
    async def api_tts(body: TaskBody, request: Request, cache_control: CacheControl = "") -> Response:
        """Speaks a text and answers where the audio is; with async, answers at once with a task to ask for."""
        with naming("text"):
            message = await message_of(body.to_speech(), service, settings, request)
            if body.is_async:
                task_id = await tasks.start(message)
                return JSONResponse(TaskReply(task_id=task_id).model_dump(), status_code=202)
            whole = await whole_file(service, message, "wav", settings, request.receive)
            task_id = await tasks.keep(whole)
        reply = AudioUrlReply(audio_url=_audio_url(request, task_id), duration_ms=whole.duration_ms)
        return JSONResponse(reply.model_dump())

    @router.get(
        "/api/tasks/{task_id}",
        summary="Ask how a task stands",
        responses=describe_errors(NotFound),
    )
    async def task(task_id: TaskId, request: Request) -> TaskReply | AudioUrlReply | FailedTaskReply:
        """How a task stands: processing, success with the address of the audio, or failed with the error."""
        found = await tasks.store.find(task_id) if ID.fullmatch(task_id) else None
        if found is None:
            raise NotFound(f"There is no task {task_id[:64]!r}, or its result has expired. Send the text again.")
        if found.status == "processing":
            return TaskReply(task_id=task_id)
        if found.status == "success":
            return AudioUrlReply(audio_url=_audio_url(request, task_id), duration_ms=found.duration_ms)
        return FailedTaskReply(task_id=task_id, error=ErrorDetail.model_validate(found.error))

    @router.get(
        "/api/audio/{name}",
        summary="Fetch the audio of a task",
        response_class=Response,
        responses={200: KEPT_WAV_REPLY, 206: PART_REPLY, **describe_errors(NotFound)},
    )
    async def audio(
        name: Annotated[str, Path(description="Id of the task, and .wav.")],
        range_: Annotated[str, Header(alias="range", description="Bytes that are wanted, as bytes=0-1023.")] = "",
    ) -> Response:
        """The wav file of a task that has succeeded."""
        task_id = name.removesuffix(".wav")
        found = await tasks.store.audio(task_id) if name.endswith(".wav") and ID.fullmatch(task_id) else None
        if found is None:
            raise NotFound(f"There is no audio {name[:68]!r}, or it has expired. Send the text again.")
        return _part(found, range_)


def _audio_url(request: Request, task_id: str) -> str:
    return f"{request.scope.get('root_path', '')}/api/audio/{task_id}.wav"


def _part(body: bytes, wanted: str) -> Response:
    """The body, or the range of it that is asked for; browsers ask in order to seek."""
    headers = {"accept-ranges": "bytes", "cache-control": "private"}
    part = range_of(wanted, len(body))
    if part is None:
        return Response(body, media_type="audio/wav", headers=headers)
    headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{len(body)}"
    return Response(body[part.start : part.stop], status_code=206, media_type="audio/wav", headers=headers)


def range_of(wanted: str, size: int) -> range | None:
    """The bytes that a header Range asks for.

    Args:
        wanted: The header.
        size: Of the body.

    Returns:
        None for the whole body: the header asks for nothing, for several ranges, or for what is not there.

    Source: RFC 9110, 14.1.2 and 14.2.
    """
    match = RANGE.fullmatch(wanted.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        found = range(max(0, size - int(match[2])), size)
    else:
        found = range(int(match[1]), min(size, int(match[2]) + 1) if match[2] else size)
    return found or None
