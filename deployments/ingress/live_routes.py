"""The WebSocket /v1/audio/speech/stream: text in pieces in, audio in pieces out."""

from __future__ import annotations

from fastapi import APIRouter, WebSocket

from deployments.ingress.live_session import LiveSession
from deployments.ingress.service import SpeechService
from deployments.settings import IngressSettings


def routes(service: SpeechService, settings: IngressSettings) -> APIRouter:
    """The route of the WebSocket.

    Args:
        service: The stages behind it.
        settings: Limits of a session.
    """
    router = APIRouter()

    @router.websocket("/v1/audio/speech/stream")
    async def live(socket: WebSocket) -> None:
        """Speaks text as it arrives: start, text ..., end; answers audio, segment ..., done."""
        await socket.accept()
        await LiveSession(socket, service, settings).run()

    return router
