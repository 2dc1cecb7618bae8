"""A layer for Ray Serve's own proxy: it refuses in the one error shape too, and keeps its memory to itself.

Ray's proxy takes it where RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH=deployments.ingress.front:layers stands in the
environment when Ray starts. Without it everything works, but what the proxy itself refuses (a dead ingress, a full
queue) is plain text, it takes bodies of any size into its memory, and a service with too much to do has to refuse every
request by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import (
    DeadlineExceeded,
    HeadersTooLarge,
    NotFound,
    NotReady,
    Overloaded,
    ReplicaLost,
    SpeechError,
    TooLarge,
)
from deployments.ingress.damper import Damper
from deployments.ingress.faults import respond
from deployments.ingress.gate import ARRIVED, SPEAKING, header_bytes

MAX_BODY_BYTES: Final = 16 << 20  # of a request, and of a message of a WebSocket; the service's own limits are lower
MAX_HEADER_BYTES: Final = 128 << 10
MAX_SERVICES: Final = 64
JSON: Final = b"application/json"
OVERLOADED: Final = f'"code": "{Overloaded.code}"'.encode()
# headers by which callers could tell the proxy how to treat them, in both spellings that it takes
NOT_FOR_CALLERS: Final = frozenset(
    (b"x-request-timeout-seconds", b"x-request-disconnect-disabled", b"serve-multiplexed-model-id", ARRIVED.encode())
)
IN_THE_ONE_SHAPE: Final = {
    404: NotFound("There is no application at this address. GET /-/routes lists what there is."),
    408: DeadlineExceeded("The answer was not finished in time. Send less text or retry later."),
    429: Overloaded("Too many requests wait for the service. Retry later.", retry_after_s=1.0),
    500: ReplicaLost("The replica that worked on the request died. Retry.", retry_after_s=1.0),
    503: NotReady("No replica of the service can be reached. Retry later.", retry_after_s=1.0),
}


def layers() -> list[Middleware]:
    """What Ray's proxy puts around itself."""
    return [Middleware(Front)]


class Front:
    """Stamps when a request arrived, bounds what is taken into memory, tells the proxy's own errors in the one shape.

    Args:
        app: The proxy.
        clock: Seconds.
    """

    def __init__(self, app: ASGIApp, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._clock = clock
        self._dampers: dict[str, Damper] = {}  # by the prefix of the service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        damper = self._damper_of(scope)
        try:
            scope["headers"] = _cleaned(scope)
            if damper is not None:
                damper.check()
        except SpeechError as error:
            if scope["type"] == "http":
                await respond(error)(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] == "http":
            await _Request(self._app, scope, receive, send, damper).run()
        else:
            await self._app(scope, _bounded(receive), send)

    def _damper_of(self, scope: Scope) -> Damper | None:
        """That of the service that a request to speak is for; None for any other request."""
        path: str = scope["path"]
        speaking = next((speaking for speaking in SPEAKING if path.endswith(speaking)), None)
        if speaking is None or scope["type"] != "http":
            return None
        prefix = path.removesuffix(speaking)
        if prefix not in self._dampers:
            if len(self._dampers) >= MAX_SERVICES:  # made up by callers
                self._dampers.clear()
            self._dampers[prefix] = Damper(self._clock)
        return self._dampers[prefix]


class _Request:
    """One request on its way through the proxy."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, damper: Damper | None) -> None:
        self._app = app
        self._scope = scope
        self._receive = receive
        self._send = send
        self._num_bytes = 0
        self._damper = damper
        self._has_begun = False
        self._retry_after_s: float | None = None  # of a refusal whose reason is not known yet
        self._refused: SpeechError | None = None  # in place of the proxy's own words

    async def run(self) -> None:
        """Passes it on; where the proxy ends without an answer or in plain text, the answer is ours."""
        try:
            await self._app(self._scope, self._receive_bounded, self._send_shaped)
        except Exception as error:
            if self._has_begun:
                raise
            self._refused = error if isinstance(error, SpeechError) else IN_THE_ONE_SHAPE[500]
        if not self._has_begun:
            await respond(self._refused or IN_THE_ONE_SHAPE[500])(self._scope, self._receive, self._send)

    async def _receive_bounded(self) -> Message:
        message = await self._receive()
        self._num_bytes += len(message.get("body", b""))
        if self._num_bytes > MAX_BODY_BYTES:
            self._refused = TooLarge(f"The body is larger than {MAX_BODY_BYTES} bytes. Send less.")
            return {"type": "http.disconnect"}  # the proxy gives the request up
        return message

    async def _send_shaped(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self._has_begun:
            if self._refused is None:
                self._refused = _own_words(message)
            self._has_begun = self._refused is None
        if self._has_begun:
            self._learn(message)
            await self._send(message)

    def _learn(self, message: Message) -> None:
        """Tells the damper what the service said; why it refused stands in the body."""
        if self._damper is None:
            return
        if message["type"] == "http.response.start" and message["status"] != Overloaded.status:
            self._damper.accepted()
        elif message["type"] == "http.response.start":
            sent = Headers(raw=message["headers"]).get("retry-after", "")
            self._retry_after_s = float(sent) if sent.isascii() and sent.isdigit() else 1.0
        elif self._retry_after_s is not None:
            if OVERLOADED in message.get("body", b""):
                self._damper.refused(self._retry_after_s)
            self._retry_after_s = None


def _own_words(start: Message) -> SpeechError | None:
    """The error that stands for an answer of the proxy itself; None for one of the service."""
    headers = Headers(raw=start.get("headers", []))
    is_ours = headers.get("content-type", "").encode().startswith(JSON) or start["status"] < 400
    return None if is_ours else IN_THE_ONE_SHAPE.get(start["status"])


def _cleaned(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The headers that go on, with the time of arrival.

    Raises:
        HeadersTooLarge: They are larger than any service behind this takes.
    """
    if (num_bytes := header_bytes(scope)) > MAX_HEADER_BYTES:
        raise HeadersTooLarge(f"Address and headers have {num_bytes} bytes, {MAX_HEADER_BYTES} may be. Send less.")
    kept = []
    for name, value in scope["headers"]:
        is_text = name.isascii() and not (name.lower() == b"x-request-id" and not value.isascii())
        if is_text and name.lower().replace(b"_", b"-") not in NOT_FOR_CALLERS:
            kept.append((name, value))
    return [*kept, (ARRIVED.encode(), f"t={time.time():.3f}".encode())]


def _bounded(receive: Receive) -> Receive:
    """A WebSocket whose caller is taken for gone when it sends a message that no service behind this takes."""

    async def receive_bounded() -> Message:
        message = await receive()
        size = len(message.get("text") or "") + len(message.get("bytes") or b"")
        return message if size <= MAX_BODY_BYTES else {"type": "websocket.disconnect", "code": 1009}

    return receive_bounded
