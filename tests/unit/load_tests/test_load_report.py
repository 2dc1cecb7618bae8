"""Numbers, thresholds and the page of a load test."""

import json
import tomllib
import xml.etree.ElementTree as ET

import pytest

from load_tests.crowd import crowd
from load_tests.plots import Chart, svg, ticks
from load_tests.report import THRESHOLDS, checks, hit_rates, is_refusal, load_numbers, main, page
from load_tests.scrape import batches, parse
from load_tests.traffic import Traffic


def answer(**change):
    return {
        "persona": "assistant", "due_s": 1.0, "latency_s": 0.5, "first_s": None, "status": 200, "code": "",
        "cache": "miss", "audio_s": 2.0, "left": False,
    } | change  # fmt: skip


ANSWERS = [
    answer(),
    answer(latency_s=12.0, cache="hit"),
    answer(first_s=0.2, cache="", left=True, latency_s=99.0),
    answer(status=429, code="overloaded", cache=""),
    answer(status=500, code="internal_error", cache=""),
    answer(status=0, code="ServerDisconnectedError", cache=""),
    answer(status=429, code="", cache=""),
    answer(due_s=7.0, cache="partial"),
]
REPORT = {
    "machine": {"cpu": "one <fast>", "cores": 2, "python": "3.11"},
    "capacity_hz": 8.0,
    "rate_hz": 4.0,
    "elapsed_s": 8.0,
    "answers": ANSWERS,
    "samples": [
        {"time_s": 1.0, "batch": {"decoder": 2.5}, "waiting": {}, "in_progress": {}, "replicas": {"Vocoder": 1}},
        {"time_s": 2.0, "batch": {}, "waiting": {"vocoder": 3.0}, "in_progress": {}, "replicas": {"Vocoder": 2}},
    ],
}


def test_numbers_of_answers():
    numbers = load_numbers(ANSWERS)
    assert numbers["requests"] == 8
    assert numbers["refused_share"] == 1 / 8
    assert numbers["failed_share"] == 3 / 8
    assert numbers["late_share"] == 1 / 8
    assert numbers["p50_ms"] == 500
    assert numbers["first_p50_ms"] == pytest.approx(200)
    assert numbers["hit_rate"] == 0.5


def test_no_answers_at_all_are_numbers_too():
    assert load_numbers([])["requests"] == 0


def test_what_is_documented_as_a_refusal():
    assert is_refusal(429, "overloaded")
    assert is_refusal(503, "replica_lost")
    assert not is_refusal(500, "overloaded")
    assert not is_refusal(500, "internal_error")
    assert not is_refusal(200, "")


def test_a_number_is_held_against_both_bounds():
    kept, breach = checks({"p95_ms": 90.0}, {"p95_ms": {"max": 100, "min": 95}})
    assert (kept.is_kept, kept.bound) == (True, "at most 100")
    assert (breach.is_kept, breach.bound) == (False, "at least 95")
    assert all(check.is_kept for check in checks({"p95_ms": 100.0}, {"p95_ms": {"max": 100, "min": 100}}))


@pytest.mark.parametrize("wrong", [{"p96_ms": {"max": 1}}, {"p95_ms": {}}, {"p95_ms": {"most": 1}}])
def test_thresholds_that_say_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="threshold"):
        checks({"p95_ms": 90.0}, wrong)


def test_the_thresholds_of_the_project_name_numbers_that_there_are():
    assert checks(load_numbers(ANSWERS), tomllib.loads(THRESHOLDS.read_text(encoding="utf-8"))["load"])


def test_hit_rates_are_those_of_the_last_seconds():
    points = dict(hit_rates(ANSWERS))
    assert points[2.0] == 0.5
    assert points[8.0] == 0.5  # the one in part; what came six seconds before is forgotten


def test_the_page_is_one_file_with_all_charts():
    numbers = load_numbers(ANSWERS)
    text = page(REPORT, numbers, checks(numbers, {"p50_ms": {"max": 1}, "hit_rate": {"min": 0}}))
    assert text.count("<svg") == 6
    assert "http:" not in text
    assert "https:" not in text
    assert "one &lt;fast&gt;" in text
    assert '<tr class="breach"><td>p50_ms</td>' in text
    assert '<tr class="kept"><td>hit_rate</td>' in text


@pytest.mark.parametrize(("limit", "status"), [(100_000, 0), (1, 1)])
def test_a_breach_ends_with_1(tmp_path, limit, status, capsys):
    (tmp_path / "load.json").write_text(json.dumps(REPORT), encoding="utf-8")
    (tmp_path / "bounds.toml").write_text(f"[load]\np95_ms = {{max = {limit}}}\n", encoding="utf-8")
    arguments = [tmp_path / "load.json", "--html", tmp_path / "load.html", "--thresholds", tmp_path / "bounds.toml"]
    assert main([str(argument) for argument in arguments]) == status
    assert ("BREACH" in capsys.readouterr().out) is bool(status)
    assert (tmp_path / "load.html").read_text(encoding="utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("highest", "expected"),
    [
        (10, [0, 2, 4, 6, 8, 10]),
        (7, [0, 2, 4, 6, 8]),
        (0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (1000, [0, 200, 400, 600, 800, 1000]),
    ],
)
def test_ticks_are_round_and_reach_the_highest_value(highest, expected):
    assert ticks(highest) == expected


def test_points_stand_where_they_belong():
    drawn = ET.fromstring(svg(Chart(title="a & b", series={"x": [(0.0, 0.0), (10.0, 10.0)]}), 10.0))
    (line,) = drawn.iter("polyline")
    assert line.get("points") == "60.0,192.0 884.0,28.0"
    assert "a & b" in "".join(drawn.itertext())
    dots = ET.fromstring(svg(Chart(title="", series={"x": [(5.0, 5.0)]}, dots=True), 10.0))
    assert [(dot.get("cx"), dot.get("cy")) for dot in dots.iter("circle")] == [("472.0", "28.0")]


METRICS = """# TYPE ray_sambert_waiting gauge
ray_sambert_waiting{application="load",stage="vocoder",replica="a"} 3.0
ray_sambert_waiting{application="load",stage="vocoder",replica="b"} 1.0
ray_sambert_waiting{application="other",stage="vocoder",replica="c"} 9.0
# TYPE ray_sambert_run_count_total counter
ray_sambert_run_count_total{application="load",stage="vocoder",part="generator"} 10.0
ray_sambert_run_count_total{application="load",stage="acoustic",part="encoder"} 99.0
# TYPE ray_sambert_run_items_total counter
ray_sambert_run_items_total{application="load",stage="vocoder",part="generator"} 25.0
"""


def test_metrics_of_all_replicas_of_an_application_together():
    found = parse(METRICS, "load")
    assert found["waiting"] == {"vocoder": 4.0}
    assert found["runs"] == {"vocoder": 10.0}
    assert batches(parse("", "load"), found) == {"vocoder": 2.5}
    assert batches(found, found) == {}


async def test_callers_come_in_time_however_long_others_take():
    seen = []

    async def ask(call, due_s):
        seen.append((call.phrase.text, due_s))

    traffic = Traffic(num_phrases=20, rate_hz=200)
    await crowd(ask, traffic.calls(), traffic.arrivals(), 0.1)
    arrivals = traffic.arrivals()
    assert [due_s for _, due_s in seen] == [next(arrivals) for _ in seen]
    assert seen[-1][1] < 0.1 <= next(arrivals)
