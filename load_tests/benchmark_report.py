"""A benchmark's numbers as Markdown: tables to read in a terminal and to paste into a document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from load_tests.tables import NONE, number, table

Format = Callable[[Mapping[str, Any]], str]


def render(report: Mapping[str, Any]) -> str:
    """The whole report as text."""
    parts = [_machine(report)]
    for voice, found in report["voices"].items():
        parts.append(f"## Voice {voice}")
        stages = found.get("stages", {})
        parts += [renderer(stages[name]) for name, renderer in _STAGES.items() if name in stages]
        if "graph" in found:
            parts.append(_graph(found["graph"]))
    return "\n\n".join(parts) + "\n"


def _machine(report: Mapping[str, Any]) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    load = report["load_average"]
    return (
        f"# Benchmark of {report['started']}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}; "
        f"Python {machine['python']}, {versions}. Load average {load['before']} before and {load['after']} after; "
        f"{report['elapsed_s']:.0f} s."
    )


def _text(stage: Mapping[str, Any]) -> str:
    median_ms, worst_ms = number(stage["median_ms"]), number(stage["worst_ms"])
    return f"Text front end: {median_ms} ms per phrase (median), {worst_ms} ms the worst."


def _acoustic(stage: Mapping[str, Any]) -> str:
    rows = [
        [str(batch), number(stage["step_ms"][batch]), number(seconds, 3), number(seconds / stage["sentence_s"]["1"], 2)]
        for batch, seconds in stage["sentence_s"].items()
    ]
    mixed = stage["mixed"]
    return (
        f"Acoustic model, {_threads(stage)}; sentence of {stage['symbols']} symbols, {stage['frames']} frames. "
        f"{mixed['sentences']} sentences of many lengths together: {number(mixed['total_s'], 3)} s, "
        f"{number(100 * mixed['waste'])} % of the time for padding, {number(mixed['batch'])} in a step.\n\n"
        + table(["together", "ms per step", "s per sentence", "to alone"], rows)
    )


def _vocoder(stage: Mapping[str, Any]) -> str:
    titles = list(dict.fromkeys(title for found in stage["backends"].values() for title in found))
    titles = [title for title in titles if title != "unavailable"]
    rows = [[name, *(number(found.get(title), 3) for title in titles)] for name, found in stage["backends"].items()]
    eager = ", ".join(f"{number(seconds, 3)} s on {threads}" for threads, seconds in stage["eager_whole_s"].items())
    together = ", ".join(f"{number(seconds, 3)} s of {batch}" for batch, seconds in stage["sentence_s"].items())
    return (
        f"Vocoder, {_threads(stage)}; {stage['frames']} frames. Eager torch in one piece: {eager} cores, so the "
        f"published code takes about {number(stage['published_s'], 3)} s for the sentence. As configured, per "
        f"sentence: {together} together. Seconds by runtime and window (frames):\n\n"
        + table(["runtime", *titles], rows)
    )


_STAGES: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "text": _text,
    "acoustic": _acoustic,
    "vocoder": _vocoder,
}


def _threads(stage: Mapping[str, Any]) -> str:
    return f"{stage['threads']} thread" + ("s" if stage["threads"] != 1 else "")


_COLUMNS: Final[Mapping[str, Format]] = {
    "": lambda row: str(row["title"]),
    "callers": lambda row: str(row["callers"]),
    "req/s": lambda row: number(row["requests_per_s"], 3),
    "audio s/s": lambda row: number(row["audio_s_per_s"], 3),
    "x plain": lambda row: number(row.get("audio_s_per_s_to_plain")),
    "mean, p95 to it": lambda row: _pair(row, "mean_ms_to_plain", "p95_ms_to_plain", 1),
    "x publ.": lambda row: number(row.get("times_published")),
    "mean ms": lambda row: number(row["mean_ms"], 3),
    "p50": lambda row: number(row["p50_ms"], 3),
    "p95": lambda row: number(row["p95_ms"], 3),
    "p99": lambda row: number(row["p99_ms"], 3),
    "CPU": lambda row: number(row["cpu_cores"]),
    "MiB": lambda row: number(row["peak_mib"], 4),
    "batch": lambda row: _pair(row, "acoustic_batch", "vocoder_batch", 1),
    "waste %": lambda row: _pair(row, "acoustic_waste", "vocoder_waste", 100),
    "hits %": lambda row: NONE if "bypass" in row["caches"] else number(100 * row["hit_rate"]),
}


def _pair(row: Mapping[str, Any], first: str, second: str, factor: float) -> str:
    if first not in row:  # rows of the one sentence say other things than plain
        return NONE
    return f"{number(factor * row[first])}/{number(factor * row[second])}"


_LEGEND: Final = (
    "x plain: seconds of audio per second against the first row; then the same of mean and p95 latency. x publ.: "
    "sentences per second against the published code. CPU: cores that the replicas kept busy. batch, waste: acoustic "
    "model/vocoder."
)


def _graph(graph: Mapping[str, Any]) -> str:
    rows = [[column(row) for column in _COLUMNS.values()] for row in graph["rows"]]
    published_s = number(graph["published_s"], 3)
    lines = [
        f"The service over HTTP, medians of {graph['rounds']} rounds (with a cache: all rounds as one stretch of "
        f"traffic that finds the cache empty); {graph['phrases']} phrases in the traffic. "
        f"{_LEGEND} The published code would take {published_s} s for the one sentence: {graph['sentence']}",
        table(list(_COLUMNS), rows),
    ]
    if overhead := graph.get("overhead"):
        added_ms, http_ms, own_ms = (number(overhead[f"{name}_ms"], 3) for name in ("overhead", "http", "in_process"))
        lines.append(
            f"The graph adds {added_ms} ms (median of pairs): {http_ms} ms over HTTP, {own_ms} ms in one process."
        )
    if repeated := graph.get("repeated_phrase"):
        lines.append(
            f"A phrase from memory takes {number(repeated['above_ms'])} ms more than GET /healthz "
            f"({number(repeated['healthz_ms'])} ms); 16 callers get {number(repeated['hits_per_s'], 3)}/s of it and "
            f"{number(repeated['healthz_per_s'], 3)}/s of GET /healthz."
        )
    return "\n\n".join(lines)
