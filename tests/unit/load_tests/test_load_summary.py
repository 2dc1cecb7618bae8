"""Percentiles, medians of repeats, ratios of pairs."""

import pytest

from load_tests.summary import latency_ms, median_seconds, medians, paired_ratio


def test_percentiles_are_in_milliseconds():
    latencies_s = [index / 1000 for index in range(101)]
    found = latency_ms(latencies_s[::-1])
    assert found == pytest.approx({"mean_ms": 50.0, "p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0})
    assert latency_ms([0.25])["p99_ms"] == pytest.approx(250)
    with pytest.raises(ValueError, match="no request"):
        latency_ms([])


def test_one_slow_repeat_does_not_move_the_median():
    repeats = [{"a": 1.0, "b": 10.0}, {"a": 100.0, "b": 12.0}, {"a": 2.0}]
    assert medians(repeats) == {"a": 2.0, "b": 11.0}
    assert medians([]) == {}


def test_a_ratio_is_taken_pair_by_pair():
    # The machine got four times slower for the second pair; the ratio of the medians would be 8.
    assert paired_ratio([2.0, 8.0, 2.0], [1.0, 4.0, 1.0]) == 2.0
    with pytest.raises(ValueError, match="argument 2 is longer"):
        paired_ratio([1.0], [1.0, 2.0])


def test_warm_ups_are_called_and_do_not_count():
    calls = []
    assert median_seconds(lambda: calls.append(1), repeats=3, warm_ups=2) >= 0
    assert len(calls) == 5
