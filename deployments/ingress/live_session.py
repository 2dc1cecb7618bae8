"""One WebSocket: text comes in, audio goes out while more text comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from deployments.errors import ClientGone, DeadlineExceeded, InvalidRequest, SpeechError, TextNotSpeakable, TooLarge
from deployments.ingress.admitted import Admitted
from deployments.ingress.answer import Render
from deployments.ingress.asking import allows_cache, charge
from deployments.ingress.bodies import EndMessage, StartMessage, TextMessage
from deployments.ingress.encoders import make_encoder
from deployments.ingress.faults import naming, unexpected
from deployments.ingress.live_text import LiveText, strength_of
from deployments.ingress.service import SpeechService
from deployments.ingress.waiting import give_up
from deployments.ingress.wire import check_length, explain, spoken_as
from deployments.messages import SpeechRequest
from deployments.settings import IngressSettings

Result = TypeVar("Result")
FRAME_BYTES = 1 << 16  # clients refuse messages above their own limit, often 1 MiB
DONE, REFUSED, FAILED = 1000, 1008, 1011
MESSAGES: dict[str, type[BaseModel]] = {"start": StartMessage, "text": TextMessage, "end": EndMessage}


class LiveSession:
    """One session, from its first message to its close.

    The text of a session is bounded, so reading never waits for speaking, and a caller that goes is noticed at once.
    Speaking waits for a caller that takes the audio slowly.

    Args:
        socket: Accepted.
        service: The stages; the first piece of text is refused where there is no room, later ones wait for it.
        settings: Limits.
    """

    def __init__(self, socket: WebSocket, service: Admitted, settings: IngressSettings) -> None:
        self._socket = socket
        self._service: SpeechService = service
        self._later_service = service.live()
        self._settings = settings
        self._text = LiveText(settings.live_text.clause_chars, settings.max_input_chars)
        self._num_chars = 0
        self._ended = False
        self._arrived = asyncio.Event()

    async def run(self) -> int | None:
        """Serves the session and closes the connection; whatever goes wrong is told before.

        Returns:
            The code it was closed with, None where the caller went away.
        """
        try:
            async with asyncio.timeout(self._settings.stream_timeout_s):
                await self._serve()
        except ClientGone:
            return None
        except SpeechError as error:
            return await self._refuse(error)
        except TimeoutError:
            return await self._refuse(
                DeadlineExceeded(f"The session took longer than {self._settings.stream_timeout_s:g} s. Start another.")
            )
        except Exception as error:
            return await self._refuse(unexpected(error, self._socket.state.request_id))
        return await self._close(DONE)

    async def _serve(self) -> None:
        request, response_format = await self._started()
        encoder = make_encoder(response_format, self._settings, streamed=True)
        render = Render(request, encoder)
        speaking = asyncio.ensure_future(self._speak_all(request, render))
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait((speaking, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():  # it ends with an error only
                reading.result()
            speaking.result()
        finally:
            await give_up(reading, speaking)

    @property
    def _idle_s(self) -> float:
        return min(self._settings.live_text.idle_timeout_s, self._settings.request_timeout_s)

    async def _started(self) -> tuple[SpeechRequest, str]:
        """The request without its text, and the format."""
        limit_s = self._idle_s
        start = await _within(limit_s, self._receive(), f"No message arrived within {limit_s:g} s. Send start.")
        if not isinstance(start, StartMessage):
            raise InvalidRequest("The first message must have the type start.", param="type")
        voices = await self._service.voices()
        request = spoken_as(
            start,
            "",
            voices,
            self._settings,
            request_id=self._socket.state.request_id,
            use_cache=allows_cache(self._socket.headers.get("cache-control", "")),
        )
        return replace(request, timeout_s=self._settings.stream_timeout_s), start.response_format

    async def _read(self) -> None:
        """Takes messages for as long as the connection lives.

        Raises:
            ClientGone: The caller went away.
            InvalidRequest: A message makes no sense.
            TooLarge: There is more text than a session may have.
            RateLimited: The caller's key may not send so much text now.
        """
        while True:
            message = await self._receive()
            if self._ended or isinstance(message, StartMessage):
                raise InvalidRequest("After end nothing may be sent, and start only once.", param="type")
            if isinstance(message, TextMessage):
                self._num_chars += len(message.text)
                limit = self._settings.live_text.max_chars
                if self._num_chars > limit:
                    raise TooLarge(f"A session may have {limit} characters of text. Start another one.", param="text")
                charge(self._socket, len(message.text))
                self._text.add(message.text)
            else:
                self._ended = True
            self._arrived.set()

    async def _receive(self) -> BaseModel:
        try:
            raw = await self._socket.receive()
        except WebSocketDisconnect:
            raise ClientGone("The caller went away.") from None
        if raw["type"] == "websocket.disconnect":
            raise ClientGone("The caller went away.")
        if raw.get("text") is None:
            raise InvalidRequest("Messages of a client are text, not binary. Send JSON.")
        return _parsed(raw["text"], self._settings)

    async def _speak_all(self, request: SpeechRequest, render: Render) -> None:
        while (piece := await self._next_piece()) is not None:
            await self._speak(replace(request, text=piece), render)
            self._service = self._later_service
            pauses = self._settings.live_text
            after_s = pauses.pause_sentence_s if strength_of(piece) == "sentence" else pauses.pause_clause_s
            render.assembly.pause(after_s)
        await self._send(await asyncio.to_thread(render.finish))
        assembly = render.assembly
        duration_s = assembly.num_samples / assembly.sample_rate_hz
        await self._tell({"type": "done", "duration_s": duration_s, "sample_rate": assembly.sample_rate_hz})

    async def _next_piece(self) -> str | None:
        """Text that can be spoken now, as soon as there is some; None when all has been spoken."""
        while not (piece := self._text.take()).strip():
            if self._ended:
                rest = self._text.rest()
                return rest if rest.strip() else None
            self._arrived.clear()
            is_flushed = self._text.has_text and not self._text.is_markup
            limit_s = self._settings.live_text.idle_flush_s if is_flushed else self._idle_s
            try:
                async with asyncio.timeout(limit_s):
                    await self._arrived.wait()
            except TimeoutError:
                if is_flushed:
                    return self._text.rest()
                raise DeadlineExceeded(f"No text arrived for {limit_s:g} s. Send text, or end.") from None
        return piece

    async def _speak(self, request: SpeechRequest, render: Render) -> None:
        """Sends the audio and the events of one piece; a piece of mere marks is silent."""
        limit_s = self._settings.request_timeout_s
        late = f"The next audio was not finished within {limit_s:g} s. Retry when the service is less busy."
        with naming("text"):
            check_length(request.text, self._settings)
            with contextlib.suppress(TextNotSpeakable):
                async with aclosing(self._service.speak(replace(request, stream=True))) as segments:
                    while (segment := await _within(limit_s, anext(segments, None), late)) is not None:
                        num_told = render.assembly.num_segments
                        await self._send(await asyncio.to_thread(render.feed, segment))
                        for timed in render.assembly.timeline(num_told):
                            await self._tell({"type": "segment", **asdict(timed)})

    async def _send(self, data: bytes) -> None:
        for begin in range(0, len(data), FRAME_BYTES):
            await self._hand_over(self._socket.send_bytes(data[begin : begin + FRAME_BYTES]))

    async def _tell(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=False)
        await self._hand_over(self._socket.send_text(text.encode("utf-8", "backslashreplace").decode()))

    async def _hand_over(self, sending: Awaitable[None]) -> None:
        """Sends; a caller that neither takes what is sent nor goes away counts as gone."""
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                await sending
        except (TimeoutError, WebSocketDisconnect, RuntimeError) as error:
            raise ClientGone("The caller takes nothing any more.") from error

    async def _refuse(self, error: SpeechError) -> int | None:
        with contextlib.suppress(ClientGone):
            await self._tell({"type": "error", **error.body()})
        return await self._close(REFUSED if error.status < 500 else FAILED)

    async def _close(self, code: int) -> int | None:
        if self._socket.application_state is not WebSocketState.CONNECTED:
            return None
        try:
            await self._hand_over(self._socket.close(code))
        except ClientGone:
            return None
        return code


def _parsed(text: str, settings: IngressSettings) -> BaseModel:
    """One message of the client.

    Raises:
        InvalidRequest: It is none.
        TooLarge: It is larger than a body may be.
    """
    if len(text) > settings.max_body_bytes:
        raise TooLarge(f"The message is longer than {settings.max_body_bytes} characters. Send several.")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidRequest("The message is not JSON. Check quotes, commas and braces.") from None
    kind = content.get("type") if isinstance(content, dict) else None
    model = MESSAGES.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise InvalidRequest(f"A message is a JSON object with type {', '.join(MESSAGES)}.", param="type")
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise explain(error.errors(include_url=False), model) from None


async def _within(limit_s: float, work: Awaitable[Result], late: str) -> Result:
    try:
        async with asyncio.timeout(limit_s):
            return await work
    except TimeoutError:
        raise DeadlineExceeded(late) from None
