"""Callers who come when they like, however busy the service is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import takewhile

from load_tests.traffic import Call

Ask = Callable[[Call, float], Coroutine[None, None, None]]


async def crowd(ask: Ask, calls: Iterable[Call], arrivals_s: Iterable[float], length_s: float) -> None:
    """Starts each request at its time and returns when the last one has ended.

    Args:
        ask: Makes one request; gets it and when it was due, seconds from the start.
        calls: What is asked for.
        arrivals_s: When, ascending, seconds from the start.
        length_s: Nobody comes later than this.
    """
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.TaskGroup() as group:
        for call, due_s in zip(calls, takewhile(lambda due_s: due_s < length_s, arrivals_s), strict=False):
            await asyncio.sleep(started + due_s - loop.time())
            group.create_task(ask(call, due_s))
