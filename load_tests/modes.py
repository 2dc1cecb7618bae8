"""The ways of serving that the benchmark compares, each the settings of a whole application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from deployments.settings import Settings

CONFIG: Final = Path(__file__).parent.parent / "configs" / "local.yaml"
BUNDLED: Final = {"sources": [{"model": "bundled"}]}
SMALL_CACHE: Final = {"memory_bytes": 1 << 20, "text_memo_bytes": 1 << 18, "ledger_entries": 100}
"""Full after the warm-up; a cache that still fills is no leak, but would hide one."""
REPLICA: Final = {"replicas": {"num_cpus": 0.1}}
"""All stages stand on one machine, however few its cores are."""


REQUEST_TIMEOUT_S: Final = 280.0
"""A slow mode on a slow machine is to be measured, not cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One row of the report.

    Attributes:
        title: Of the row.
        mode: Name of the application that is asked.
        concurrency: Callers at once.
        is_sentence: Whether all callers ask for the voice's sentence instead of the phrases of the traffic model.
        is_cached: Whether earlier requests make later ones faster.
    """

    title: str
    mode: str
    concurrency: int
    is_sentence: bool = False
    is_cached: bool = False


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One way of serving.

    Attributes:
        name: Of the application and its route.
        change: What its settings say beside the defaults.
    """

    name: str
    change: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, voices: Mapping[str, Any]) -> Settings:
        """Settings of the application.

        Args:
            voices: The section voices.
        """
        stages = ("ingress", "normalizer", "acoustic", "vocoder")
        raw: dict[str, Any] = {stage: {**REPLICA, **self.change.get(stage, {})} for stage in stages}
        raw["ingress"]["request_timeout_s"] = REQUEST_TIMEOUT_S
        return Settings.load({**raw, "cache": self.change.get("cache", {}), "voices": voices})


NO_CACHE: Final = {"enabled": False}
ALONE: Final = {"batching": {"max_batch_size": 1}}


def modes(work_dir: Path, num_cores: int, redis_url: str | None = None) -> tuple[Mode, ...]:
    """All modes, from plain to the whole.

    Args:
        work_dir: For files of the cache.
        num_cores: Cores of the machine; plain, which does one thing at a time, gets all of them for each model.
        redis_url: Adds the mode with this Redis behind the memory.
    """
    one_segment = {"max_segments_ahead": 1}
    plain_stage = {**ALONE, "threads": num_cores}
    lanes = {"threads": num_cores}
    found = [
        Mode(
            name="plain",
            change={
                "cache": NO_CACHE,
                "normalizer": one_segment,
                "acoustic": plain_stage,
                "vocoder": {**plain_stage, "backend": "torch"},
            },
        ),
        Mode(
            name="fast",
            change={"cache": NO_CACHE, "normalizer": one_segment, "acoustic": ALONE, "vocoder": {**ALONE, **lanes}},
        ),
        Mode(name="batching", change={"cache": NO_CACHE, "vocoder": lanes}),
        Mode(name="memory", change={"cache": {"tier": "none"}, "vocoder": lanes}),
        Mode(
            name="sqlite",
            change={"cache": {"tier": "sqlite", "sqlite": {"folder": str(work_dir / "cache")}}, "vocoder": lanes},
        ),
    ]
    if redis_url is not None:
        redis = {"url": redis_url, "prefix": f"benchmark-{work_dir.name}"}
        found.append(Mode(name="redis", change={"cache": {"tier": "redis", "redis": redis}, "vocoder": lanes}))
    return tuple(found)


def scenarios(present: Sequence[Mode]) -> tuple[Scenario, ...]:
    """The rows of the report, in the order of the modes that are present."""
    titles = {
        "memory": "+ cache in memory",
        "sqlite": "+ cache in memory and SQLite",
        "redis": "+ cache in memory and Redis",
    }
    rows = [
        Scenario(title="plain", mode="plain", concurrency=1),
        Scenario(title="+ fast runtimes", mode="fast", concurrency=1),
        *(Scenario(title="+ batching", mode="batching", concurrency=number) for number in (1, 4, 16)),
        *(
            Scenario(title=titles[mode.name], mode=mode.name, concurrency=4, is_cached=True)
            for mode in present
            if mode.name in titles
        ),
        *(Scenario(title="one sentence", mode="batching", concurrency=number, is_sentence=True) for number in (1, 16)),
    ]
    names = {mode.name for mode in present}
    return tuple(row for row in rows if row.mode in names)


def local_mode(name: str, work_dir: Path, *, cache: bool) -> Mode:
    """The application of configs/local.yaml, with a cache of its own that is soon full, or without one."""
    (application,) = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["applications"]
    with_cache = {**SMALL_CACHE, "sqlite": {"folder": str(work_dir / "cache"), "max_bytes": 4 << 20}}
    return Mode(name=name, change={**application["args"], "cache": with_cache if cache else NO_CACHE})
