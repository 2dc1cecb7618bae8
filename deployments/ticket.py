"""A caller's claim on a result that a model's thread makes; shared by all work loops. No Ray, no torch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Generic, TypeVar

from deployments.errors import ClientGone, DeadlineExceeded

Item = TypeVar("Item")
Result = TypeVar("Result")


class Ticket(Generic[Item, Result]):
    """One caller's claim on one result, which may come in pieces.

    Args:
        item: What to compute.
        size: Length of the item in the unit of the padded cost (tokens, frames).
        priority: Lower goes first, as if it had arrived earlier; see batching.choose().
        timeout_s: Seconds after which nobody wants the result, or None.
    """

    __slots__ = ("_chunks", "_wake", "admitted_at", "arrived_at", "deadline", "future", "item", "priority", "size")

    def __init__(self, item: Item, size: int, priority: int = 0, timeout_s: float | None = None) -> None:
        self.item = item
        self.size = size
        self.priority = priority
        self.arrived_at = time.monotonic()
        self.admitted_at = self.arrived_at
        self.deadline = None if timeout_s is None else self.arrived_at + timeout_s
        self.future: Future[Result] = Future()
        self._chunks: deque[Any] = deque()
        self._wake: Callable[[], None] | None = None

    @property
    def queue_s(self) -> float:
        """Seconds between arrival and admission."""
        return self.admitted_at - self.arrived_at

    @property
    def model_s(self) -> float:
        """Seconds since admission."""
        return time.monotonic() - self.admitted_at

    def wanted(self) -> bool:
        """False once the caller has gone or the time is up; a ticket that timed out gets its error here."""
        if self.future.done():
            return False
        if self.deadline is not None and time.monotonic() > self.deadline:
            self.fail(DeadlineExceeded("The request's time was up before it was done; retry later or ask for less."))
            return False
        return True

    def resolve(self, result: Result) -> None:
        """Hands over the result; does nothing for a caller that has gone."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_result(result)

    def fail(self, error: BaseException) -> None:
        """Hands over an error; does nothing for a caller that has gone."""
        with contextlib.suppress(InvalidStateError):
            self.future.set_exception(error)

    def push(self, chunk: Any) -> None:
        """Hands over the next piece of the result, from any thread; the last one goes before resolve()."""
        self._chunks.append(chunk)
        if (wake := self._wake) is not None:
            wake()

    async def result(self) -> Result:
        """Waits for the result; cancelling the waiting task gives the ticket up."""
        return await asyncio.wrap_future(self.future)

    async def chunks(self) -> AsyncGenerator[Any, None]:
        """The pieces of the result in order, each as soon as it was pushed; for one reader.

        Leaving the iteration before its end (cancelling the task, aclose()) gives the ticket up.

        Yields:
            What the stepper pushed (acoustic: MelChunk).

        Raises:
            SpeechError: The ticket failed, after the pieces that were made before.
        """
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def wake(*_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop is closed
                loop.call_soon_threadsafe(arrived.set)

        self._wake = wake
        self.future.add_done_callback(wake)
        try:
            while True:
                arrived.clear()
                is_settled = self.future.done()  # read before the pieces: none comes after it
                while self._chunks:
                    yield self._chunks.popleft()
                if is_settled:
                    break
                await arrived.wait()
        finally:
            self._wake = None
            self.future.cancel()
        if self.future.cancelled():
            raise ClientGone("The request was given up before it was finished.")
        if (error := self.future.exception()) is not None:
            raise error
