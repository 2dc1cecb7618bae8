"""What every request passes before and after its route: request id, size limit, faults, one line in the log."""

from __future__ import annotations

import asyncio
import logging
import string
import time
import uuid
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deployments.errors import ClientGone, DeadlineExceeded, InvalidRequest, Overloaded, TooLarge
from deployments.ingress.faults import respond, speech_error, unexpected
from deployments.ingress.logged import shown, shown_path
from deployments.settings import IngressSettings

log = logging.getLogger("deployments.ingress")

REQUEST_ID = "x-request-id"
MAX_ID_CHARS = 128
PRINTABLE = frozenset(string.ascii_letters + string.digits + string.punctuation + " ")
# curl -d sends the second where no header is given
JSON_TYPES = ("application/json", "application/x-www-form-urlencoded", "")


def request_id_of(sent: str | None) -> str:
    """The caller's own id if it is printable ASCII of at most 128 characters, else a new one."""
    given = (sent or "").strip()
    if given and len(given) <= MAX_ID_CHARS and PRINTABLE.issuperset(given):
        return given
    return uuid.uuid4().hex


class Envelope:
    """Outermost layer: gives each request its id, turns what escapes into the error shape, logs one line.

    Args:
        app: What it wraps.
        adds_header: Whether answers get the header x-request-id; False where a proxy in front adds it.
    """

    def __init__(self, app: ASGIApp, *, adds_header: bool = True) -> None:
        self._app = app
        self._adds_header = adds_header

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        if scope["type"] == "websocket":
            await self._session(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket: it tells its own errors, so that only its id and its line in the log are missing."""
        started = time.perf_counter()
        request_id = request_id_of(Headers(scope=scope).get(REQUEST_ID))
        scope.setdefault("state", {})["request_id"] = request_id
        code: int | None = None

        async def send_named(message: Message) -> None:
            nonlocal code
            if message["type"] == "websocket.accept" and self._adds_header:
                MutableHeaders(raw=message.setdefault("headers", []))[REQUEST_ID] = request_id
            elif message["type"] == "websocket.close":
                code = message.get("code", 1000)
            elif message["type"] == "websocket.http.response.start":
                code = message["status"]
                if self._adds_header:
                    MutableHeaders(raw=message["headers"])[REQUEST_ID] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        finally:
            spent_ms = 1000 * (time.perf_counter() - started)
            log.info("WS %s %s %.1f ms id=%s%s", shown_path(scope), code or "gone", spent_ms, request_id, shown(scope))

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = request_id_of(Headers(scope=scope).get(REQUEST_ID))
        scope.setdefault("state", {})["request_id"] = request_id
        status: int | None = None

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._adds_header:
                    MutableHeaders(scope=message)[REQUEST_ID] = request_id
            await send(message)

        try:
            await self._app(scope, receive, send_named)
        except asyncio.CancelledError:
            status = ClientGone.status  # the server gives up a request only when nobody waits for its answer
            raise
        except Exception as error:
            fault = speech_error(error) or unexpected(error, request_id)
            if status is None:
                await respond(fault)(scope, receive, send_named)
            elif isinstance(fault, ClientGone):
                status = fault.status
            else:
                log.warning("request %s broken off: %s", request_id, fault.message)
                raise  # the answer has begun: only a broken connection shows the caller that it is not whole
        finally:
            spent_ms = 1000 * (time.perf_counter() - started)
            what = (scope["method"], shown_path(scope), status, spent_ms, request_id, shown(scope))
            log.info("%s %s %s %.1f ms id=%s%s", *what)


class BodyLimit:
    """Reads the body before the route does: at most so many bytes, within the time limit, of a type that can be JSON.

    Where more callers are sending than admission.max_reading, the one that has been at it longest is refused, so that
    no number of slow ones keeps others out.

    Args:
        app: What it wraps.
        settings: max_body_bytes, body_timeout_s, request_timeout_s and admission.max_reading.
        refused: Told "reading" when a slow one is refused.
    """

    def __init__(
        self, app: ASGIApp, settings: IngressSettings, refused: Callable[[str], None] = lambda _why: None
    ) -> None:
        self._app = app
        self._settings = settings
        self._refused = refused
        self._reading: dict[asyncio.Timeout, None] = {}  # in order of arrival

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one connection."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if not ("content-length" in headers or "transfer-encoding" in headers):
            await self._app(scope, receive, send)
            return
        self._check_length(headers)
        body = await self._read_in_time(receive)
        if body:
            _declare_json(scope, headers)
        unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> Message:
            return unread.pop() if unread else await receive()

        await self._app(scope, receive_again, send)

    def _check_length(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise InvalidRequest("The header content-length is not a number.")
        if int(length[:20]) > self._settings.max_body_bytes:
            raise self._too_large()

    async def _read_in_time(self, receive: Receive) -> bytes:
        limit_s = min(self._settings.body_timeout_s, self._settings.request_timeout_s)
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                self._reading[limit] = None
                if len(self._reading) > self._settings.admission.max_reading:
                    oldest = next(iter(self._reading))
                    del self._reading[oldest]
                    oldest.reschedule(asyncio.get_running_loop().time())
                return await self._read(receive)
        except TimeoutError:
            if limit not in self._reading:
                self._refused("reading")
                raise Overloaded("Too many callers send slowly. Send the body faster.", retry_after_s=1.0) from None
            raise DeadlineExceeded(f"The body did not arrive within {limit_s} s. Send it faster.") from None
        finally:
            self._reading.pop(limit, None)

    async def _read(self, receive: Receive) -> bytes:
        body = bytearray()
        more = True
        while more:
            message: dict[str, Any] = dict(await receive())
            if message["type"] == "http.disconnect":
                raise ClientGone("The caller went away before its request was complete.")
            body += message.get("body", b"")
            if len(body) > self._settings.max_body_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
        return bytes(body)

    def _too_large(self) -> TooLarge:
        limit = self._settings.max_body_bytes
        return TooLarge(f"The body is larger than {limit} bytes. Send the text in several requests.")


def _declare_json(scope: Scope, headers: Headers) -> None:
    """Lets FastAPI read the body as JSON whatever client sent it, and refuses types that never are JSON.

    Raises:
        InvalidRequest: The content type says that the body is something else.
    """
    sent = headers.get("content-type", "")
    kind = sent.partition(";")[0].strip().lower()
    if kind not in JSON_TYPES and not (kind.startswith("application/") and kind.endswith("+json")):
        raise InvalidRequest(f"The body has content-type {sent[:80]!r}. Send JSON with content-type: application/json.")
    others = [(name, value) for name, value in scope["headers"] if name.lower() != b"content-type"]
    scope["headers"] = [*others, (b"content-type", b"application/json")]
