"""The whole service over HTTP: one mode after the other, each alone on its machine, in rounds.

Modes are not served side by side: Serve's controller keeps most of a core busy with twenty deployments that do nothing.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from deployments.messages import SpeechRequest
from deployments.settings import Settings
from load_tests.drive import Answer, Client, closed_loop
from load_tests.efficiency import since, stage_numbers
from load_tests.machine import Usage, load_average
from load_tests.modes import Scenario
from load_tests.phrases import Phrase
from load_tests.pipeline import Pipeline
from load_tests.rows import Row, hit_rate, run_numbers, to_plain, usage_numbers
from load_tests.summary import latency_ms, medians, paired_ratio
from load_tests.traffic import Call, Traffic

if TYPE_CHECKING:
    from load_tests.served import Served  # Ray takes its time to import

SHARES: Final = {"call_centre": 2.0, "shop": 1.0, "assistant": 1.0}
"""Personas of the traffic. A few long texts of the others among so few requests would decide every number."""
REQUESTS_PER_PHRASE: Final = 1.5
"""How many requests of a run come to each phrase of the traffic on average. A day of a call centre has many more; so
the hit rates of this benchmark are rather low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        voice: Whom to ask.
        emotions: Of the voice.
        sentence: What the rows of one sentence say.
        rounds: Times that every scenario runs.
        num_calls: Requests of a scenario per round at least.
        calls_per_caller: Likewise for each caller; with few of them the start and the end of a run, when not all
            callers are busy, weigh much.
        pairs: Requests per round that are compared with the work in one process.
        num_no_ops: Requests per round that do no work.
        yardstick_s: Measures what the published code would take for the sentence.
    """

    voice: str
    emotions: tuple[str, ...]
    sentence: str
    rounds: int
    num_calls: int
    calls_per_caller: int
    pairs: int
    num_no_ops: int
    yardstick_s: Callable[[], float]


class GraphBench:
    """One voice through all scenarios.

    Args:
        served: The running applications.
        scenarios: Rows of the report, plain first.
        plan: How much is measured.
    """

    def __init__(self, served: Served, scenarios: Sequence[Scenario], plan: Plan) -> None:
        self._served = served
        self._plan = plan
        # As many phrases as make the cached rows, which have few callers, see each one so often.
        num_phrases = max(4, round(plan.rounds * plan.num_calls / REQUESTS_PER_PHRASE))
        self._traffic = Traffic(num_phrases=num_phrases, shares=SHARES, emotions=plan.emotions)
        self._rows = [Row(scenario, self._calls(scenario)) for scenario in scenarios]
        self._yardsticks_s: dict[str, list[float]] = {}
        self._overheads: list[dict[str, float]] = []
        self._no_ops_seen: list[dict[str, float]] = []

    def _calls(self, scenario: Scenario) -> Iterator[Call]:
        """The same calls for every scenario, or the voice's sentence again and again."""
        if not scenario.is_sentence:
            return self._traffic.calls()
        phrase = Phrase(self._plan.sentence, "call_centre", self._traffic.emotions[0])
        return (replace(call, phrase=phrase) for call in self._traffic.calls())

    async def run(self, mode: str, in_process: Settings) -> None:
        """Runs all rounds of the mode that is served now.

        Args:
            mode: Its name.
            in_process: Settings of mode batching, for the same work without the graph.
        """
        rows = [row for row in self._rows if row.scenario.mode == mode]
        yardsticks_s = self._yardsticks_s.setdefault(mode, [])
        for row in rows:
            await self._warm_up(row.scenario)
        for _ in range(self._plan.rounds):
            yardsticks_s.append(await asyncio.to_thread(self._plan.yardstick_s))
            for row in rows:
                await self._measure(row)
            if mode == "batching":
                # Built anew each time: an idle pipeline would keep its memory while the service is measured.
                async with Pipeline(in_process) as pipeline:
                    self._overheads.append(await self._overhead(pipeline))
            if mode == "memory":
                self._no_ops_seen.append(await self._no_ops())

    def report(self) -> dict[str, Any]:
        """What all modes gave: rows, yardstick, graph overhead, requests that do no work."""
        return {
            "rounds": self._plan.rounds,
            "phrases": self._traffic.num_phrases,
            "sentence": self._plan.sentence,
            "published_s": statistics.median(time_s for times_s in self._yardsticks_s.values() for time_s in times_s),
            "rows": [self._report(row) for row in self._rows],
            "overhead": medians(self._overheads),
            "repeated_phrase": medians(self._no_ops_seen),
        }

    async def _warm_up(self, scenario: Scenario) -> None:
        async with self._client(scenario.mode, scenario.concurrency) as client:
            # Not one of the phrases that are counted, and of several clauses so that all paths are taken.
            text = "热身一下，一二三。四五六，准备好了。"
            await asyncio.gather(*(client.speak(text, self._traffic.emotions[0]) for _ in range(2)))

    async def _measure(self, row: Row) -> None:
        scenario = row.scenario
        number = max(
            2 if scenario.is_sentence else self._plan.num_calls, self._plan.calls_per_caller * scenario.concurrency
        )
        calls = row.take(number)
        before = await self._served.counts(scenario.mode)
        async with self._client(scenario.mode, scenario.concurrency) as client:
            with Usage(self._served.replicas(scenario.mode)) as usage:
                run = await closed_loop(client, calls, scenario.concurrency)
        after = await self._served.counts(scenario.mode)
        acoustic, vocoder = (since(*looks) for looks in zip(before, after, strict=True))
        ran = stage_numbers(acoustic, vocoder, sum(answer.audio_s for answer in run.answers))
        row.runs.append(run)
        row.numbers.append({**run_numbers(run), **usage_numbers(usage, run), **ran, "load_average": load_average()})
        row.caches.update(answer.cache for answer in run.answers)

    async def _overhead(self, pipeline: Pipeline) -> dict[str, float]:
        """The sentence over HTTP and in this process, in turn."""
        request = SpeechRequest(text=self._plan.sentence, voice=self._plan.voice, emotion=self._traffic.emotions[0])
        differences, over_http, in_process = [], [], []
        async with self._client("batching", 1) as client:
            await pipeline.spoken(request)  # the first one pays for what is made on demand
            for _ in range(self._plan.pairs):
                over_http.append((await client.speak(request.text, request.emotion)).latency_s)
                in_process.append(await _timed(lambda: pipeline.spoken(request)))
                differences.append(over_http[-1] - in_process[-1])
        return {
            "http_ms": latency_ms(over_http)["p50_ms"],
            "in_process_ms": latency_ms(in_process)["p50_ms"],
            "overhead_ms": latency_ms(differences)["p50_ms"],
        }

    async def _no_ops(self) -> dict[str, float]:
        """A phrase that the memory has, against a request that does no work."""
        number = self._plan.num_no_ops
        async with self._client("memory", 16) as client:

            async def hit() -> Answer:
                return await client.speak("您好，请稍候。", self._traffic.emotions[0])

            await hit()
            pairs = [((await client.healthz()).latency_s, (await hit()).latency_s) for _ in range(number)]
            healthz_hz = await _rate_hz(client.healthz, number)
            hit_hz = await _rate_hz(hit, number)
        healthz_ms = latency_ms([healthz_s for healthz_s, _ in pairs])["p50_ms"]
        hit_ms = latency_ms([hit_s for _, hit_s in pairs])["p50_ms"]
        return {
            "healthz_ms": healthz_ms,
            "hit_ms": hit_ms,
            "above_ms": hit_ms - healthz_ms,
            "healthz_per_s": healthz_hz,
            "hits_per_s": hit_hz,
        }

    def _client(self, mode: str, connections: int) -> Client:
        return Client(self._served.url(mode), self._plan.voice, connections)

    def _report(self, row: Row) -> dict[str, Any]:
        report: dict[str, Any] = {
            "title": row.scenario.title,
            "mode": row.scenario.mode,
            "callers": row.scenario.concurrency,
            "requests": row.caches.total(),
            **row.summary(),
            "caches": dict(row.caches),
            "hit_rate": hit_rate(row.caches),
            "repeated": row.num_repeats / row.caches.total(),
        }
        if row.scenario.is_sentence:
            per_sentence_s = [1 / numbers["requests_per_s"] for numbers in row.numbers]
            report["times_published"] = paired_ratio(self._yardsticks_s[row.scenario.mode], per_sentence_s)
        else:
            report |= to_plain(row, self._rows[0])
        return report


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    started = perf_counter()
    await work()
    return perf_counter() - started


async def _rate_hz(request: Callable[[], Awaitable[Answer]], number: int) -> float:
    """Requests per second of 16 callers."""
    started = perf_counter()

    async def caller() -> None:
        for _ in range(-(-number // 16)):
            await request()

    await asyncio.gather(*(caller() for _ in range(16)))
    return -(-number // 16) * 16 / (perf_counter() - started)
