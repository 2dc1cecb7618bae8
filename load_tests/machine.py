"""What a report says of the machine it was made on, and what processes take of it."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

PACKAGES: Final = ("sambert-serve", "torch", "ray", "numpy", "onnxruntime", "openvino")
SAMPLE_S: Final = 0.2


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe() -> dict[str, Any]:
    """Machine and versions; a runtime that is not installed has no version."""
    return {
        "cpu": _cpu_name(),
        "cores": num_cores(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def load_average() -> float:
    """Processes that wanted to run, mean of the last minute: far above the benchmark's own, and times say little."""
    return round(psutil.getloadavg()[0], 2)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class Usage:
    """CPU time and peak memory of processes while a `with` block runs.

    Args:
        processes: Those to watch; one that ends meanwhile counts as far as it was seen.

    Attributes:
        cpu_s: CPU seconds of all of them together.
        peak_bytes: Most resident memory of all of them at one time.
    """

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._processes = list(processes)
        self._before_s: dict[int, float] = {}
        self._after_s: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="usage", daemon=True)
        self.cpu_s = 0.0
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._sample(self._before_s)
        self._after_s = dict(self._before_s)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._sample(self._after_s)
        self.cpu_s = sum(after_s - self._before_s.get(pid, after_s) for pid, after_s in self._after_s.items())

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            self._sample(self._after_s)

    def _sample(self, cpu_s: dict[int, float]) -> None:
        total = 0
        for process in self._processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    total += process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            cpu_s[process.pid] = times.user + times.system
        self.peak_bytes = max(self.peak_bytes, total)
