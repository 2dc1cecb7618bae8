"""Every series that the stages report beside those of the cache: names, meanings, tags, buckets. No Ray.

A metrics system gets them through `Metrics`. Ray exports a name as ray_sambert_<name>, counts with the ending _total,
histograms with _bucket, _sum and _count, all with the tags deployment, replica and application.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, Literal, Protocol

from deployments.counts import RunCounts

OTHER: Final = "other"
LATENCY_S: Final = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 15.0, 30.0, 60.0)
STAGE_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
FACTORS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A series.

    Attributes:
        name: Of the series.
        kind: "count" only grows, "gauge" is the last value, "histogram" tells how values are spread.
        description: For the metrics system.
        tags: Names of its tags; each has few values.
        buckets: Upper bounds of a histogram.
    """

    name: str
    kind: Literal["count", "gauge", "histogram"]
    description: str
    tags: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


HTTP: Final = (
    Metric("http_requests", "count", "HTTP requests by what became of them; code is ok or that of the error",
           ("route", "status", "code")),
    Metric("http_seconds", "histogram", "Seconds from a request's arrival to the last byte of its answer",
           ("route",), LATENCY_S),
    Metric("live_sessions", "count", "WebSocket sessions that ended, by close code; gone: the caller left", ("close",)),
    Metric("live_sessions_open", "gauge", "WebSocket sessions that are open"),
)  # fmt: skip
SPEECH: Final = (
    Metric("speech_requests", "count", "Texts to speak by what became of them; code is ok, that of the error, or "
           "given_up: the caller left or its time was up", ("voice", "emotion", "code")),
    Metric("first_audio_seconds", "histogram", "Seconds until the first samples of a text were there, by where they "
           "came from: memory, sqlite, redis, miss, bypass", ("source",), LATENCY_S),
    Metric("speech_seconds", "histogram", "Seconds until the last samples of a text were there, without the time that "
           "its caller took to take those before", (), LATENCY_S),
    Metric("audio_seconds", "count", "Seconds of audio that were spoken, pauses not counted", ("voice", "emotion")),
    Metric("real_time_factor", "histogram", "speech_seconds by audio_seconds, text by text", (), FACTORS),
    Metric("text_seconds", "histogram", "Seconds of the text front end, text by text", (), STAGE_S),
    Metric("cache_seconds", "histogram", "Seconds of looking a segment up, or of waiting for another request's "
           "synthesis of it", (), STAGE_S),
)  # fmt: skip
LOAD: Final = (Metric("in_progress", "gauge", "Requests that a replica works on", ("stage",)),)
RETRIES: Final = (Metric("segments_sent_again", "count", "Segments sent again since a replica died under them"),)
MODEL: Final = (
    *LOAD,
    Metric("waiting", "gauge", "Segments that wait for a model to take them in", ("stage",)),
    Metric("queue_seconds", "histogram", "Seconds a segment (in the vocoder: each part of a stream) waited for it",
           ("stage",), STAGE_S),
    Metric("model_seconds", "histogram", "Seconds from its admission to its result", ("stage",), STAGE_S),
    Metric("run_count", "count", "Times that a part of a model ran", ("stage", "part")),
    Metric("run_items", "count", "Items in these runs; by run_count it is the batch size", ("stage", "part")),
    Metric("run_positions", "count", "Tokens, steps or frames computed in these runs", ("stage", "part")),
    Metric("run_kept", "count", "Those of them that were used; the others were padding or context", ("stage", "part")),
    Metric("run_seconds", "count", "Seconds that these runs took", ("stage", "part")),
)  # fmt: skip
METRICS: Final = tuple(dict.fromkeys((*HTTP, *SPEECH, *LOAD, *RETRIES, *MODEL)))


class Metrics(Protocol):
    """A metrics system."""

    def count(self, name: str, amount: float, tags: Mapping[str, str]) -> None:
        """Adds to a count."""

    def gauge(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Sets a gauge."""

    def observe(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Adds a value to a histogram."""


class Gauging:
    """Keeps a gauge of how much of something is going on: `with gauging: ...`.

    Args:
        metrics: Gets the gauge.
        name: Of the gauge.
        tags: Of the gauge.
    """

    def __init__(self, metrics: Metrics, name: str, tags: Mapping[str, str]) -> None:
        self._metrics = metrics
        self._name = name
        self._tags = tags
        self._number = 0
        self._change(0)  # so that the series is there before the first of it

    def __enter__(self) -> None:
        self._change(1)

    def __exit__(self, *_: object) -> None:
        self._change(-1)

    def _change(self, by: int) -> None:
        self._number += by
        self._metrics.gauge(self._name, self._number, self._tags)


class RunReport:
    """Passes on what was run since the last report.

    Args:
        metrics: Gets the counts.
        stage: Tag of all of them.
    """

    def __init__(self, metrics: Metrics, stage: str) -> None:
        self._metrics = metrics
        self._stage = stage
        self._reported: dict[str, RunCounts] = {}

    def report(self, counts: Mapping[str, RunCounts]) -> None:
        """Reports the growth of every number; `counts` is a copy that nobody changes."""
        for part, now in counts.items():
            before = self._reported.get(part, RunCounts())
            for field in fields(RunCounts):
                if (amount := getattr(now, field.name) - getattr(before, field.name)) > 0:
                    name = "run_count" if field.name == "runs" else f"run_{field.name}"
                    self._metrics.count(name, amount, {"stage": self._stage, "part": part})
        self._reported = dict(counts)
