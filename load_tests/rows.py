"""The rows of the report: what callers saw in each round, and the few numbers that become of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from load_tests.drive import Run
from load_tests.machine import Usage
from load_tests.modes import Scenario
from load_tests.phrases import Phrase
from load_tests.summary import latency_ms, medians, paired_ratio
from load_tests.traffic import Call


@dataclass(slots=True)
class Row:
    """What a scenario gave, one entry per round.

    Attributes:
        scenario: What it was.
        calls: What comes next; all rounds together are one stretch of traffic.
        runs: What the callers saw.
        numbers: Measured numbers by name.
        caches: Answers by their x-cache, over all rounds.
        said: Phrases that were asked for.
        num_repeats: Requests for a phrase that had been asked for before.
    """

    scenario: Scenario
    calls: Iterator[Call]
    runs: list[Run] = field(default_factory=list)
    numbers: list[dict[str, float]] = field(default_factory=list)
    caches: Counter[str] = field(default_factory=Counter)
    said: set[Phrase] = field(default_factory=set)
    num_repeats: int = 0

    def take(self, number: int) -> list[Call]:
        """The next calls."""
        calls = list(islice(self.calls, number))
        for call in calls:
            self.num_repeats += call.phrase in self.said
            self.said.add(call.phrase)
        return calls

    @property
    def all_rounds(self) -> Run:
        """All rounds as one run."""
        answers = [answer for run in self.runs for answer in run.answers]
        return Run(answers, sum(run.elapsed_s for run in self.runs))

    def summary(self) -> dict[str, float]:
        """Medians of the rounds; where a cache fills meanwhile, what callers saw in all rounds as one."""
        return {**medians(self.numbers), **(run_numbers(self.all_rounds) if self.scenario.is_cached else {})}


def to_plain(row: Row, plain: Row) -> dict[str, float]:
    """Throughput and latency of a row against the first one: medians of the rounds' ratios.

    Rows with a cache get faster from round to round; of these, all rounds are compared as one.
    """
    if row.scenario.is_cached:
        compared = [run_numbers(row.all_rounds)], [run_numbers(plain.all_rounds)]
    else:
        compared = row.numbers, plain.numbers
    return {
        f"{name}_to_plain": paired_ratio(*([numbers[name] for numbers in rounds] for rounds in compared))
        for name in ("audio_s_per_s", "mean_ms", "p95_ms")
    }


def run_numbers(run: Run) -> dict[str, float]:
    """What callers saw: rates, latencies, median milliseconds by stage."""
    stages = dict.fromkeys(stage for answer in run.answers for stage in answer.timings_s)
    times = {
        f"{stage}_ms": latency_ms([answer.timings_s.get(stage, 0.0) for answer in run.answers])["p50_ms"]
        for stage in stages
    }
    return {
        "requests_per_s": len(run.answers) / run.elapsed_s,
        "audio_s_per_s": sum(answer.audio_s for answer in run.answers) / run.elapsed_s,
        **latency_ms([answer.latency_s for answer in run.answers]),
        **times,
    }


def usage_numbers(usage: Usage, run: Run) -> dict[str, float]:
    """What the replicas took meanwhile: cores kept busy, most resident memory."""
    return {"cpu_cores": usage.cpu_s / run.elapsed_s, "peak_mib": usage.peak_bytes / 2**20}


def hit_rate(caches: Counter[str]) -> float:
    """Part of the requests that the cache answered, those that it answered in part counting half."""
    return (caches["hit"] + caches["partial"] / 2) / max(1, caches.total())
