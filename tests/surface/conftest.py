"""The whole HTTP surface in front of the real stages in this process, as a server on this machine."""

import asyncio
import contextlib
import sys
import threading
from pathlib import Path

import httpx
import pytest
import uvicorn

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "ingress"))
sys.path.insert(0, str(Path(__file__).parents[1] / "cache_backends"))

from deployments.command.pipeline import Pipeline
from deployments.ingress.routes import build_app
from deployments.settings import Settings


class Running:
    """A server on this machine.

    Attributes:
        address: Its base URL.
    """

    def __init__(self, address, loop):
        self.address = address
        self._loop = loop

    def submit(self, coroutine):
        """Runs a coroutine where the application runs; returns a concurrent future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def call(self, coroutine):
        """Waits for a coroutine that runs where the application runs."""
        return await asyncio.wrap_future(self.submit(coroutine))


@contextlib.contextmanager
def serving(app):
    """Serves an application from a thread with a loop of its own, as uvicorn does."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    started = threading.Event()
    startup = server.startup

    async def startup_and_tell(*args, **kwargs):
        await startup(*args, **kwargs)
        server.loop = asyncio.get_running_loop()
        started.set()

    server.startup = startup_and_tell
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()), daemon=True)
    thread.start()
    assert started.wait(20)
    yield Running(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", server.loop)
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture(scope="session")
def settings(tmp_path_factory):
    tasks = {"folder": str(tmp_path_factory.mktemp("tasks"))}
    return Settings.load({"cache": {"tier": "none"}, "ingress": {"tasks": tasks}})


@pytest.fixture(scope="session")
def pipeline(settings):
    """The real stages with the bundled voice. They belong to the loop of the server, see Running.call."""
    return Pipeline(settings)


@pytest.fixture(scope="session")
def surface(pipeline, settings):
    """A server in front of the real stages."""
    with serving(build_app(pipeline, settings.ingress)) as running:
        running.submit(pipeline.__aenter__()).result()
        yield running
        running.submit(pipeline.__aexit__()).result()


@pytest.fixture
async def real(surface):
    """A client of that server."""
    async with httpx.AsyncClient(base_url=surface.address, timeout=60) as client:
        yield client
