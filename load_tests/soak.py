"""Soak: many requests to the bundled voice, and whether any process of the service grows meanwhile.

    python -m load_tests.soak --requests 2000 --no-cache --output soak.json

Serves with the settings of configs/local.yaml on a Ray cluster of its own and asks with the seeded traffic model. A
part of the callers asks for a stream and hangs up at its first piece, half of the others hear their stream to the end,
the rest asks for whole files. Memory (USS), open files, threads and asyncio tasks of every process are read at 200
requests and then ten times, each time when all answers are out. Ends with 1 when memory at the end is over 5 % above
that at 200 requests, when files, threads or tasks grew, or when any request failed; with 0 otherwise.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from deployments.settings import Settings
from deployments.voices.store import VoiceStore
from load_tests import machine
from load_tests.commandline import parser_of
from load_tests.drive import Client
from load_tests.modes import BUNDLED, local_mode
from load_tests.tables import number, table
from load_tests.traffic import Call, Traffic
from load_tests.watch import RAY_ENVIRONMENT, Sample, growth, read, rows

APPLICATION: Final = "soak"
WARM_UP: Final = 200
NUM_SAMPLES: Final = 10
SETTLE_S: Final = 4.0
"""Dropped streams and closed connections are cleared up after the callers have their answers; Ray tells tasks late."""
NUM_PHRASES: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asks for; see `parse`."""

    requests: int | None
    minutes: float | None
    callers: int
    abort: float
    cache: bool
    seed: int
    output: Path | None


@dataclass(slots=True)
class Tally:
    """What became of the requests.

    Attributes:
        answered: All that ended, failed ones too.
        kinds: How they were asked, and how often.
        failures: What went wrong, one sentence each.
    """

    answered: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; ends the process where it is wrong."""
    parser = parser_of("soak", __doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--requests", type=int, help="how many in all; 2000 if --minutes is not given either")
    length.add_argument("--minutes", type=float, help="how long, the warm-up of 200 requests not counted")
    parser.add_argument("--callers", type=int, default=8, help="at once (default: 8)")
    parser.add_argument("--abort", type=float, default=0.2, help="part that hangs up early (default: 0.2)")
    parser.add_argument("--no-cache", action="store_true", help="synthesise every request; else with a small cache")
    parser.add_argument("--seed", type=int, default=0, help="of the traffic (default: 0)")
    parser.add_argument("--output", type=Path, help="file for the samples as JSON")
    found = parser.parse_args(arguments)
    if found.requests is not None and found.requests <= WARM_UP:
        parser.error(f"--requests must be more than the {WARM_UP} of the warm-up")
    if found.callers < 1 or not 0 <= found.abort <= 1 or (found.minutes is not None and found.minutes <= 0):
        parser.error("--callers must be at least 1, --abort between 0 and 1, --minutes positive")
    return Options(
        requests=2000 if found.requests is None and found.minutes is None else found.requests,
        minutes=found.minutes,
        callers=found.callers,
        abort=found.abort,
        cache=not found.no_cache,
        seed=found.seed,
        output=found.output,
    )


def stretches(calls: Iterator[Call], options: Options) -> Iterator[Iterator[Call]]:
    """The calls after the warm-up in as many parts as there are samples; by number, or by the clock from the first."""
    if options.requests is not None:
        rest = options.requests - WARM_UP
        for index in range(NUM_SAMPLES):
            yield islice(calls, rest * (index + 1) // NUM_SAMPLES - rest * index // NUM_SAMPLES)
        return
    assert options.minutes is not None
    for _ in range(NUM_SAMPLES):
        ends = time.monotonic() + 60 * options.minutes / NUM_SAMPLES
        yield takewhile(lambda _, ends=ends: time.monotonic() < ends, calls)  # type: ignore[misc]  # a bound default


async def drive(client: Client, calls: Iterable[Call], callers: int, tally: Tally) -> None:
    """So many callers ask for all of these, each the next when it has the last; counts what becomes of them."""
    waiting = iter(calls)

    async def caller() -> None:
        for call in waiting:
            kind = kind_of(call, tally.answered)
            try:
                if kind == "file":
                    answer = await client.speak(call.phrase.text, call.phrase.emotion)
                else:
                    answer = await client.listen(call.phrase.text, call.phrase.emotion, leaves=kind == "left")
            except (aiohttp.ClientError, TimeoutError) as error:
                tally.failures.append(f"{kind}: {type(error).__name__} {error} to {call.phrase.text!r}")
            else:
                if answer.status != 200 or not answer.num_bytes:
                    tally.failures.append(
                        f"{kind}: status {answer.status}, {answer.num_bytes} bytes to {call.phrase.text!r}"
                    )
            tally.answered += 1
            tally.kinds[kind] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())


def kind_of(call: Call, index: int) -> str:
    """How a call is made: left at the first piece of its stream, a stream, or a file."""
    return "left" if call.leaves_after_s is not None else ("stream", "file")[index % 2]


async def soak(options: Options, base_url: str, metrics_url: str | None) -> tuple[list[Sample], Tally]:
    """Drives a running service and samples it; prints each sample's line as it comes."""
    folder = VoiceStore.open(Settings.load({"voices": BUNDLED}).voices).folders[0]
    traffic = Traffic(seed=options.seed, num_phrases=NUM_PHRASES, emotions=folder.emotions, disconnects=options.abort)
    calls, tally, samples = traffic.calls(), Tally(), []
    started = time.monotonic()

    def parts() -> Iterator[Iterable[Call]]:
        yield islice(calls, WARM_UP)
        yield from stretches(calls, options)

    for part in parts():
        async with Client(base_url, folder.name, options.callers) as client:
            await drive(client, part, options.callers, tally)
        await asyncio.sleep(SETTLE_S)
        elapsed_s = time.monotonic() - started
        readings = await asyncio.to_thread(read, APPLICATION, metrics_url)
        samples.append(Sample(requests=tally.answered, elapsed_s=elapsed_s, readings=readings))
        memory = ", ".join(f"{name} {reading.uss_bytes / 2**20:.1f}" for name, reading in readings.items())
        print(f"{tally.answered} requests, {elapsed_s:.0f} s; MiB: {memory}", flush=True)
    return samples, tally


def render(samples: Sequence[Sample], tally: Tally, faults: Sequence[str]) -> str:
    """The report as Markdown."""
    parts = []
    for name in samples[-1].readings:
        cells = [
            [
                str(row["requests"]),
                number(row["uss_bytes"] / 2**20, 4),
                str(row["descriptors"]),
                str(row["threads"]),
                "-" if row["tasks"] is None else str(row["tasks"]),
            ]
            for row in rows(samples, name)
        ]
        parts.append(f"## {name}\n\n" + table(["requests", "USS MiB", "files", "threads", "tasks"], cells))
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.kinds.items()))
    parts.append(f"{tally.answered} requests in {samples[-1].elapsed_s:.0f} s ({kinds}); {len(tally.failures)} failed.")
    parts += [f"FAILED {failure}" for failure in tally.failures[:10]]
    parts += [f"GREW {fault}" for fault in faults]
    return "\n\n".join(parts) + "\n"


def as_json(options: Options, samples: Sequence[Sample], tally: Tally, faults: Sequence[str]) -> dict[str, Any]:
    """The report for files."""
    return {
        "machine": machine.describe(),
        "callers": options.callers,
        "abort": options.abort,
        "cache": options.cache,
        "seed": options.seed,
        "requests": dict(tally.kinds),
        "failures": tally.failures,
        "grew": list(faults),
        "processes": {name: rows(samples, name) for name in samples[-1].readings},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Soaks; returns the exit status."""
    options = parse(arguments)
    os.environ.update(RAY_ENVIRONMENT)
    from load_tests.served import Served  # only here: it needs Ray, which takes its time to import

    with TemporaryDirectory(prefix="soak-") as work_dir:
        mode = local_mode(APPLICATION, Path(work_dir), cache=options.cache)
        with Served([mode], BUNDLED) as served:
            samples, tally = asyncio.run(soak(options, served.url(APPLICATION), served.metrics_url()))
    faults = growth(samples)
    print(render(samples, tally, faults))
    if options.output is not None:
        report = as_json(options, samples, tally, faults)
        options.output.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 1 if faults or tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
