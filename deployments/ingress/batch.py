"""Several texts in one request: bounded work, answers in order of completion, every item with its own error."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from deployments.errors import SpeechError
from deployments.ingress.answer import Whole, whole_file
from deployments.ingress.bodies import SpeechBody
from deployments.ingress.faults import naming, unexpected
from deployments.ingress.replies import BatchAudio, BatchError, ErrorDetail
from deployments.ingress.service import SpeechService
from deployments.ingress.wire import to_request
from deployments.settings import IngressSettings

Result = TypeVar("Result")


async def in_order_of_completion(
    makers: Sequence[Callable[[], Awaitable[Result]]], max_running: int
) -> AsyncGenerator[Result, None]:
    """Runs at most `max_running` of the makers at once and yields their results as they come.

    A new one starts when the result of an earlier one is asked for, so that a slow reader holds the work up. When the
    iteration is given up, what is in progress is cancelled and awaited.
    """
    waiting = iter(makers)
    running: set[asyncio.Future[Result]] = set()
    try:
        while True:
            while len(running) < max_running and (make := next(waiting, None)) is not None:
                running.add(asyncio.ensure_future(make()))
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            first = done.pop()
            running.discard(first)
            yield first.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def batch_lines(
    service: SpeechService, settings: IngressSettings, items: Sequence[SpeechBody], request_id: str, *, use_cache: bool
) -> AsyncGenerator[bytes, None]:
    """The lines of a batch answer.

    Args:
        service: The stages.
        settings: Limits of each item, and how many are worked on at once.
        items: What to say.
        request_id: Of the whole; items get it with their number.
        use_cache: False synthesises anew.

    Yields:
        JSON objects, each with a line feed: index and audio, or index and error.
    """

    async def spoken(index: int, body: SpeechBody) -> bytes:
        item_id = f"{request_id}.{index}"
        try:
            with naming("input"):
                voices = await service.voices()
                request = to_request(body, voices, settings, request_id=item_id, use_cache=use_cache)
                whole = await whole_file(service, request, body.response_format, settings)
        except SpeechError as error:
            return _failed(index, error)
        except Exception as error:
            return _failed(index, unexpected(error, item_id))
        return await asyncio.to_thread(_succeeded, index, body.response_format, whole)

    makers = [partial(spoken, index, body) for index, body in enumerate(items)]
    async with aclosing(in_order_of_completion(makers, settings.batch_concurrency)) as lines:
        async for line in lines:
            yield line


def _succeeded(index: int, response_format: str, whole: Whole) -> bytes:
    reply = BatchAudio(
        index=index,
        audio=base64.b64encode(whole.body).decode(),
        response_format=response_format,
        sample_rate=whole.sample_rate_hz,
        duration_s=whole.duration_s,
    )
    return _line(reply)


def _failed(index: int, error: SpeechError) -> bytes:
    return _line(BatchError(index=index, error=ErrorDetail(**error.body()["error"])))


def _line(reply: BatchAudio | BatchError) -> bytes:
    return reply.model_dump_json().encode("utf-8", "backslashreplace") + b"\n"
