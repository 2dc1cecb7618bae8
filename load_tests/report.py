"""A page of a load test, and whether it kept to its thresholds.

    python -m load_tests.report load.json --html load.html

Plots latency, batch sizes, queues, replicas and hit rate over time into one file without outside parts. Ends with 1
when a number breaches thresholds.toml, with 2 when a threshold names a number that there is not, with 0 otherwise.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any, Final

from deployments.errors import all_errors
from load_tests.commandline import parser_of
from load_tests.plots import Chart, Points, svg
from load_tests.rows import hit_rate
from load_tests.summary import latency_ms
from load_tests.tables import number

THRESHOLDS: Final = Path(__file__).parent / "thresholds.toml"
PAGE: Final = Path(__file__).parent / "data" / "report.html"
LATE_S: Final = 10.0
WINDOW_S: Final = 5.0
_DOCUMENTED: Final = frozenset((error.status, error.code) for error in all_errors() if error.status != 500)

Answers = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Check:
    """A threshold and what it was held against.

    Attributes:
        name: Of the number.
        value: That was found.
        bound: As in "at most 4000".
        is_kept: Whether the number is within it.
    """

    name: str
    value: float
    bound: str
    is_kept: bool


def is_refusal(status: int, code: str) -> bool:
    """Whether an answer is an error that the README lists, other than the service's own fault."""
    return (status, code) in _DOCUMENTED


def checks(numbers: Mapping[str, float], thresholds: Mapping[str, Mapping[str, float]]) -> list[Check]:
    """Holds numbers against thresholds.

    Raises:
        ValueError: A threshold names a number that there is not, or has neither min nor max.
    """
    found = []
    for name, bounds in thresholds.items():
        if name not in numbers:
            raise ValueError(f"thresholds name {name!r}; there are {', '.join(numbers)}")
        if not bounds or (odd := set(bounds) - {"min", "max"}):
            raise ValueError(f"threshold {name!r} needs min or max" + (f", has {min(odd)!r}" if bounds else ""))
        value = numbers[name]
        for bound, limit in bounds.items():
            is_kept = value <= limit if bound == "max" else value >= limit
            found.append(Check(name, value, f"at {'most' if bound == 'max' else 'least'} {limit:g}", is_kept))
    return found


def load_numbers(answers: Answers) -> dict[str, float]:
    """What the thresholds may name, of all answers of a run."""
    spoken = [answer for answer in answers if answer["status"] == 200]
    refused = [answer for answer in answers if is_refusal(answer["status"], answer["code"])]
    heard = [answer["latency_s"] for answer in spoken if not answer["left"]] or [0.0]
    firsts = [answer["first_s"] for answer in spoken if answer["first_s"] is not None] or [0.0]
    caches = Counter(answer["cache"] for answer in spoken if answer["cache"])
    total = max(1, len(answers))
    return {
        "requests": len(answers),
        "failed_share": (len(answers) - len(spoken) - len(refused)) / total,
        "refused_share": len(refused) / total,
        "late_share": sum(latency_s > LATE_S for latency_s in heard) / total,
        **latency_ms(heard),
        **{f"first_{name}": value for name, value in latency_ms(firsts).items()},
        "hit_rate": hit_rate(caches),
    }


def hit_rates(answers: Answers) -> list[tuple[float, float]]:
    """Hit rate by the second, each over the last WINDOW_S."""
    known = [(answer["due_s"], answer["cache"]) for answer in answers if answer["cache"]]
    ends = max((due_s for due_s, _ in known), default=0.0)
    points = []
    for second in range(1, int(ends) + 2):
        caches = Counter(cache for due_s, cache in known if second - WINDOW_S <= due_s < second)
        if caches:
            points.append((float(second), hit_rate(caches)))
    return points


def charts(report: Mapping[str, Any]) -> list[Chart]:
    """All charts of a load test."""
    personas: dict[str, list[tuple[float, float]]] = {}
    for answer in report["answers"]:
        if answer["status"] == 200 and not answer["left"]:
            personas.setdefault(answer["persona"], []).append((answer["due_s"], answer["latency_s"]))
    samples = report["samples"]
    return [
        Chart(title="Latency, s", series=personas, dots=True),
        Chart(title="Mean batch", series=_by_stage(samples, "batch")),
        Chart(title="Segments that wait for a model", series=_by_stage(samples, "waiting")),
        Chart(title="Requests in progress", series=_by_stage(samples, "in_progress")),
        Chart(title="Replicas", series=_by_stage(samples, "replicas")),
        Chart(title=f"Hit rate of the last {WINDOW_S:g} s", series={"hit rate": hit_rates(report["answers"])}),
    ]


def _by_stage(samples: Sequence[Mapping[str, Any]], name: str) -> dict[str, Points]:
    stages = sorted({stage for sample in samples for stage in sample[name]})
    return {
        stage: [(sample["time_s"], sample[name][stage]) for sample in samples if stage in sample[name]]
        for stage in stages
    }


def page(report: Mapping[str, Any], numbers: Mapping[str, float], held: Sequence[Check]) -> str:
    """The whole report as one HTML file."""
    rows = "".join(
        f'<tr class="{"kept" if check.is_kept else "breach"}"><td>{escape(check.name)}</td>'
        f"<td>{number(check.value, 3)}</td><td>{check.bound}</td></tr>"
        for check in held
    )
    others = ", ".join(f"{escape(name)} {number(value, 3)}" for name, value in numbers.items())
    machine = report["machine"]
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        machine=escape(f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}"),
        traffic=f"{report['rate_hz']:.2f} requests/s; eight busy callers get {report['capacity_hz']:.2f} answers/s.",
        rows=rows,
        numbers=others,
        charts="\n".join(svg(chart, report["elapsed_s"]) for chart in charts(report)),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, prints the checks; returns the exit status."""
    parser = parser_of("report", __doc__)
    parser.add_argument("data", type=Path, help="file of load_tests.load")
    parser.add_argument("--html", type=Path, help="file for the page")
    parser.add_argument("--thresholds", type=Path, default=THRESHOLDS, help="TOML with the bounds (table load)")
    options = parser.parse_args(arguments)
    report = json.loads(options.data.read_text(encoding="utf-8"))
    numbers = load_numbers(report["answers"])
    try:
        held = checks(numbers, tomllib.loads(options.thresholds.read_text(encoding="utf-8"))["load"])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.html is not None:
        options.html.write_text(page(report, numbers, held), encoding="utf-8")
    for check in held:
        print(f"{'kept  ' if check.is_kept else 'BREACH'} {check.name} {number(check.value, 3)}, {check.bound}")
    return 0 if all(check.is_kept for check in held) else 1


if __name__ == "__main__":
    sys.exit(main())
