"""What is decided about a connection before anything of it is read but its head: origin, key, rate, room, time left."""

from __future__ import annotations

import ipaddress
import logging
import math
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from deployments.errors import (
    DeadlineExceeded,
    HeadersTooLarge,
    OriginRefused,
    Overloaded,
    RateLimited,
    SpeechError,
)
from deployments.ingress.admission import Admission
from deployments.ingress.faults import respond
from deployments.ingress.keys import ApiKeys, Caller
from deployments.settings import IngressSettings

log = logging.getLogger("deployments.ingress")
ARRIVED: Final = "x-request-start"
DENIAL: Final = "websocket.http.response"
POLICY_VIOLATION: Final = 1008
TRY_AGAIN_LATER: Final = 1013
# health, documentation and the page ask for no key; /admin has its own
OPEN: Final = frozenset(("/", "/healthz", "/readyz", "/docs", "/openapi.json"))
OPEN_FOLDERS: Final = ("/page/", "/admin/")
SPEAKING: Final = frozenset(
    (
        "/v1/audio/speech",
        "/v1/audio/speech/with-timestamps",
        "/v1/audio/speech/batch",
        "/v1/text/analysis",
        "/tts",
        "/api/tts",
        "/stream_tts",
    )
)


class Gate:
    """Lets connections in, and notes for the routes who their caller is (state.caller) and until when (state.deadline).

    Args:
        app: What it wraps.
        settings: Limits and origins.
        keys: Who may use the service.
        admission: Knows whether there is room.
        clock: Unix time in seconds, as the header x-request-start tells it.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: IngressSettings,
        keys: ApiKeys,
        admission: Admission,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._admission = admission
        self._clock = clock
        self._num_sessions = 0
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] == "http":
            self._let_in(scope, path_of(scope))
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._session(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._check_origin(Headers(scope=scope))
            self._let_in(scope, path_of(scope))
            if self._num_sessions >= self._settings.live_text.max_sessions:
                self._admission.refuse("sessions")
                raise Overloaded("There are as many WebSockets as there may be. Retry later.", retry_after_s=5.0)
        except SpeechError as error:
            await _deny(error, scope, receive, send)
            return
        self._num_sessions += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._num_sessions -= 1

    def _let_in(self, scope: Scope, path: str) -> None:
        self._warn_if_exposed(scope)
        self._check_size(scope)
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["deadline"] = time.monotonic() + self._settings.request_timeout_s - self._queued_s(headers)
        if not needs_key(path):
            return
        caller: Caller = self._keys.caller(headers)
        state["caller"] = caller
        if path not in SPEAKING and scope["type"] == "http":
            return
        if state["deadline"] <= time.monotonic():
            raise DeadlineExceeded("The request's time was up before it reached the service. Retry later.")
        try:
            caller.charge_request()
        except RateLimited:
            self._admission.refuse("key_requests")
            raise
        self._admission.check()

    def _check_size(self, scope: Scope) -> None:
        limit = self._settings.max_header_bytes
        num_bytes = len(scope.get("raw_path") or b"") + header_bytes(scope)
        if num_bytes > limit:
            raise HeadersTooLarge(f"Address and headers have {num_bytes} bytes, {limit} may be. Send texts by POST.")

    def _check_origin(self, headers: Headers) -> None:
        """Browsers let any page open a WebSocket to any service; what they say of the page is all there is to go by."""
        origin = headers.get("origin")
        allowed = self._settings.cors_origins
        if origin is None or "*" in allowed or origin in allowed:
            return
        if urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
            raise OriginRefused(f"Pages of {origin[:100]!r} may not use this service. Name it in ingress.cors_origins.")

    def _queued_s(self, headers: Headers) -> float:
        """Seconds since a proxy in front took the request, where it tells (t= and Unix seconds)."""
        try:
            arrived = float(headers.get(ARRIVED, "").removeprefix("t="))
        except ValueError:
            return 0.0
        return max(0.0, self._clock() - arrived) if math.isfinite(arrived) else 0.0

    def _warn_if_exposed(self, scope: Scope) -> None:
        """Says once that the service listens on more than loopback though it asks for no key."""
        if self._has_warned or not self._keys.is_open:
            return
        host = (scope.get("server") or ("127.0.0.1", None))[0]
        try:
            is_loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_loopback = True  # a name or a socket file tells nothing
        if not is_loopback:
            self._has_warned = True
            log.warning(
                "the service is reached at %s and asks for no key: whoever reaches it may use it. "
                "Set ingress.api_keys_file or the environment variable %s.",
                host,
                self._settings.api_keys_env,
            )


def needs_key(path: str) -> bool:
    """Whether a path is for holders of keys, where the service has any."""
    return path not in OPEN and not path.startswith(OPEN_FOLDERS)


def path_of(scope: Scope) -> str:
    """The path without the prefix under which the application is mounted."""
    path: str = scope["path"]
    prefix = scope.get("root_path", "").rstrip("/")
    return path[len(prefix) :] if prefix and path.startswith(f"{prefix}/") else path


def header_bytes(scope: Scope) -> int:
    """Bytes of query and headers, each header with what stands around it on the wire."""
    return len(scope.get("query_string", b"")) + sum(len(name) + len(value) + 4 for name, value in scope["headers"])


async def _deny(error: SpeechError, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers the handshake of a WebSocket like any request; a server that cannot do so closes it."""
    if DENIAL not in (scope.get("extensions") or {}):
        code = TRY_AGAIN_LATER if isinstance(error, Overloaded) else POLICY_VIOLATION
        await send({"type": "websocket.close", "code": code, "reason": error.code})
        return
    response: Response = respond(error)
    await send({"type": f"{DENIAL}.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": f"{DENIAL}.body", "body": bytes(response.body), "more_body": False})
