"""Batch sizes, queues and replicas of the running service, from Ray's metrics and from its processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

from load_tests.watch import processes

MAIN_PARTS: Final = {"acoustic": "decoder", "vocoder": "generator"}
"""The part of each model that its batch size is told of."""
GAUGES: Final = {"waiting": "ray_sambert_waiting", "in_progress": "ray_sambert_in_progress"}

Values = dict[str, float]


def values(metrics: str, application: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Name, labels and value of each series of the application.

    Args:
        metrics: In Prometheus' text format.
        application: Its name.
    """
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.labels.get("application") == application:
                yield sample.name, sample.labels, sample.value


def parse(metrics: str, application: str) -> dict[str, Values]:
    """Gauges by stage summed over replicas, and runs and items by stage since the start.

    Args:
        metrics: In Prometheus' text format.
        application: Its name.

    Returns:
        "waiting", "in_progress", "runs" and "items", each by stage.
    """
    found: dict[str, Values] = {"waiting": {}, "in_progress": {}, "runs": {}, "items": {}}
    names = {name: key for key, name in GAUGES.items()}
    names |= {"ray_sambert_run_count_total": "runs", "ray_sambert_run_items_total": "items"}
    for name, labels, value in values(metrics, application):
        key, stage = names.get(name), labels.get("stage", "")
        if key is None or (key in ("runs", "items") and labels.get("part") != MAIN_PARTS.get(stage)):
            continue
        found[key][stage] = found[key].get(stage, 0.0) + value
    return found


def batches(before: dict[str, Values], after: dict[str, Values]) -> Values:
    """Mean batch by stage between two looks; a stage that ran nothing has none."""
    mean = {}
    for stage, runs in after["runs"].items():
        more = runs - before["runs"].get(stage, 0.0)
        if more > 0:
            mean[stage] = (after["items"].get(stage, 0.0) - before["items"].get(stage, 0.0)) / more
    return mean


class Scrape:
    """Looks at one application again and again.

    Args:
        metrics_url: Where Ray's metrics are; None leaves out what comes from there.
        application: Its name.
    """

    def __init__(self, metrics_url: str | None, application: str) -> None:
        self._metrics_url = metrics_url
        self._application = application
        self._last = parse("", application)

    def look(self) -> dict[str, Any]:
        """Batch, waiting and in_progress by stage, replicas by deployment."""
        metrics = httpx.get(self._metrics_url, timeout=10).text if self._metrics_url else ""
        now = parse(metrics, self._application)
        batch, self._last = batches(self._last, now), now
        replicas = Counter(name.split()[0] for name in processes(self._application))
        del replicas["proxy"], replicas["controller"]
        return {
            "batch": batch,
            "waiting": now["waiting"],
            "in_progress": now["in_progress"],
            "replicas": dict(replicas),
        }
