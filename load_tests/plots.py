"""Line and dot charts as SVG inside a page: few enough to need no plotting library, and no script to read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

Points = Sequence[tuple[float, float]]

WIDTH: Final = 900
HEIGHT: Final = 220
LEFT, RIGHT, TOP, BOTTOM = 60, 16, 28, 28
COLOURS: Final = ("#2563eb", "#d97706", "#059669", "#dc2626", "#7c3aed", "#0891b2")
NUM_TICKS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart over time.

    Attributes:
        title: Above it, with the unit.
        series: Points (seconds, value) by name.
        dots: Whether points stand alone instead of being joined.
    """

    title: str
    series: Mapping[str, Points]
    dots: bool = False


def ticks(highest: float) -> list[float]:
    """Round numbers from 0 up to the first one that is not below the highest value."""
    rough = max(highest, 1e-9) / NUM_TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [round(index * step, 12) for index in range(math.ceil(highest / step - 1e-9) + 1)] or [0.0]


def svg(chart: Chart, length_s: float) -> str:
    """The chart as an SVG element.

    Args:
        chart: What it shows.
        length_s: End of its axis of time.
    """
    highest = max((value for points in chart.series.values() for _, value in points), default=0.0)
    marks = ticks(highest or 1.0)
    length_s = max(length_s, 1e-9)

    def x(time_s: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * time_s / length_s, 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / marks[-1], 1)

    parts = [f'<text x="{LEFT}" y="16" class="title">{escape(chart.title)}</text>']
    for mark in marks:
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark)}" y2="{y(mark)}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y(mark) + 4}" text-anchor="end">{mark:g}</text>')
    parts += [
        f'<text x="{x(mark)}" y="{HEIGHT - 8}" text-anchor="middle">{mark:g} s</text>'
        for mark in ticks(length_s)
        if mark <= length_s
    ]
    for index, (name, points) in enumerate(chart.series.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [(x(time_s), y(value)) for time_s, value in points]
        if chart.dots:
            parts += [f'<circle cx="{left}" cy="{top}" r="2" fill="{colour}"/>' for left, top in places]
        else:
            joined = " ".join(f"{left},{top}" for left, top in places)
            parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        place = WIDTH - RIGHT - 110 * (len(chart.series) - index)
        parts.append(f'<text x="{place}" y="16" fill="{colour}">{escape(name)}</text>')
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(parts)}</svg>'
