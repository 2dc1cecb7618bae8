"""How soon sound starts, whether it ever stops, and whether listeners who hang up cost anything.

    python -m load_tests.streams --voice bundled

Serves a voice on a cluster of its own. A player that starts with the first byte must never wait for later ones; after a
listener hangs up the models must stop working for them within a second.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

import aiohttp

from load_tests.commandline import parser_of
from load_tests.efficiency import since
from load_tests.fullsize import make_full_size
from load_tests.modes import Mode
from load_tests.playback import Heard, listen
from load_tests.served import Served
from load_tests.watch import Sample, growth, read

MODE: Final = Mode(name="streams", change={"cache": {"enabled": False}, "vocoder": {"threads": 2}})
FIRST_LIMITS_S: Final = {"bundled": 0.25, "full-size": 0.8}
TOGETHER: Final = 8
TOGETHER_FIRST_LIMIT_S: Final = 1.0
FREED_LIMIT_S: Final = 1.0
LOOK_S: Final = 0.05
SENTENCES: Final = (
    "今天上午，气象台发布了新的天气预报，未来三天本市将迎来一次明显的降温过程，请大家注意添衣保暖。",
    "与此同时，地铁四号线将在周末延长运营时间，方便市民出行，具体安排请留意车站公告。",
    "图书馆新到了一批儿童读物，周六下午还有故事会，欢迎家长带着孩子一起来参加。",
    "最后提醒各位听众，晚高峰期间请尽量乘坐公共交通，遵守交通规则，文明礼让，平安回家。",
    "感谢您的收听，我们明天同一时间再见。",
)


def text_of(number: int, length: int) -> str:
    """A text of so many characters; different numbers start with different sentences."""
    rotated = SENTENCES[number % len(SENTENCES) :] + SENTENCES[: number % len(SENTENCES)]
    text = "".join(rotated)
    return (text * (length // len(text) + 1))[:length]


class Streams:
    """Measurements on a running service.

    Args:
        served: With MODE.
        session: To ask with.
    """

    def __init__(self, served: Served, session: aiohttp.ClientSession) -> None:
        self._served = served
        self._session = session
        self._url = f"{served.url(MODE.name)}/v1/audio/speech"

    async def alone(self, repeats: int) -> list[Heard]:
        """A text of 200 characters, one listener after the other."""
        return [await listen(self._session, self._url, {"input": text_of(number, 200)}) for number in range(repeats)]

    async def together(self, number: int = TOGETHER) -> list[Heard]:
        """So many listeners at once, 200 characters each."""
        bodies: list[dict[str, object]] = [{"input": text_of(index, 200)} for index in range(number)]
        return await asyncio.gather(*(listen(self._session, self._url, body) for body in bodies))

    async def hang_up(self, length: int) -> float:
        """Listens to the first chunk of a long text, hangs up; seconds until the models have stopped working on it."""
        await listen(self._session, self._url, {"input": text_of(0, length)}, stop_after_bytes=1)
        left = perf_counter()
        worked = left
        seen = await self._served.counts(MODE.name)
        while perf_counter() - worked < 4 * LOOK_S + FREED_LIMIT_S / 4:
            await asyncio.sleep(LOOK_S)
            now = await self._served.counts(MODE.name)
            if any(part.runs for old, new in zip(seen, now, strict=True) for part in since(old, new).values()):
                worked = perf_counter()
            seen = now
        return worked - left


async def measure(served: Served, voice: str, repeats: int, hang_ups: int) -> list[str]:
    """Measures, prints; returns what was not as it should be."""
    missed = []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as session:
        streams = Streams(served, session)
        await streams.alone(2)
        heard = await streams.alone(repeats)
        first_s = statistics.median(stream.first_s for stream in heard)
        factor = statistics.median(stream.total_s / stream.audio_s for stream in heard)
        starved_s = max(stream.starved_s for stream in heard)
        print(f"alone: first byte {1000 * first_s:.0f} ms, real-time factor {factor:.3f}, starved {starved_s:.2f} s")
        if first_s > FIRST_LIMITS_S[voice] or starved_s > 0:
            missed.append("one listener")
        together = await streams.together()
        worst_s, starved_s = max(stream.first_s for stream in together), max(stream.starved_s for stream in together)
        print(f"{TOGETHER} together: last first byte {1000 * worst_s:.0f} ms, starved {starved_s:.2f} s")
        if voice == "bundled" and (worst_s > TOGETHER_FIRST_LIMIT_S or starved_s > 0):
            missed.append(f"{TOGETHER} listeners")
        freed_s = []
        before = Sample(requests=0, elapsed_s=0.0, readings=read(MODE.name, None))
        for number in range(hang_ups):
            freed_s.append(await streams.hang_up(1500))
            if number == hang_ups // 10:
                before = Sample(requests=number, elapsed_s=0.0, readings=read(MODE.name, None))
        if freed_s:
            grown = growth([before, Sample(requests=hang_ups, elapsed_s=0.0, readings=read(MODE.name, None))])
            times = f"{1000 * statistics.median(freed_s):.0f} ms, {1000 * max(freed_s):.0f} ms at most"
            print(f"{hang_ups} hung up: free after {times}", *grown, sep="; ")
            if max(freed_s) > FREED_LIMIT_S or grown:
                missed.append("listeners who hang up")
    return missed


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves, measures, prints; returns 1 where a limit is missed."""
    parser = parser_of("streams", __doc__)
    parser.add_argument("--voice", choices=list(FIRST_LIMITS_S), default="bundled")
    parser.add_argument("--repeats", type=int, default=15, help="listeners one after the other")
    parser.add_argument("--hang-ups", type=int, default=200, help="listeners who leave after the first chunk")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        model = "bundled" if options.voice == "bundled" else str(make_full_size(Path(folder)))
        with Served([MODE], {"sources": [{"model": model}]}) as served:
            missed = asyncio.run(measure(served, options.voice, options.repeats, options.hang_ups))
    print(f"missed: {', '.join(missed)}" if missed else "all within their limits")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
