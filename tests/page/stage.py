"""The real stages behind the page: they can be held, made to refuse, and watched."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import aclosing

import uvicorn

from deployments.command.pipeline import Pipeline
from deployments.settings import CacheSettings, Settings


class Stage(Pipeline):
    """The stages with a hand on them.

    Attributes:
        requests: What was asked for, in order.
        refusal: Raised instead of speaking.
        hold: When set, no segment after the first is given before this event is.
        failure: Raised after the first segment, when nothing holds it any more.
        given_up: Set when a caller left before its last segment.
        status: What the stages say of themselves instead of the truth.
    """

    def __init__(self):
        super().__init__(Settings(cache=CacheSettings(tier="none")))
        self.reset()

    def reset(self):
        self.requests = []
        self.refusal = None
        self.failure = None
        self.hold = None
        self.given_up = asyncio.Event()
        self.status = None

    async def speak(self, request):
        self.requests.append(request)
        if self.refusal:
            raise self.refusal
        is_whole = False
        try:
            async with aclosing(super().speak(request)) as segments:
                async for segment in segments:
                    if segment.index and self.hold:
                        await self.hold.wait()
                    if segment.index and self.failure:
                        raise self.failure
                    yield segment
            is_whole = True
        finally:
            if not is_whole:
                self.given_up.set()

    async def stages(self):
        return self.status or await super().stages()


class Server(uvicorn.Server):
    """Leaves the signals to pytest."""

    def capture_signals(self):
        return contextlib.nullcontext()


@contextlib.asynccontextmanager
async def serving(app):
    """Serves an app on a free port of this machine; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await task
