"""Which processes belong to a service, and what counts as growth."""

import os
from dataclasses import replace

import psutil
import pytest

from load_tests.watch import MEMORY_GROWTH, Reading, Sample, growth, named, parse_tasks, role, rows

READING = Reading(pid=7, uss_bytes=100_000, descriptors=40, threads=12, tasks=9)


def samples(*readings):
    return [
        Sample(requests=200 * (index + 1), elapsed_s=30.0 * index, readings={"Vocoder": reading})
        for index, reading in enumerate(readings)
    ]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("ray::ServeReplica:soak:Vocoder", "Vocoder"),
        ("ray::ServeReplica:soak:Vocoder.handle_request", "Vocoder"),
        ("ray::ServeReplica:other:Vocoder", ""),
        ("ray::ProxyActor", "proxy"),
        ("ray::ServeController.listen_for_change", "controller"),
        ("ray::IDLE", ""),
        ("python", ""),
        ("", ""),
    ],
)
def test_roles_of_processes(title, expected):
    assert role(title, "soak") == expected


def test_several_replicas_of_a_stage_are_numbered():
    titles = [(9, "ray::ServeReplica:soak:Acoustic"), (4, "ray::ServeReplica:soak:Acoustic"), (5, "ray::IDLE")]
    assert named(titles, "soak") == {"Acoustic": 4, "Acoustic 2": 9}


def test_what_stays_within_its_bounds_has_not_grown():
    end = replace(READING, uss_bytes=round(100_000 * (1 + MEMORY_GROWTH)), descriptors=44, threads=14, tasks=17)
    assert growth(samples(READING, end)) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"uss_bytes": 105_100}, "5.1 % more memory"),
        ({"descriptors": 45}, "5 more descriptors"),
        ({"threads": 15}, "3 more threads"),
        ({"tasks": 18}, "9 more tasks"),
        ({"pid": 8, "uss_bytes": 900_000}, "started anew"),
    ],
)
def test_each_kind_of_growth_is_told(change, expected):
    (fault,) = growth(samples(READING, replace(READING, **change)))
    assert fault.startswith("Vocoder")
    assert expected in fault


def test_only_the_first_and_the_last_sample_decide():
    peak = replace(READING, uss_bytes=200_000, descriptors=400)
    assert growth(samples(READING, peak, READING)) == []


def test_a_process_that_ended_is_told():
    assert growth([*samples(READING), Sample(requests=9, elapsed_s=1.0, readings={})]) == ["Vocoder is gone"]


def test_tasks_that_are_not_known_are_no_growth():
    assert growth(samples(replace(READING, tasks=None), READING)) == []


def test_rows_of_one_process():
    assert rows(samples(READING, READING), "Vocoder")[1] == {
        "requests": 400,
        "elapsed_s": 30.0,
        "pid": 7,
        "uss_bytes": 100_000,
        "descriptors": 40,
        "threads": 12,
        "tasks": 9,
    }
    assert rows(samples(READING), "proxy") == []


def test_memory_of_this_process_is_its_own():
    block = bytearray(os.urandom(32 << 20))
    with_block = psutil.Process().memory_full_info().uss
    del block
    assert with_block - psutil.Process().memory_full_info().uss > 30 << 20


METRICS = """# HELP ray_serve_event_loop_tasks Number of pending asyncio tasks on the event loop.
# TYPE ray_serve_event_loop_tasks gauge
ray_serve_event_loop_tasks{component="replica",loop_type="main",application="soak",deployment="Vocoder"} 9.0
ray_serve_event_loop_tasks{component="replica",loop_type="user_code",application="soak",deployment="Vocoder"} 4.0
ray_serve_event_loop_tasks{component="replica",loop_type="main",application="other",deployment="Vocoder"} 50.0
ray_serve_event_loop_tasks{component="proxy",loop_type="main",actor_id="1"} 21.0
ray_serve_other{component="proxy"} 3.0
"""


def test_tasks_of_all_loops_of_a_process_together():
    assert parse_tasks(METRICS, "soak") == {"Vocoder": 13, "proxy": 21}
    assert parse_tasks("", "soak") == {}
