"""The WebSocket /v1/audio/speech/stream: text in pieces in, audio in pieces out."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from deployments.errors import NotFound
from deployments.ingress.admitted import Admitted
from deployments.ingress.live_session import LiveSession
from deployments.settings import IngressSettings

PATH = "/v1/audio/speech/stream"
DESCRIPTION = f"""The WebSocket {PATH} speaks text while it is being written. The client sends JSON: first
{{"type": "start"}} with the fields of POST /v1/audio/speech that say how (voice, emotion, speed, response_format,
which is pcm unless it is given, ...), then {{"type": "text", "text": "..."}} as text arrives, at last
{{"type": "end"}}. The service sends binary audio as clauses are complete,
{{"type": "segment", "text", "start_s", "end_s", "words"}} after each segment, and at last
{{"type": "done", "duration_s", "sample_rate"}}; or {{"type": "error", "error": {{...}}}} and close code 1008 (the
caller's fault) or 1011 (the service's)."""


def routes(service: Admitted, settings: IngressSettings) -> APIRouter:
    """The route of the WebSocket.

    Args:
        service: The stages behind it.
        settings: Limits of a session.
    """
    router = APIRouter()

    @router.get(PATH, include_in_schema=False)
    async def no_upgrade() -> None:
        """What a plain request gets."""
        raise NotFound(f"{PATH} is a WebSocket. Connect to it with ws:// or wss://.")

    @router.websocket(PATH)
    async def live(socket: WebSocket) -> None:
        """Speaks text as it arrives: start, text ..., end; answers audio, segment ..., done."""
        await socket.accept()
        await LiveSession(socket, service, settings).run()

    return router
