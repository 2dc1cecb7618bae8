"""From answers to the numbers of a row."""

from collections import Counter

import pytest

from load_tests.drive import Answer, Run
from load_tests.graph_bench import Row, hit_rate, run_numbers
from load_tests.modes import Scenario
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
