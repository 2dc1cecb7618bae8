"""Drives a running service over HTTP the way its users do, and keeps what each request saw."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

import aiohttp

from load_tests.traffic import Call

TIMEOUT_S: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one request saw.

    Attributes:
        latency_s: From sending the request to the last byte that was read.
        status: Of HTTP.
        cache: Header x-cache.
        num_bytes: That came.
        first_s: From sending the request to the first piece of a stream.
        code: Of an error; empty where the answer says none.
        audio_s: Length of the audio, where the headers tell.
        timings_s: Seconds by stage of header server-timing.
    """

    latency_s: float
    status: int
    cache: str = ""
    num_bytes: int = 0
    first_s: float | None = None
    code: str = ""
    audio_s: float = 0.0
    timings_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """All answers of a run.

    Attributes:
        answers: In order of completion.
        elapsed_s: From the first request to the last answer.
    """

    answers: Sequence[Answer]
    elapsed_s: float


class Client:
    """One voice of one application, as a client sees it; an asynchronous context manager.

    Args:
        base_url: Of the application, without a slash at the end.
        voice: Whom to ask for.
        connections: Requests at once at most.
    """

    def __init__(self, base_url: str, voice: str, connections: int) -> None:
        self._base_url = base_url
        self._voice = voice
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections), timeout=aiohttp.ClientTimeout(total=TIMEOUT_S)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def speak(self, text: str, emotion: str = "neutral") -> Answer:
        """Asks for a whole answer as wav.

        Raises:
            aiohttp.ClientError: There was no answer.
        """
        # only whole answers have the headers that are read below
        return await self._exchange("POST", "/v1/audio/speech", self._body(text, emotion, "wav", stream=False))

    async def listen(self, text: str, emotion: str = "neutral", *, leaves: bool = False) -> Answer:
        """Asks for a stream of samples.

        Args:
            text: What is to be said.
            emotion: How.
            leaves: Whether the caller hangs up when the first piece has come.

        Returns:
            The answer, as far as it was heard.

        Raises:
            aiohttp.ClientError: There was no answer, or it broke off.
        """
        assert self._session is not None
        started = perf_counter()
        body = self._body(text, emotion, "pcm", stream=True)
        num_bytes, first_s = 0, None
        async with self._session.post(self._base_url + "/v1/audio/speech", json=body) as response:
            if response.status != 200:
                return refusal(response.status, await response.read(), perf_counter() - started)
            async for piece in response.content.iter_any():
                first_s = first_s or perf_counter() - started
                num_bytes += len(piece)
                if leaves:
                    response.close()  # the connection too, which is what the service sees of it
                    break
            return Answer(
                latency_s=perf_counter() - started,
                status=response.status,
                cache=response.headers.get("x-cache", ""),
                num_bytes=num_bytes,
                first_s=first_s,
            )

    async def healthz(self) -> Answer:
        """Asks for nothing: what a request costs that does no work."""
        return await self._exchange("GET", "/healthz", None)

    def _body(self, text: str, emotion: str, audio_format: str, *, stream: bool) -> dict[str, str | bool]:
        return {
            "input": text,
            "emotion": emotion,
            "voice": self._voice,
            "response_format": audio_format,
            "stream": stream,
        }

    async def _exchange(self, method: str, path: str, body: dict[str, str | bool] | None) -> Answer:
        assert self._session is not None
        started = perf_counter()
        async with self._session.request(method, self._base_url + path, json=body) as response:
            answered = await response.read()
            latency_s = perf_counter() - started
            if response.status != 200:
                return refusal(response.status, answered, latency_s)
            headers = response.headers
            return Answer(
                latency_s=latency_s,
                status=response.status,
                cache=headers.get("x-cache", ""),
                num_bytes=len(answered),
                audio_s=int(headers.get("x-audio-duration-ms", "0")) / 1000,
                timings_s=parse_timings(headers.get("server-timing", "")),
            )


def refusal(status: int, body: bytes, latency_s: float) -> Answer:
    """An answer that is an error; without a code where it has not the service's shape."""
    try:
        code = str(json.loads(body)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        code = ""
    return Answer(latency_s=latency_s, status=status, num_bytes=len(body), code=code)


def parse_timings(header: str) -> dict[str, float]:
    """Seconds by stage of a server-timing header: "text;dur=3.1, acoustic;dur=120.0"."""
    entries = (entry.strip().partition(";dur=") for entry in header.split(",") if ";dur=" in entry)
    return {stage: float(milliseconds) / 1000 for stage, _, milliseconds in entries}


async def closed_loop(client: Client, calls: Iterable[Call], concurrency: int) -> Run:
    """So many callers, each of whom asks for the next phrase as soon as it has the last.

    Args:
        client: To ask.
        calls: What is asked for, shared by all callers; think times and hanging up are not played.
        concurrency: Number of callers.

    Returns:
        What they saw.

    Raises:
        RuntimeError: A request was refused or failed; a benchmark of errors would be worth nothing.
    """
    waiting = iter(calls)
    answers: list[Answer] = []

    async def caller() -> None:
        for call in waiting:
            answer = await client.speak(call.phrase.text, call.phrase.emotion)
            if answer.status != 200:
                raise RuntimeError(f"the service answered {answer.status} to {call.phrase.text!r}")
            answers.append(answer)

    started = perf_counter()
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(caller())
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None  # one is enough: the others were cancelled or say the same
    return Run(answers, perf_counter() - started)
