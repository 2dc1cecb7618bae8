"""How much the soak asks for and how."""

import time
from itertools import islice

import pytest

from deployments.settings import Settings
from load_tests.modes import BUNDLED, local_mode
from load_tests.soak import APPLICATION, NUM_SAMPLES, Tally, kind_of, parse, render, stretches
from load_tests.traffic import Traffic
from load_tests.watch import Reading, Sample

CALLS = Traffic(num_phrases=20, disconnects=0.2)


def test_the_defaults():
    options = parse([])
    assert (options.requests, options.minutes, options.callers, options.abort) == (2000, None, 8, 0.2)
    assert options.cache
    assert not parse(["--no-cache"]).cache
    assert parse(["--minutes", "10"]).requests is None


@pytest.mark.parametrize(
    "wrong",
    [
        ["--requests", "200"],
        ["--minutes", "0"],
        ["--callers", "0"],
        ["--abort", "2"],
        ["--requests", "9", "--minutes", "1"],
    ],
)
def test_a_wrong_command_line_is_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        parse(wrong)
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("requests", [201, 2000, 2007])
def test_the_stretches_are_all_requests_after_the_warm_up(requests):
    lengths = [len(list(part)) for part in stretches(CALLS.calls(), parse(["--requests", str(requests)]))]
    assert len(lengths) == NUM_SAMPLES
    assert sum(lengths) == requests - 200
    assert max(lengths) - min(lengths) <= 1


def test_stretches_of_time_end_by_the_clock():
    started = time.monotonic()
    parts = [list(part) for part in stretches(CALLS.calls(), parse(["--minutes", "0.002"]))]
    assert 0.1 < time.monotonic() - started < 5
    assert len(parts) == NUM_SAMPLES
    assert all(parts)


def test_a_fifth_hangs_up_and_the_others_hear_streams_and_files():
    kinds = [kind_of(call, index) for index, call in enumerate(islice(CALLS.calls(), 1000))]
    assert 150 < kinds.count("left") < 250
    assert abs(kinds.count("stream") - kinds.count("file")) < 60


@pytest.mark.parametrize("cache", [True, False])
def test_what_is_served_is_the_local_configuration(tmp_path, cache):
    settings = local_mode(APPLICATION, tmp_path, cache=cache).settings(BUNDLED)
    assert isinstance(settings, Settings)
    assert settings.vocoder.threads == 2
    assert settings.vocoder.replicas.num_cpus == 0.5
    assert settings.cache.enabled is cache
    if cache:
        assert settings.cache.sqlite.folder == str(tmp_path / "cache")


def test_the_report_has_a_table_per_process_and_what_went_wrong():
    reading = Reading(pid=7, uss_bytes=100 << 20, descriptors=40, threads=12)
    samples = [Sample(requests=200, elapsed_s=60.0, readings={"Vocoder": reading, "proxy": reading})]
    tally = Tally(answered=200, failures=["file: status 500, 0 bytes to '好'"])
    tally.kinds.update({"file": 150, "left": 50})
    text = render(samples, tally, ["proxy has 9 more threads, 2 are allowed"])
    assert "## Vocoder" in text
    assert "| 200      |   100.0 |    40 |      12 |     - |" in text
    assert "200 requests in 60 s (150 file, 50 left); 1 failed." in text
    assert "FAILED file: status 500" in text
    assert "GREW proxy has 9 more threads" in text
