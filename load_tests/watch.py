"""What the processes of the running service hold, and whether it grew."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

MEMORY_GROWTH: Final = 0.05
"""Part of its memory by which a process may have grown at the end."""
SLACK: Final = {"descriptors": 4, "threads": 2}
"""Connections and pools come and go a little; what leaks with requests is far more after a thousand of them."""
TASKS_SLACK: Final = 8
RAY_ENVIRONMENT: Final = {"RAY_SERVE_EVENT_LOOP_MONITORING_INTERVAL_S": "1", "RAY_metrics_report_interval_ms": "1000"}
"""Has Ray count tasks every second; its own pace would show those of the stretch before."""
_ROLES: Final = {"ray::ProxyActor": "proxy", "ray::ServeController": "controller"}
_REPLICA: Final = "ray::ServeReplica:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at one process.

    Attributes:
        pid: Of the process.
        uss_bytes: Memory that would be free if it ended. Resident memory would count the pages of Ray's object store
            and of libraries that it shares with others, more of them the more it has touched, without using any itself.
        descriptors: Open files and connections.
        threads: Running in it.
        tasks: Of its event loops, where Ray tells them.
    """

    pid: int
    uss_bytes: int
    descriptors: int
    threads: int
    tasks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the service.

    Attributes:
        requests: That had been answered.
        elapsed_s: Since the first one.
        readings: By process.
    """

    requests: int
    elapsed_s: float
    readings: Mapping[str, Reading]


def role(title: str, application: str) -> str:
    """What a process of Ray does for an application: a deployment, proxy, controller; empty for all others.

    Args:
        title: First word of its command line, which Ray sets to what it runs.
        application: Name of the application.
    """
    if title.startswith(_REPLICA):
        owner, _, deployment = title.removeprefix(_REPLICA).partition(":")
        return re.split(r"[:.#]", deployment)[0] if owner == application else ""
    return next((name for start, name in _ROLES.items() if title.startswith(start)), "")


def named(titles: Iterable[tuple[int, str]], application: str) -> dict[str, int]:
    """Process ids by name: the role, numbered from the second of the same role on."""
    found: dict[str, int] = {}
    for pid, title in sorted(titles):
        if name := role(title, application):
            number = 1 + sum(known.split()[0] == name for known in found)
            found[name if number == 1 else f"{name} {number}"] = pid
    return found


def processes(application: str) -> dict[str, psutil.Process]:
    """The service's processes by name. Only those that this process started: others may run a service too."""
    own = {process.pid: process for process in psutil.Process().children(recursive=True)}
    return {name: own[pid] for name, pid in named(((pid, title(own[pid])) for pid in own), application).items()}


def title(process: psutil.Process) -> str:
    """First word of a command line; empty where there is none any more."""
    try:
        return (process.cmdline() or [""])[0]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def read(application: str, metrics_url: str | None) -> dict[str, Reading]:
    """Looks at every process of an application.

    Args:
        application: Its name.
        metrics_url: Where Ray's metrics are, for the tasks; None does without.
    """
    tasks = parse_tasks(httpx.get(metrics_url, timeout=10).text, application) if metrics_url else {}
    found = {}
    for name, process in processes(application).items():
        with process.oneshot():
            found[name] = Reading(
                pid=process.pid,
                uss_bytes=process.memory_full_info().uss,
                descriptors=process.num_fds(),
                threads=process.num_threads(),
                tasks=tasks.get(name),
            )
    return found


def parse_tasks(metrics: str, application: str) -> dict[str, int]:
    """Tasks of event loops by process, from Ray's metrics; all loops of a process together.

    Args:
        metrics: In Prometheus' text format.
        application: Name of the application.
    """
    found: dict[str, int] = {}
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples if family.name == "ray_serve_event_loop_tasks" else ():
            labels = sample.labels
            is_replica = labels.get("component") == "replica"
            if not is_replica or labels.get("application") == application:
                name = labels.get("deployment" if is_replica else "component", "")
                found[name] = found.get(name, 0) + round(sample.value)
    return found


def growth(samples: Sequence[Sample]) -> list[str]:
    """What grew between the first and the last sample, or was started anew; nothing where all is well."""
    first, last = samples[0].readings, samples[-1].readings
    found = [f"{name} is gone" for name in first if name not in last]
    for name, end in last.items():
        start = first.get(name)
        if start is None or start.pid != end.pid:
            found.append(f"{name} was started anew")
            continue
        if end.uss_bytes > start.uss_bytes * (1 + MEMORY_GROWTH):
            part = 100 * (end.uss_bytes / start.uss_bytes - 1)
            found.append(f"{name} has {part:.1f} % more memory, {100 * MEMORY_GROWTH:.0f} % are allowed")
        for what, slack in SLACK.items():
            more = getattr(end, what) - getattr(start, what)
            if more > slack:
                found.append(f"{name} has {more} more {what}, {slack} are allowed")
        if start.tasks is not None and end.tasks is not None and end.tasks - start.tasks > TASKS_SLACK:
            found.append(f"{name} has {end.tasks - start.tasks} more tasks, {TASKS_SLACK} are allowed")
    return found


def rows(samples: Sequence[Sample], name: str) -> list[dict[str, Any]]:
    """One process through all samples, for tables and files."""
    return [
        {
            "requests": sample.requests,
            "elapsed_s": round(sample.elapsed_s, 1),
            **{field: getattr(reading, field) for field in Reading.__dataclass_fields__},
        }
        for sample in samples
        if (reading := sample.readings.get(name)) is not None
    ]
