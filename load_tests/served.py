"""The application of graph.py in various modes on a Ray cluster of its own."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import httpx
import psutil
import ray
from ray import serve

from graph import build
from load_tests.efficiency import Counts
from load_tests.modes import Mode
from load_tests.watch import title

LOGICAL_CPUS: Final = 8
"""Ray places replicas by these; the modes are asked one after the other, so they may be more than there are cores."""
READY_LIMIT_S: Final = 180.0


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Served:
    """Starts a cluster with one application per mode and ends it; a context manager.

    Args:
        modes: What to serve all the time; see also `application`.
        voices: The section voices of the settings.
    """

    def __init__(self, modes: Sequence[Mode], voices: dict[str, Any]) -> None:
        self._modes = modes
        self._voices = voices
        self._base_url = ""
        self._ending = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as ending:
            ending.callback(self._stop)
            ray.init(
                "local",
                num_cpus=LOGICAL_CPUS,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.WARNING,
            )
            ending.enter_context(ended_by_signals())  # now: Ray has just set a handler of its own
            logging.getLogger("ray.serve").setLevel(logging.WARNING)
            port = free_port()
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            self._base_url = f"http://127.0.0.1:{port}"
            for mode in self._modes:
                self._start(mode)
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    @contextlib.contextmanager
    def application(self, mode: Mode) -> Iterator[None]:
        """Serves one more mode for as long as the context is open."""
        self._start(mode)
        try:
            yield
        finally:
            serve.delete(mode.name)

    def _start(self, mode: Mode) -> None:
        serve.run(build(mode.settings(self._voices)), name=mode.name, route_prefix=f"/{mode.name}")
        self._wait_until_ready(mode)

    def url(self, mode: str) -> str:
        """Where the application of a mode answers."""
        return f"{self._base_url}/{mode}"

    def replicas(self, mode: str) -> list[psutil.Process]:
        """The processes of the replicas of a mode; Ray names them after application and deployment."""
        return [process for process in psutil.process_iter() if title(process).startswith(f"ray::ServeReplica:{mode}:")]

    @staticmethod
    def metrics_url() -> str | None:
        """Where the cluster's metrics are, in Prometheus' format; None where its agent does not tell."""
        nodes = ray.nodes()  # type: ignore[no-untyped-call]  # Ray has not typed it
        port = next((node["MetricsExportPort"] for node in nodes if node["Alive"]), 0)
        return f"http://127.0.0.1:{port}/metrics" if port else None

    async def counts(self, mode: str) -> tuple[Counts, Counts]:
        """What the acoustic model and the vocoder of a mode have run since they started."""
        handles = [serve.get_deployment_handle(stage, app_name=mode) for stage in ("Acoustic", "Vocoder")]
        acoustic, vocoder = [await handle.counts.remote() for handle in handles]
        return acoustic, vocoder

    def _wait_until_ready(self, mode: Mode) -> None:
        ends = time.monotonic() + READY_LIMIT_S
        answer = "no answer"
        while time.monotonic() < ends:
            with contextlib.suppress(httpx.HTTPError):
                response = httpx.get(f"{self.url(mode.name)}/readyz", timeout=10)
                if response.status_code == 200:
                    return
                answer = response.text
            time.sleep(0.2)
        raise TimeoutError(f"mode {mode.name} was not ready within {READY_LIMIT_S} s: {answer}")

    @staticmethod
    def _stop() -> None:
        with contextlib.suppress(Exception):  # the cluster may not have come up; it goes all the same
            serve.shutdown()  # type: ignore[no-untyped-call]  # Ray has not typed it
        ray.shutdown()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends this process as Ctrl-C does, so that what it started is ended too."""

    def leave(signal_number: int, _: object) -> NoReturn:
        sys.exit(128 + signal_number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
