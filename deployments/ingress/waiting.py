"""Waiting for work as long as somebody wants its result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.types import Receive

from deployments.errors import ClientGone, DeadlineExceeded

Result = TypeVar("Result")
# how long work that was given up may take to clean up before the caller's answer goes out all the same
GRACE_S = 1.0


async def while_wanted(work: Awaitable[Result], receive: Receive | None, limit_s: float) -> Result:
    """Awaits work as long as its caller is there and its time is not up; gives it up otherwise.

    Args:
        work: Cancelled when it is given up, and awaited until it has cleaned up.
        receive: The connection, its body read; tells when the caller goes. None where nothing tells.
        limit_s: Seconds.

    Raises:
        DeadlineExceeded: The time is up.
        ClientGone: The caller went away.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(receive) if receive else asyncio.Event().wait())
    try:
        await asyncio.wait((task, gone), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if gone.done():  # however it ended: a connection that fails to tell is gone too
            raise ClientGone("The caller went away before the answer was complete.")
        raise DeadlineExceeded(
            f"The answer was not finished within {limit_s:g} s. Send less text or retry when the service is less busy."
        )
    finally:
        await give_up(gone, task)


async def give_up(*futures: asyncio.Future[Any]) -> None:
    """Cancels what is not done and waits a moment for it to clean up; what it has to say is of no interest."""
    for future in futures:
        future.cancel()
        future.add_done_callback(_ignore)
    if futures:
        await asyncio.wait(futures, timeout=GRACE_S)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _ignore(future: asyncio.Future[Any]) -> None:
    """Takes what a future that was given up has to say, which asyncio would log as lost otherwise."""
    if not future.cancelled():
        future.exception()
