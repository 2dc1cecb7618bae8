"""Long texts made of the readings in tests/cases, and what has to hold of their audio and times.

    python -m load_tests.long_texts --number 500

Serves the bundled voice on a cluster of its own and asks for every text with timestamps. Each has to succeed, every
character of what is read has to be in the timestamps, times have to rise and to end with the audio, no join of two
segments may jump by more than the speech around it, and the memory of no replica may grow.
"""

from __future__ import annotations

import asyncio
import base64
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import numpy as np
import soundfile
from numpy.typing import NDArray

from load_tests.commandline import parser_of
from load_tests.modes import BUNDLED, Mode
from load_tests.watch import Sample, growth, read, rows

CASES: Final = Path(__file__).parents[1] / "tests" / "cases"
SHORTEST: Final = 300
LONGEST: Final = 3000
SEPARATORS: Final = ("。", "。", "。", "，", "，", "！", "？", "；", "\n", "\n\n", "……", "：")
AROUND_S: Final = 0.25
"""How far from a join its surroundings reach."""
LIMIT_S: Final = 600.0
CACHE: Final = {"tier": "none", "memory_bytes": 16 << 20, "text_memo_bytes": 1 << 20}
"""Full after the first texts; a cache that still fills is no leak, but would hide one."""


def readings(folder: Path = CASES) -> list[str]:
    """The written forms of all rows, in order of the files' names.

    Args:
        folder: Of the tables.
    """
    lines = (line for path in sorted(folder.glob("*.tsv")) for line in path.read_text(encoding="utf-8").splitlines())
    return [line.split("\t")[0] for line in lines if line and not line.startswith("#")]


def long_texts(rows: Sequence[str], number: int, seed: int = 0) -> Iterator[str]:
    """Texts of 300 to 3,000 characters.

    Args:
        rows: What they are made of.
        number: Of texts.
        seed: The same texts for the same seed.
    """
    random = Random(seed)
    for _ in range(number):
        length, text = random.randint(SHORTEST, LONGEST), ""
        while len(text) < length:
            text += random.choice(rows) + random.choice(SEPARATORS)
        yield text[:LONGEST]


def letters(text: str) -> str:
    """What of a text is read: its letters and digits."""
    return "".join(character for character in text if character.isalnum())


def faults(answer: Mapping[str, Any], analysis: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer.

    Args:
        answer: Of /v1/audio/speech/with-timestamps, in wav.
        analysis: Of /v1/text/analysis for the same text.

    Returns:
        A sentence for each fault.
    """
    wave_S, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(answer["audio"])), dtype="float32")
    segments = answer["segments"]
    found = []
    expected = letters("".join(segment["normalized"] for segment in analysis["segments"]))
    timed = letters("".join(word["text"] for segment in segments for word in segment["words"]))
    if expected != timed:
        found.append(f"the times are of {first_difference(expected, timed)}")
    bounds = [bound for segment in segments for word in segment["words"] for bound in (word["start_s"], word["end_s"])]
    if any(later < earlier for earlier, later in pairwise(bounds)):
        found.append("times fall")
    if bounds and bounds[-1] > len(wave_S) / rate_hz + 1e-3:
        found.append(f"times end at {bounds[-1]} s, the audio at {len(wave_S) / rate_hz} s")
    if abs(answer["duration_s"] - len(wave_S) / rate_hz) > 1e-3:
        found.append("duration_s is not that of the audio")
    joins = [segment[side] for segment in segments for side in ("start_s", "end_s")]
    found += [f"a jump at {join} s" for join in joins if jumps(wave_S, round(join * rate_hz), rate_hz)]
    return found


def first_difference(expected: str, found: str) -> str:
    """Where two strings part, for a message."""
    place = next((index for index, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    place = min(len(expected), len(found)) if place is None else place
    return f"{found[place : place + 12]!r}, not {expected[place : place + 12]!r}, from character {place}"


def jumps(wave_S: NDArray[np.float32], join: int, rate_hz: int) -> bool:
    """Whether the samples at a join differ by more than any neighbours around it do.

    Args:
        wave_S: The audio.
        join: First sample after the join.
        rate_hz: Of the audio.
    """
    around = round(AROUND_S * rate_hz)
    steps = np.abs(np.diff(wave_S[max(0, join - around) : join + around]))
    place = min(join, around) - 1
    at_join = steps[max(0, place - 1) : place + 2]
    others = np.concatenate([steps[: max(0, place - 1)], steps[place + 2 :]])
    quantum = 2 / 32768
    return bool(len(at_join) and at_join.max() > max(others.max(initial=0.0), quantum))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One text."""

    text: str
    audio_s: float
    faults: Sequence[str]


async def ask(session: aiohttp.ClientSession, url: str, text: str) -> Outcome:
    """One text with its times, and what is wrong with them."""
    body = {"input": text, "response_format": "wav"}
    async with session.post(f"{url}/v1/audio/speech/with-timestamps", json=body) as response:
        answer = await response.json()
        if response.status != 200:
            return Outcome(text, 0.0, [f"status {response.status}: {answer}"])
    async with session.post(f"{url}/v1/text/analysis", json={"input": text}) as response:
        analysis = await response.json()
    return Outcome(text, answer["duration_s"], await asyncio.to_thread(faults, answer, analysis))


async def ask_all(url: str, texts: Sequence[str], callers: int) -> list[Outcome]:
    """All texts, so many at once."""
    outcomes: list[Outcome] = []
    waiting = iter(texts)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT_S)) as session:

        async def caller() -> None:
            for text in waiting:
                outcomes.append(await ask(session, url, text))
                print(".", end="", flush=True)

        await asyncio.gather(*(caller() for _ in range(callers)))
    print()
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves, asks, prints; returns 1 where anything is wrong."""
    parser = parser_of("long_texts", __doc__)
    parser.add_argument("--number", type=int, default=500, help="of texts")
    parser.add_argument("--callers", type=int, default=3, help="texts at once")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    from load_tests.served import Served  # only here: it needs Ray, which takes its time to import

    mode = Mode(name="long", change={"cache": CACHE, "vocoder": {"threads": 2}})
    texts = list(long_texts(readings(), options.number, options.seed))
    with Served([mode], BUNDLED) as served:
        settled = max(1, len(texts) // 5)
        outcomes = asyncio.run(ask_all(served.url(mode.name), texts[:settled], options.callers))
        before = Sample(requests=settled, elapsed_s=0.0, readings=read(mode.name, None))
        outcomes += asyncio.run(ask_all(served.url(mode.name), texts[settled:], options.callers))
        after = Sample(requests=len(texts), elapsed_s=0.0, readings=read(mode.name, None))
    wrong = [outcome for outcome in outcomes if outcome.faults]
    for outcome in wrong[:20]:
        print(f"{outcome.text[:40]!r}...: {'; '.join(outcome.faults[:5])}")
    audio_s = sum(outcome.audio_s for outcome in outcomes)
    print(f"{len(outcomes) - len(wrong)} of {len(outcomes)} texts right, {audio_s:.0f} s of audio")
    for name in after.readings:
        sizes = (
            f"{row['uss_bytes'] / 2**20:.0f} MiB after {row['requests']} texts" for row in rows([before, after], name)
        )
        print(f"{name}: {', '.join(sizes)}")
    grown = growth([before, after])
    print(*grown, sep="\n")
    return int(bool(wrong or grown))


if __name__ == "__main__":
    sys.exit(main())
