"""One thread for calls that block, so that the event loop never does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Worker:
    """Runs calls one after the other on a thread of its own.

    The thread is a daemon: a call that hangs in the disk keeps neither the loop nor the end of the process waiting.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._name = name
        self._thread: threading.Thread | None = None

    async def call(self, function: Callable[..., Result], *args: Any, timeout_s: float | None = None) -> Result:
        """Waits for function(*args) on the thread.

        Args:
            function: What to run; skipped if its caller has gone before its turn.
            *args: For it.
            timeout_s: How long to wait; the call itself is not interrupted.

        Returns:
            What it returned.

        Raises:
            TimeoutError: It was not done in time.
            Exception: What it raised.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def settle(result: list[Result], error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result[0])

        def run() -> None:
            if future.cancelled():
                return
            result: list[Result] = []
            fault: BaseException | None = None
            try:
                result.append(function(*args))
            except BaseException as error:  # handed to the caller, whatever it is
                fault = error
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(settle, result, fault)

        if self._thread is None:
            self._thread = threading.Thread(target=_run, args=(self._calls,), name=self._name, daemon=True)
            self._thread.start()
        self._calls.put(run)
        async with asyncio.timeout(timeout_s):
            return await future

    def close(self) -> None:
        """Ends the thread after the calls that wait; a later call starts another one."""
        self._calls.put(None)
        self._calls = SimpleQueue()
        self._thread = None


def _run(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
