"""The table of series is one that Ray and Prometheus take; growth is reported once; gauges count what is going on."""

import re
import time

import pytest

from deployments.counts import RunCounts
from deployments.ingress.admission import ADMISSION
from deployments.metrics import METRICS, Gauging, RunReport
from deployments.normalization.cache.metrics import METRICS as CACHE


class Recorded:
    """A metrics system that keeps what it got, by name and tags."""

    def __init__(self):
        self.counts = {}
        self.gauges = []

    def count(self, name, amount, tags):
        assert amount > 0
        key = (name, tags["stage"], tags["part"])
        self.counts[key] = self.counts.get(key, 0) + amount

    def gauge(self, name, value, tags):
        self.gauges.append((name, value, tags))


def test_names_are_unique_and_fit_prometheus():
    names = [metric.name for metric in (*METRICS, *ADMISSION, *CACHE)]
    assert len(set(names)) == len(names)
    for metric in (*METRICS, *ADMISSION, *CACHE):
        assert re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", metric.name), metric.name
        assert metric.description
        assert not {"deployment", "replica", "application", "le"} & set(metric.tags), metric.name
        assert not metric.name.endswith(("_total", "_bucket", "_sum")), metric.name


@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric.kind == "histogram"], ids=lambda m: m.name)
def test_buckets_rise_from_above_zero(metric):
    assert metric.buckets[0] > 0
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_only_growth_is_reported():
    recorded = Recorded()
    report = RunReport(recorded, "vocoder")
    report.report({"generator": RunCounts(runs=2, items=6, positions=100, kept=80, seconds=0.5)})
    report.report({"generator": RunCounts(runs=2, items=6, positions=100, kept=80, seconds=0.5)})
    report.report({"generator": RunCounts(runs=3, items=7, positions=164, kept=80, seconds=0.75)})
    parts = {name: amount for (name, stage, part), amount in recorded.counts.items()}
    assert parts == {
        "run_count": 3,
        "run_items": 7,
        "run_positions": 164,
        "run_kept": 80,
        "run_seconds": 0.75,
    }
    assert {(stage, part) for _, stage, part in recorded.counts} == {("vocoder", "generator")}


def test_every_number_of_a_run_has_a_series():
    recorded = Recorded()
    counts = RunCounts()
    counts.add(items=1, positions=2, kept=1, started_s=time.perf_counter() - 1)
    RunReport(recorded, "acoustic").report({"encoder": counts})
    assert {name for name, _, _ in recorded.counts} == {m.name for m in METRICS if m.name.startswith("run_")}


def test_a_gauge_falls_back_also_after_a_fault():
    recorded = Recorded()
    gauging = Gauging(recorded, "in_progress", {"stage": "ingress"})
    with gauging:
        with pytest.raises(ValueError, match="fault"), gauging:
            raise ValueError("fault")
        assert recorded.gauges[-1] == ("in_progress", 1, {"stage": "ingress"})
    assert [value for _, value, _ in recorded.gauges] == [0, 1, 2, 1, 0]
