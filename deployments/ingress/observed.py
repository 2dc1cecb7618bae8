"""What callers get, counted: every HTTP request, WebSocket session and spoken text. No Ray."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import ClientGone, SpeechError
from deployments.messages import SpeechRequest, SpokenSegment, VoiceInfo
from deployments.metrics import OTHER, Gauging, Metrics

OK: Final = "ok"
MAX_ERROR_BYTES: Final = 1 << 16
METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


async def observed(
    segments: AsyncGenerator[SpokenSegment, None],
    request: SpeechRequest,
    voices: Sequence[VoiceInfo],
    metrics: Metrics,
) -> AsyncGenerator[SpokenSegment, None]:
    """Yields what it is given, and reports how long it took and how it ended.

    Args:
        segments: Of one request; closed in every case.
        request: Checked.
        voices: What is served: what a tag may say of voice and emotion.
        metrics: Gets the series SPEECH.
    """
    spoken = _Spoken(metrics)
    code = "given_up"
    try:
        async with aclosing(segments):
            while (segment := await spoken.next(segments)) is not None:
                yield segment
        code = OK
    except SpeechError as error:
        code = "given_up" if isinstance(error, ClientGone) else error.code
        raise
    except Exception:
        code = SpeechError.code
        raise
    finally:
        spoken.report(_delivery(request, voices), code)


class _Spoken:
    """Times and samples of one text."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._spent_s = 0.0
        self._audio_s = 0.0
        self._has_begun = False

    async def next(self, segments: AsyncGenerator[SpokenSegment, None]) -> SpokenSegment | None:
        """The next segment, None after the last."""
        started = time.perf_counter()
        try:
            segment = await anext(segments, None)
        finally:
            self._spent_s += time.perf_counter() - started
        if segment is not None:
            self._add(segment)
        return segment

    def report(self, delivery: dict[str, str], code: str) -> None:
        """The end of the text."""
        self._metrics.count("speech_requests", 1, {**delivery, "code": code})
        if self._audio_s > 0:
            self._metrics.count("audio_seconds", self._audio_s, delivery)
        if code == OK:
            self._metrics.observe("speech_seconds", self._spent_s, {})
            if self._audio_s > 0:
                self._metrics.observe("real_time_factor", self._spent_s / self._audio_s, {})

    def _add(self, segment: SpokenSegment) -> None:
        self._audio_s += segment.audio.duration_s
        if not self._has_begun:
            self._has_begun = True
            self._metrics.observe("first_audio_seconds", self._spent_s, {"source": segment.cache})
        if segment.is_last:  # before, its times are not known
            self._metrics.observe("cache_seconds", max(0.0, segment.cache_s), {})
            if segment.index == 0:
                self._metrics.observe("text_seconds", segment.text_s, {})


def _delivery(request: SpeechRequest, voices: Sequence[VoiceInfo]) -> dict[str, str]:
    """Voice and emotion as tags, which have few values whatever callers send."""
    voice = next((voice for voice in voices if voice.name == request.voice), None)
    if voice is None:
        return {"voice": OTHER, "emotion": OTHER}
    is_known = request.emotion in voice.emotions or (not voice.emotions and request.emotion == "neutral")
    return {"voice": voice.name, "emotion": request.emotion if is_known else OTHER}


class ObservedHttp:
    """ASGI layer that counts requests and sessions; stands around all others.

    Args:
        app: What it wraps.
        metrics: Gets the series HTTP.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._sessions = Gauging(metrics, "live_sessions_open", {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._session(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status: int | None = None
        is_whole = False
        error_body = bytearray()

        async def send_seen(message: Message) -> None:
            nonlocal status, is_whole
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                if status is not None and status >= 400 and len(error_body) < MAX_ERROR_BYTES:
                    error_body.extend(message.get("body", b""))
                is_whole = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, send_seen)
        finally:
            route = _route(scope)
            self._metrics.count("http_requests", 1, {"route": route, **_outcome(status, is_whole, error_body)})
            if is_whole:
                self._metrics.observe("http_seconds", time.perf_counter() - started, {"route": route})

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        close = "gone"

        async def send_seen(message: Message) -> None:
            nonlocal close
            if message["type"] == "websocket.close":
                close = str(message.get("code", 1000))
            await send(message)

        try:
            with self._sessions:
                await self._app(scope, receive, send_seen)
        finally:
            self._metrics.count("live_sessions", 1, {"close": close})


def _route(scope: Scope) -> str:
    """Method and path template, so that ids in paths and paths that lead nowhere make no tags of their own."""
    method = scope["method"] if scope["method"] in METHODS else OTHER
    return f"{method} {getattr(scope.get('route'), 'path', OTHER)}"


def _outcome(status: int | None, is_whole: bool, error_body: bytes | bytearray) -> dict[str, str]:
    """Status and code as tags; without an answer the caller had gone."""
    if status is None:
        return {"status": str(ClientGone.status), "code": ClientGone.code}
    if status < 400:
        return {"status": str(status), "code": OK if is_whole else "broken_off"}
    return {"status": str(status), "code": _code_of(error_body)}


def _code_of(body: bytes | bytearray) -> str:
    """The code of an error in the one shape of all errors."""
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return OTHER
    return code if isinstance(code, str) else OTHER
