"""Batch sizes and waste from counts."""

import pytest

from deployments.counts import RunCounts
from load_tests.efficiency import mean_batch, since, stage_numbers, waste

ENCODER = RunCounts(runs=2, items=6, positions=100, kept=50, seconds=1.0)
DECODER = RunCounts(runs=10, items=30, positions=30, kept=30, seconds=8.0)
POSTNET = RunCounts(runs=1, items=3, positions=100, kept=90, seconds=1.0)
ACOUSTIC = {"encoder": ENCODER, "decoder": DECODER, "postnet": POSTNET}


def test_only_what_ran_in_between_counts():
    after = RunCounts(runs=5, items=20, positions=400, kept=300, seconds=2.5)
    between = since({"encoder": ENCODER}, {"encoder": after})["encoder"]
    assert between == RunCounts(runs=3, items=14, positions=300, kept=250, seconds=1.5)
    assert ENCODER.runs == 2


def test_waste_weighs_by_time():
    assert waste({"encoder": ENCODER}) == 0.5
    # Half of a tenth of the time and a tenth of another tenth.
    assert waste(ACOUSTIC) == pytest.approx(0.06)
    assert waste({"encoder": RunCounts()}) == 0


def test_numbers_of_a_report():
    generator = RunCounts(runs=4, items=8, positions=400, kept=300, seconds=2.0)
    found = stage_numbers(ACOUSTIC, {"generator": generator}, audio_s=20.0)
    assert found["acoustic_batch"] == mean_batch(DECODER) == 3.0
    assert found["vocoder_batch"] == 2.0
    assert found["vocoder_waste"] == 0.25
    assert (found["decoder_ms_per_audio_s"], found["generator_ms_per_audio_s"]) == (400.0, 100.0)


def test_nothing_ran():
    idle = {part: RunCounts() for part in ACOUSTIC}
    assert stage_numbers(idle, {"generator": RunCounts()}, 0.0)["acoustic_batch"] == 0
