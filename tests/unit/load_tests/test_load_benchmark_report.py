"""The report reads as it should."""

import pytest

from load_tests.benchmark_report import render
from load_tests.tables import number, table

ROW = {
    "title": "plain",
    "mode": "plain",
    "callers": 1,
    "requests_per_s": 1.5,
    "audio_s_per_s": 8.25,
    "audio_s_per_s_to_plain": 1.0,
    "mean_ms_to_plain": 1.0,
    "p95_ms_to_plain": 0.5,
    "mean_ms": 640.0,
    "p50_ms": 600.0,
    "p95_ms": 1200.0,
    "p99_ms": 1500.0,
    "cpu_cores": 1.25,
    "peak_mib": 1387.4,
    "acoustic_batch": 3.5,
    "vocoder_batch": 1.25,
    "acoustic_waste": 0.05,
    "vocoder_waste": 0.25,
    "caches": {"bypass": 16},
    "hit_rate": 0.0,
}
REPORT = {
    "started": "2026-01-31 12:00",
    "elapsed_s": 61.4,
    "load_average": {"before": 0.1, "after": 2.0},
    "machine": {
        "cpu": "Some CPU",
        "cores": 2,
        "memory_gib": 4.0,
        "system": "Linux",
        "python": "3.11.7",
        "versions": {"torch": "2.13.0"},
    },
    "voices": {
        "bundled": {
            "stages": {
                "text": {"median_ms": 2.25, "worst_ms": 9.1},
                "acoustic": {
                    "threads": 1,
                    "symbols": 57,
                    "frames": 456,
                    "sentence_s": {"1": 0.4, "16": 0.1},
                    "step_ms": {"1": 2.5, "16": 9.0},
                    "mixed": {"sentences": 16, "total_s": 1.5, "batch": 9.5, "waste": 0.045},
                },
                "vocoder": {
                    "threads": 1,
                    "frames": 456,
                    "eager_whole_s": {"1": 2.0, "2": 1.6},
                    "published_s": 4.0,
                    "sentence_s": {"1": 0.5, "4": 0.45},
                    "backends": {"torch": {"settings": 1.9, "64": 2.1}, "other": {"unavailable": "not installed"}},
                },
            },
            "graph": {
                "rounds": 3,
                "phrases": 32,
                "sentence": "您好。",
                "published_s": 4.0,
                "rows": [
                    ROW,
                    {**ROW, "title": "+ cache", "caches": {"hit": 1, "miss": 1}, "hit_rate": 0.5, "callers": 4},
                    {**ROW, "title": "one sentence", "times_published": 6.25},
                ],
                "overhead": {"overhead_ms": 12.5, "http_ms": 512.5, "in_process_ms": 500.0},
                "repeated_phrase": {"above_ms": 3.5, "healthz_ms": 7.0, "hits_per_s": 120.0, "healthz_per_s": 200.0},
            },
        }
    },
}


def test_columns_are_aligned():
    assert table(["name", "s"], [["a", "1.5"], ["longer", "10"]]).splitlines() == [
        "| name   |   s |",
        "|--------|----:|",
        "| a      | 1.5 |",
        "| longer |  10 |",
    ]
    with pytest.raises(ValueError, match="1 cells under 2 headers"):
        table(["name", "s"], [["a"]])


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.5, 3, "1234"),
        (12.345, 3, "12.3"),
        (0.012345, 3, "0.0123"),
        (0.1, 3, "0.100"),
        (0.00001, 2, "0.000010"),
        (1.0, 2, "1.0"),
        (0, 2, "0"),
        (-12.3, 2, "-12"),
        (None, 2, "-"),
    ],
)
def test_numbers_have_so_many_digits(value, digits, text):
    assert number(value, digits) == text


def test_the_whole_report():
    text = render(REPORT)
    for part in (
        "# Benchmark of 2026-01-31 12:00",
        "Some CPU, 2 cores, 4.0 GiB",
        "torch 2.13.0. Load average 0.1 before and 2.0 after; 61 s.",
        "## Voice bundled",
        "2.2 ms per phrase",
        "together: 1.50 s, 4.5 % of the time for padding, 9.5 in a step.",
        "| 16       |         9.0 |          0.100 |     0.25 |",
        "Eager torch in one piece: 2.00 s on 1, 1.60 s on 2 cores",
        "| runtime | settings |   64 |",
        "| other   |        - |    - |",
        "The published code would take 4.00 s for the one sentence: 您好。",
        "The graph adds 12.5 ms (median of pairs): 512 ms over HTTP, 500 ms in one process.",
        "A phrase from memory takes 3.5 ms more than GET /healthz (7.0 ms)",
    ):
        assert part in text
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith(("| plain", "| + cache", "| one"))]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[0][-3:-1] == ["3.5/1.2", "5.0/25"]
    assert cells[0][:7] == ["plain", "1", "1.50", "8.25", "1.0", "1.0/0.50", "-"]
    assert [row[-1] for row in cells] == ["-", "50", "-"]
    assert cells[2][6] == "6.2"
