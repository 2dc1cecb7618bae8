"""Load: callers of the traffic model come when they like, in bursts; what they saw, second by second.

    python -m load_tests.load --seconds 60 --output load.json
    python -m load_tests.report load.json --html load.html

Serves the bundled voice with the settings of configs/local.yaml on a Ray cluster of its own, measures what eight busy
callers get out of it, and then sends half as many requests (--share), bursts included, however busy the service is.
Batch sizes and queues come from the service's metrics, replicas from its processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import aiohttp

from deployments.settings import Settings
from deployments.voices.store import VoiceStore
from load_tests import machine
from load_tests.commandline import parser_of
from load_tests.crowd import crowd
from load_tests.drive import Answer, Client, closed_loop
from load_tests.modes import BUNDLED, local_mode
from load_tests.scrape import Scrape
from load_tests.traffic import Call, Traffic
from load_tests.watch import RAY_ENVIRONMENT

if TYPE_CHECKING:
    from load_tests.served import Served  # Ray takes its time to import

APPLICATION: Final = "load"
CAPACITY_CALLERS: Final = 8
CAPACITY_REQUESTS: Final = 64
CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for; see `parse`."""

    seconds: float
    rate_hz: float | None
    share: float
    seed: int
    output: Path


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; ends the process where it is wrong."""
    parser = parser_of("load", __doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long callers come (default: 60)")
    parser.add_argument("--rate", type=float, help="requests per second, instead of a share of what was measured")
    parser.add_argument("--share", type=float, default=0.5, help="of the measured capacity (default: 0.5)")
    parser.add_argument("--seed", type=int, default=0, help="of the traffic (default: 0)")
    parser.add_argument("--output", type=Path, default=Path("load.json"), help="file for the report's data")
    found = parser.parse_args(arguments)
    if found.seconds <= 0 or found.share <= 0 or (found.rate is not None and found.rate <= 0):
        parser.error("--seconds, --share and --rate must be positive")
    return Options(seconds=found.seconds, rate_hz=found.rate, share=found.share, seed=found.seed, output=found.output)


class Load:
    """One run against a running service.

    Args:
        options: Of the command line.
        served: The service.
        mode: Name of its application.
    """

    def __init__(self, options: Options, served: Served, mode: str) -> None:
        self._options = options
        self._mode = mode
        self._url = served.url(mode)
        self._scrape = Scrape(served.metrics_url(), mode)
        self._folder = VoiceStore.open(Settings.load({"voices": BUNDLED}).voices).folders[0]
        self._traffic = Traffic(seed=options.seed, emotions=self._folder.emotions)
        self._answers: list[dict[str, Any]] = []
        self._samples: list[dict[str, Any]] = []

    async def run(self) -> dict[str, Any]:
        """Measures, drives and samples; returns the report's data."""
        capacity_hz = await self._capacity_hz()
        rate_hz = self._options.rate_hz or self._options.share * capacity_hz
        print(f"eight busy callers get {capacity_hz:.2f} answers/s; callers now send {rate_hz:.2f}/s", flush=True)
        traffic = replace(self._traffic, rate_hz=rate_hz, burst_every_s=20, burst_length_s=3, disconnects=0.05)
        async with Client(self._url, self._folder.name, CONNECTIONS) as client:
            self._client = client
            self._started = time.monotonic()
            sampler = asyncio.create_task(self._sample())
            try:
                await crowd(self._ask, traffic.calls(), traffic.arrivals(), self._options.seconds)
            finally:
                sampler.cancel()
                await asyncio.gather(sampler, return_exceptions=True)
        return {
            "machine": machine.describe(),
            "capacity_hz": capacity_hz,
            "rate_hz": rate_hz,
            "seed": self._options.seed,
            "elapsed_s": time.monotonic() - self._started,
            "answers": self._answers,
            "samples": self._samples,
        }

    async def _capacity_hz(self) -> float:
        """Answers per second of busy callers, most phrases of whom are new to the service."""
        calls = replace(self._traffic, seed=self._options.seed + 1).calls()
        async with Client(self._url, self._folder.name, CAPACITY_CALLERS) as client:
            await closed_loop(client, islice(calls, CAPACITY_CALLERS), CAPACITY_CALLERS)
            run = await closed_loop(client, islice(calls, CAPACITY_REQUESTS), CAPACITY_CALLERS)
        return len(run.answers) / run.elapsed_s

    async def _ask(self, call: Call, due_s: float) -> None:
        streams = call.phrase.persona == "assistant"
        leaves = streams and call.leaves_after_s is not None
        try:
            if streams:
                answer = await self._client.listen(call.phrase.text, call.phrase.emotion, leaves=leaves)
            else:
                answer = await self._client.speak(call.phrase.text, call.phrase.emotion)
        except (aiohttp.ClientError, TimeoutError) as error:
            answer = Answer(latency_s=0.0, status=0, code=type(error).__name__)
        self._answers.append(
            {
                "persona": call.phrase.persona,
                "due_s": due_s,
                "latency_s": time.monotonic() - self._started - due_s,
                "first_s": answer.first_s,
                "status": answer.status,
                "code": answer.code,
                "cache": answer.cache,
                "audio_s": answer.audio_s,
                "left": leaves,
            }
        )

    async def _sample(self) -> None:
        while True:
            found = await asyncio.to_thread(self._scrape.look)
            self._samples.append({"time_s": time.monotonic() - self._started, **found})
            await asyncio.sleep(1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs and writes the data; returns the exit status."""
    options = parse(arguments)
    os.environ.update(RAY_ENVIRONMENT)
    from load_tests.served import Served  # only here: it needs Ray, which takes its time to import

    with TemporaryDirectory(prefix="load-") as work_dir:
        mode = local_mode(APPLICATION, Path(work_dir), cache=True)
        with Served([mode], BUNDLED) as served:
            found = asyncio.run(Load(options, served, mode.name).run())
    options.output.write_text(json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found['answers'])} answers in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
