"""Numbers of many requests as a few, and the medians of repeats that reports are made of."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter

import numpy as np

Numbers = Mapping[str, float]


def latency_ms(latencies_s: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles.

    Args:
        latencies_s: Of one request each, at least one.

    Returns:
        Milliseconds by name: mean, p50, p95, p99.

    Raises:
        ValueError: There is no request.
    """
    if not latencies_s:
        raise ValueError("there is no request to summarise")
    p50, p95, p99 = 1000 * np.quantile(np.asarray(latencies_s), (0.5, 0.95, 0.99))
    return {"mean_ms": 1000 * statistics.fmean(latencies_s), "p50_ms": p50, "p95_ms": p95, "p99_ms": p99}


def medians(repeats: Iterable[Numbers]) -> dict[str, float]:
    """The median of each number over the repeats that have it, in the order of the first repeat."""
    rows = list(repeats)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: float(statistics.median(row[name] for row in rows if name in row)) for name in names}


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios of numbers that were measured right after each other.

    A machine that others use too is slower now and faster then; pairs see the same machine.

    Raises:
        ValueError: There are not as many of the one as of the other, or none.
    """
    return float(statistics.median(a / b for a, b in zip(numerators, denominators, strict=True)))


def median_seconds(work: Callable[[], object], repeats: int, warm_ups: int = 1) -> float:
    """The median time of a call.

    Args:
        work: What to time.
        repeats: How often, at least once.
        warm_ups: Calls before that do not count.
    """
    for _ in range(warm_ups):
        work()
    times_s = []
    for _ in range(repeats):
        started = perf_counter()
        work()
        times_s.append(perf_counter() - started)
    return statistics.median(times_s)
