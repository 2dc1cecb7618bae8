"""Lanes run jobs side by side and say which has ended."""

import threading
import time

import pytest

from deployments.vocoder.lanes import Lanes

WAIT_S = 10.0  # of a test that would otherwise hang


@pytest.fixture
def lanes():
    made = Lanes(2, "test")
    yield made
    made.close()


def test_jobs_run_at_the_same_time_and_the_first_to_end_is_told_first(lanes):
    both, go = threading.Barrier(2), threading.Event()

    def quick():
        both.wait(WAIT_S)
        return "quick"

    def slow():
        both.wait(WAIT_S)
        assert go.wait(WAIT_S)
        return "slow"

    slow_number, quick_number = lanes.start(slow), lanes.start(quick)
    assert lanes.num_running == 2
    assert lanes.wait() == [(quick_number, "quick")]
    assert lanes.num_running == 1
    go.set()
    assert lanes.wait() == [(slow_number, "slow")]


def test_the_oldest_running_job_is_known_from_any_thread(lanes):
    go = threading.Event()
    assert lanes.running_since is None
    before = time.monotonic()
    lanes.start(lambda: go.wait(WAIT_S))
    oldest = lanes.running_since
    assert before <= oldest <= time.monotonic()
    lanes.start(lambda: go.wait(WAIT_S))
    assert lanes.running_since == oldest
    go.set()
    while lanes.num_running:
        lanes.wait()
    assert lanes.running_since is None


def test_wake_ends_a_wait_without_a_result(lanes):
    go = threading.Event()
    number = lanes.start(lambda: go.wait(WAIT_S))
    waker = threading.Timer(0.05, lanes.wake)
    waker.start()
    assert lanes.wait() == []
    go.set()
    assert lanes.wait() == [(number, True)]


def test_what_a_job_raises_reaches_who_waits_and_the_lane_lives_on(lanes):
    def fail():
        raise KeyError("broken")

    for _ in range(3):
        lanes.start(fail)
        with pytest.raises(KeyError, match="broken"):
            lanes.wait()
    lanes.start(lambda: "whole")
    assert [result for _, result in lanes.wait()] == ["whole"]


def test_closed_lanes_finish_what_they_began_and_end():
    lanes, done = Lanes(3, "ending"), threading.Event()
    lanes.start(done.set)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("ending-lane")]
    lanes.close()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(threads) == 3
    assert done.is_set()
    assert not any(thread.is_alive() for thread in threads)
