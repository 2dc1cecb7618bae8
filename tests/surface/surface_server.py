"""A server on this machine for any ASGI application, in a thread with a loop of its own."""

import asyncio
import contextlib
import threading

import uvicorn


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
