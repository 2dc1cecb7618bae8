"""From answers to the numbers of a row."""

from collections import Counter

import pytest

from load_tests.drive import Answer, Run
from load_tests.modes import Scenario
from load_tests.rows import Row, hit_rate, run_numbers, to_plain
from load_tests.traffic import Traffic


def test_a_run_becomes_rates_latencies_and_stage_times():
    answers = [
        Answer(latency_s=latency_s, status=200, audio_s=3.0, timings_s={"text": 0.002, "vocoder": latency_s / 2})
        for latency_s in (0.1, 0.2, 0.3)
    ]
    found = run_numbers(Run(answers, elapsed_s=1.5))
    assert found["requests_per_s"] == 2.0
    assert found["audio_s_per_s"] == 6.0
    assert (found["mean_ms"], found["p50_ms"]) == pytest.approx((200.0, 200.0))
    assert (found["text_ms"], found["vocoder_ms"]) == pytest.approx((2.0, 100.0))


def test_a_request_that_is_found_in_part_counts_half():
    assert hit_rate(Counter(hit=2, partial=1, miss=2)) == 0.5
    assert hit_rate(Counter()) == 0


def test_rounds_go_on_in_the_traffic_and_repeats_are_counted():
    traffic = Traffic(num_phrases=4)
    row = Row(Scenario(title="", mode="memory", concurrency=1), traffic.calls())
    calls = row.take(3) + row.take(37)
    assert calls == [call for call, _ in zip(traffic.calls(), range(40), strict=False)]
    assert row.num_repeats == 40 - len({call.phrase for call in calls}) == 36


def row_of(rounds, *, is_cached=False):
    """A row whose rounds answer one request of a second of audio in each of these latencies."""
    row = Row(Scenario(title="", mode="", concurrency=1, is_cached=is_cached), iter(()))
    for latencies_s in rounds:
        answers = [Answer(latency_s=latency_s, status=200, audio_s=1.0) for latency_s in latencies_s]
        row.runs.append(Run(answers, sum(latencies_s)))
        row.numbers.append(run_numbers(row.runs[-1]))
    return row


def test_repeats_are_compared_round_by_round():
    # In the second round the machine was ten times slower for both.
    plain, fast = row_of([[1.0], [10.0], [1.0]]), row_of([[0.5], [5.0], [0.5]])
    assert to_plain(fast, plain) == pytest.approx(
        {"audio_s_per_s_to_plain": 2.0, "mean_ms_to_plain": 0.5, "p95_ms_to_plain": 0.5}
    )
    assert fast.summary()["requests_per_s"] == pytest.approx(2.0)


def test_rounds_of_a_cache_that_fills_are_one():
    plain = row_of([[1.0, 1.0]] * 2)
    cached = row_of([[1.0, 1.0], [0.01, 0.01]], is_cached=True)
    found = to_plain(cached, plain)
    assert found["audio_s_per_s_to_plain"] == pytest.approx(4.0 / 2.02)
    assert found["mean_ms_to_plain"] == pytest.approx(0.505)
    assert cached.summary()["requests_per_s"] == pytest.approx(4 / 2.02)
