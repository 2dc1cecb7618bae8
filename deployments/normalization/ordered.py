"""Segments of one request run ahead concurrently and are delivered in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

Result = TypeVar("Result")


async def in_order(
    number: int, make: Callable[[int], Awaitable[Result]], max_ahead: int
) -> AsyncGenerator[Result, None]:
    """Runs make(0), make(1), ... with at most `max_ahead` of them in progress and yields their results in order.

    When the iteration is given up or one of them fails, those still in progress are cancelled and awaited, so that no
    work outlives its request.

    Args:
        number: How many there are.
        make: Starts the work on one of them.
        max_ahead: Bound on work in progress; memory stays flat in `number`.
    """
    running: deque[asyncio.Task[Result]] = deque()
    started = 0
    try:
        while started < number or running:
            while started < number and len(running) < max_ahead:
                running.append(asyncio.ensure_future(make(started)))
                started += 1
            result = await running[0]
            running.popleft()
            yield result
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
