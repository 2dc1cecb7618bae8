"""A SpeechService whose segments are sine tones: stands for the stages where a test needs to steer them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator

import numpy as np

from deployments.errors import SpeechError, TextNotSpeakable
from deployments.messages import (
    Segment,
    SegmentAudio,
    SpeechRequest,
    SpokenSegment,
    StageStatus,
    TextAnalysis,
    VoiceInfo,
    Word,
)

RATE_HZ = 16000
HOP_SAMPLES = 200
VOICES = (
    VoiceInfo(
        name="demo",
        model="bundled",
        speaker="F7",
        emotions=("neutral", "happy", "sad"),
        sample_rate_hz=RATE_HZ,
        hop_samples=HOP_SAMPLES,
        license="demonstration",
        is_default=True,
    ),
    VoiceInfo(name="plain", model="other", speaker="F1", emotions=(), sample_rate_hz=RATE_HZ, hop_samples=HOP_SAMPLES),
)


def spoken(index: int, pcm_S: np.ndarray, pause_s: float = 0.25, cache: str = "miss", rate_hz: int = RATE_HZ):
    """A segment of one word with these samples; the frames of its two phones share them."""
    num_frames = max(1, len(pcm_S) // HOP_SAMPLES)
    frames_T = np.array([num_frames // 2, num_frames - num_frames // 2], np.int32)
    segment = Segment(
        text=f"段{index}",
        normalized=f"段{index}",
        words=(Word(text="段", pinyin=("duan4",), start_symbol=0, num_symbols=2),),
        symbols="{d_c$tone4$s_begin$word_begin$emotion_neutral$F7} {uan_c$tone4$s_end$word_end$emotion_neutral$F7}",
        pause_s=pause_s,
    )
    audio = SegmentAudio(pcm_S=pcm_S, sample_rate_hz=rate_hz, frames_T=frames_T, acoustic_s=0.02, vocoder_s=0.01)
    return SpokenSegment(segment=segment, audio=audio, cache=cache, index=index, text_s=0.0 if index else 0.003)


def tone(num_samples: int, hz: float = 440.0, level: float = 0.5, rate_hz: int = RATE_HZ) -> np.ndarray:
    """int16 samples of a sine."""
    return np.round(level * 32767 * np.sin(2 * np.pi * hz * np.arange(num_samples) / rate_hz)).astype(np.int16)


async def until(condition) -> None:
    """Waits for what no event tells of; fails after five seconds."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 (the condition is the application's, which has no event for a test)
            await asyncio.sleep(0.001)


class Tones:
    """One segment per clause of the text, 100 ms per character; remembers what it was asked.

    Attributes:
        refusal: Raised before the first segment.
        failure: Raised after the first segment.
        hold: When set, speak waits for it before every segment after the first `num_free`.
        waiting: Set once speak waits.
        closed: Set once a generator has ended, however it ended.
        num_given: Segments so far.
    """

    def __init__(self) -> None:
        self.requests: list[SpeechRequest] = []
        self.purged: list[str | None] = []
        self.refusal: BaseException | None = None
        self.failure: SpeechError | None = None
        self.hold: asyncio.Event | None = None
        self.num_free = 0
        self.num_given = 0
        self.waiting = asyncio.Event()
        self.closed = asyncio.Event()
        self.status = tuple(StageStatus(stage=stage, ready=True) for stage in ("normalizer", "acoustic", "vocoder"))

    async def speak(self, request: SpeechRequest) -> AsyncGenerator[SpokenSegment, None]:
        self.requests.append(request)
        clauses = re.findall(r"\w+", request.text)
        try:
            if self.refusal:
                raise self.refusal
            if not clauses:
                raise TextNotSpeakable("Nothing in the text can be spoken.", param="text")
            for index, clause in enumerate(clauses):
                if self.hold and index >= self.num_free:
                    self.waiting.set()
                    await self.hold.wait()
                if self.failure and index:
                    raise self.failure
                self.num_given += 1
                yield spoken(index, tone(1600 * len(clause)), cache="miss" if request.use_cache else "bypass")
        finally:
            self.closed.set()

    async def analyse(self, text: str, voice: str, normalize: bool) -> TextAnalysis:
        segment = spoken(0, tone(1)).segment
        return TextAnalysis(normalized=text, segments=(segment,))

    async def purge(self, voice: str | None) -> int:
        self.purged.append(voice)
        return 3

    async def voices(self) -> tuple[VoiceInfo, ...]:
        return VOICES

    async def stages(self) -> tuple[StageStatus, ...]:
        return self.status


class Switch:
    """Passes calls on to the service of the test that runs, so that tests may share an application."""

    def __init__(self):
        self.target = None

    def __getattr__(self, name):
        return getattr(self.target, name)


class Connection:
    """One request over bare ASGI, whose caller may leave.

    Attributes:
        gone: Set it, and the caller has left.
        sent: Messages of the application so far.
        body_begun: Set when the first byte of the body was sent.
    """

    def __init__(self, app, path: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.gone = asyncio.Event()
        self.body_begun = asyncio.Event()
        self.sent: list[dict] = []
        self._app = app
        self._unread = [{"type": "http.request", "body": body, "more_body": False}]
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"content-length", str(len(body)).encode()), *raw],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }

    async def run(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    async def _receive(self) -> dict:
        if self._unread:
            return self._unread.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.body_begun.set()


class Talk:
    """One WebSocket over bare ASGI: tell, hear, leave.

    Attributes:
        accepted: Headers of the acceptance.
        code: What the application closed with, None before.
        reads: Cleared, and the caller takes nothing more.
    """

    def __init__(self, app, headers: dict[str, str] | None = None) -> None:
        self.accepted: list[tuple[bytes, bytes]] | None = None
        self.code: int | None = None
        self.reads = asyncio.Event()
        self.reads.set()
        self.num_sent = 0
        self._app = app
        self._told: asyncio.Queue[dict] = asyncio.Queue()
        self._heard: asyncio.Queue[bytes | dict | None] = asyncio.Queue()
        self._scope = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/v1/audio/speech/stream",
            "raw_path": b"/v1/audio/speech/stream",
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8000),
            "subprotocols": [],
            "state": {},
        }
        self._told.put_nowait({"type": "websocket.connect"})

    async def __aenter__(self):
        self.running = asyncio.create_task(self._app(self._scope, self._told.get, self._send))
        return self

    async def __aexit__(self, *error):
        self.leave()
        async with asyncio.timeout(5):
            await self.running

    def tell(self, message) -> None:
        """Sends a message: JSON of an object, or a string or bytes as they are."""
        if isinstance(message, bytes):
            self._told.put_nowait({"type": "websocket.receive", "bytes": message})
        else:
            text = message if isinstance(message, str) else json.dumps(message)
            self._told.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        """Closes the connection from this side."""
        self._told.put_nowait({"type": "websocket.disconnect", "code": 1001})

    async def hear(self):
        """The next message: bytes, an event, or None for the close."""
        async with asyncio.timeout(5):
            return await self._heard.get()

    async def hear_all(self):
        """All messages up to the close: the audio joined, and the events."""
        audio, events = b"", []
        while (message := await self.hear()) is not None:
            if isinstance(message, bytes):
                audio += message
            else:
                events.append(message)
        return audio, events

    async def _send(self, message: dict) -> None:
        await self.reads.wait()
        if message["type"] == "websocket.accept":
            self.accepted = message.get("headers", [])
        elif message["type"] == "websocket.close":
            self.code = message["code"]
            self._heard.put_nowait(None)
        else:
            self.num_sent += 1
            self._heard.put_nowait(message["bytes"] if message.get("bytes") else json.loads(message["text"]))
