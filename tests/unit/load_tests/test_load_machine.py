"""What reports say of the machine, and what processes are seen to take."""

import os
import subprocess
import sys
import time

import psutil

from load_tests.machine import Usage, describe, load_average, num_cores


def test_a_report_names_machine_and_versions():
    found = describe()
    assert found["cores"] == num_cores() >= 1
    assert found["memory_gib"] > 0
    assert found["versions"]["torch"][0].isdigit()
    assert found["cpu"]
    assert load_average() >= 0


def test_usage_counts_the_cpu_time_and_memory_of_the_block_alone():
    def burn(seconds):
        ends = time.process_time() + seconds
        while time.process_time() < ends:
            pass

    burn(0.3)
    with Usage([psutil.Process(os.getpid())]) as usage:
        burn(0.2)
        block = bytearray(os.urandom(64 << 20))
        burn(0.25)  # longer than the time between two looks
        del block
    assert 0.4 < usage.cpu_s < 3
    assert usage.peak_bytes > 64 << 20


def test_a_process_that_ends_meanwhile_is_no_error():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with Usage([psutil.Process(child.pid)]) as usage:
        child.communicate(b"\n")
    assert child.returncode == 0
    assert usage.cpu_s >= 0
