"""Threads on which model calls run side by side, so that a step may wait for whichever is the first to end.

No Ray, no torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Result = TypeVar("Result")
Job = Callable[[], Result]


class Lanes(Generic[Result]):
    """A fixed number of daemon threads: one that is stuck in a model keeps no process from ending.

    start(), wait() and num_running belong to one thread; wake(), close() and running_since to any.

    Args:
        number: Threads, at least 1.
        name: Of the threads.
    """

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self._jobs: SimpleQueue[tuple[int, Job[Result]] | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[int, Result | BaseException] | None] = SimpleQueue()
        self._started_at: dict[int, float] = {}
        self._num_started = 0
        for index in range(number):
            threading.Thread(target=self._work, name=f"{name}-lane-{index}", daemon=True).start()

    @property
    def num_running(self) -> int:
        """Jobs whose results have not been waited for."""
        return len(self._started_at)

    @property
    def running_since(self) -> float | None:
        """Start of the oldest running job, time.monotonic(); None while there is none."""
        return min(tuple(self._started_at.values()), default=None)

    def start(self, job: Job[Result]) -> int:
        """Hands a job to the next free thread; returns its number."""
        self._num_started += 1
        self._started_at[self._num_started] = time.monotonic()
        self._jobs.put((self._num_started, job))
        return self._num_started

    def wait(self) -> list[tuple[int, Result]]:
        """Blocks until a job ends or wake() is called.

        Returns:
            Numbers and results of the jobs that have ended.

        Raises:
            BaseException: What a job raised.
        """
        ended = [self._ended.get()]
        try:
            while True:
                ended.append(self._ended.get_nowait())
        except Empty:
            pass
        results = []
        for number, result in filter(None, ended):
            del self._started_at[number]
            if isinstance(result, BaseException):
                raise result
            results.append((number, result))
        return results

    def wake(self) -> None:
        """Ends a wait(), the next one should none be under way."""
        self._ended.put(None)

    def close(self) -> None:
        """Ends the threads once they have done what was started, and a wait()."""
        self.wake()
        for _ in range(self.number):
            self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            number, job = item
            try:
                result: Result | BaseException = job()
            except BaseException as error:  # it has to reach the one who waits
                result = error
            self._ended.put((number, result))
