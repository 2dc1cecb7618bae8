"""`sambert-serve serve`: Ray Serve with a config, watched from outside, so that it always ends cleanly."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from deployments.command.address import Address
from deployments.command.config import read_config, settings_of
from deployments.command.signals import Signals
from deployments.errors import InvalidRequest, NotReady
from deployments.voices.store import VoiceStore

RUN: Final = (sys.executable, "-m", "ray.serve.scripts", "run")
DEFAULT: Final = ("graph:app", "--name", "speech")
POLL_S: Final = 0.5
ANSWER_S: Final = 5.0
START_S: Final = 30.0
STOP_S: Final = 90.0
LEFTOVERS_S: Final = 15.0
KILLED_S: Final = 5.0
TRY_IT: Final = """
sambert-serve is ready: {url}
  web page   {url}/
  web docs   {url}/docs
  try it     curl -X POST {url}/tts -d '{{"text":"您好，欢迎致电客服中心，请稍候。"}}' -o speech.wav
  stop it    Ctrl-C
"""


def add_to(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "serve", parents=[shared], allow_abbrev=False, help="start the service; Ctrl-C or SIGTERM ends it"
    )
    parser.add_argument(
        "path", nargs="?", metavar="CONFIG", help="serve config; none: default settings on localhost:8000"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serves until it is asked to end.

    What is wrong with the config, its voices or its port is told before Ray is started.

    Raises:
        ConfigurationInvalid: The config is wrong.
        VoiceInvalid: A voice is.
        NotReady: The port is taken, or Ray Serve ended by itself.
    """
    if arguments.path is not None and arguments.config is not None:
        raise InvalidRequest("The config is named twice. Give it once: sambert-serve serve CONFIG.", "config")
    path = arguments.path or arguments.config
    settings = settings_of(path)
    address = Address.of(read_config(Path(path)) if path is not None else {})
    VoiceStore.open(settings.voices)
    if "RAY_ADDRESS" not in os.environ:  # in a cluster that runs already, its own proxy may hold the port
        address.check_free()
    with Signals() as signals:
        Service([*RUN, *([path] if path is not None else DEFAULT)], address).watch(signals)
    return 0


class Service:
    """`serve run` in a session of its own: it gets the signals that are meant for it, and no others.

    Ray Serve ends cleanly on SIGINT alone, and only once Ray is started.

    Args:
        command: `serve run` with its arguments.
        address: Where it will answer.

    Attributes:
        group: Id of the process group of `serve run` and all that it starts.
        is_ready: Set once the service can serve.
    """

    def __init__(self, command: Sequence[str], address: Address) -> None:
        self._address = address
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter)
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.group = self._process.pid
        self.is_ready = threading.Event()
        self._is_started = threading.Event()
        self._is_ending = threading.Event()

    def watch(self, signals: Signals) -> None:
        """Waits until the service has ended.

        Raises:
            NotReady: It ended though nobody asked.
        """
        threading.Thread(target=self._announce, daemon=True).start()
        was_asked = False
        try:
            while self._process.poll() is None and not was_asked:
                was_asked = signals.wait(None)
            if was_asked:
                self._end(signals)
        finally:
            self._is_ending.set()
            self._end_leftovers()
        if not was_asked:
            raise NotReady(f"Ray Serve ended by itself (exit code {self._process.returncode}); see its messages above.")
        sys.stdout.write("sambert-serve has ended.\n")

    def _announce(self) -> None:
        """Tells when the service is ready, and how to try it."""
        while not self._is_ending.is_set():
            if not self._is_started.is_set() and _has_routes(self._address):
                self._is_started.set()
            if self._is_started.is_set() and self._address.answers("/readyz", ANSWER_S) is not None:
                break
            self._is_ending.wait(POLL_S)
        if not self._is_ending.is_set():
            sys.stdout.write(TRY_IT.format(url=self._address.url))
            sys.stdout.flush()
            self.is_ready.set()

    def _end(self, signals: Signals) -> None:
        """Asks the service to end as soon as it can do so cleanly; a second signal ends it at once."""
        sys.stdout.write("\nsambert-serve is ending; Ctrl-C once more ends it at once.\n")
        sys.stdout.flush()
        asks_at = time.monotonic() + START_S
        kills_at = asks_at + STOP_S
        has_asked = False
        while self._process.poll() is None:
            now = time.monotonic()
            if not has_asked and (self._is_started.is_set() or now > asks_at):
                self._process.send_signal(signal.SIGINT)
                has_asked, kills_at = True, now + STOP_S
            if signals.wait(POLL_S) or now > kills_at:
                self._signal_all(signal.SIGKILL)

    def _end_leftovers(self) -> None:
        """Ray's own processes end with the one that started them; those that have not soon are killed."""
        kills_at = time.monotonic() + LEFTOVERS_S
        while self._signal_all(0) and (now := time.monotonic()) < kills_at + KILLED_S:
            if now > kills_at:
                self._signal_all(signal.SIGKILL)
            time.sleep(POLL_S / 5)

    def _signal_all(self, number: int) -> bool:
        """Sends a signal to all processes of the service; whether there are any."""
        with suppress(ChildProcessError):  # as the first process of a container this one inherits what Ray leaves
            os.waitpid(-self.group, os.WNOHANG)
        with suppress(ProcessLookupError):
            os.killpg(self.group, number)
            return True
        return False


def _has_routes(address: Address) -> bool:
    """Whether Ray Serve has the application, so that it is past its own start."""
    with suppress(ValueError):
        return bool(json.loads(address.answers("/-/routes", ANSWER_S) or b"{}"))
    return False
