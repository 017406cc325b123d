"""Charts as SVG, drawn by the server: bars of what happened, lines of how long it took.

Shapes carry classes, never styles, so that the page's colours and its Content-Security-Policy hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil

from markupsafe import Markup, escape

from webui.pages import number, span

_WIDTH, _HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 8, 10, 22

# How far apart an axis' lines may be: jobs, and seconds; from a minute on round on a clock.
_COUNTS = (1, 2, 5, *(step * 10**n for n in range(1, 12) for step in (1, 2, 2.5, 5)))
_SECONDS = (
    *(step / 1000 * 10**n for n in range(4) for step in (1, 2, 5)),
    *(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(day * 86_400 for day in _COUNTS),
)


@dataclass(frozen=True, slots=True)
class Series:
    """Values of one thing, one a slot; None where there is none."""

    name: str
    values: Sequence[float | None]

    @property
    def total(self) -> float:
        return sum(value or 0 for value in self.values)

    @property
    def last(self) -> float | None:
        """The latest value there is."""
        return next((value for value in reversed(self.values) if value is not None), None)


def bars(at: Sequence[datetime], series: Sequence[Series], title: str) -> Markup:
    """Stacked bars, the first series at the bottom."""
    totals = [
        sum(value or 0 for value in slot) for slot in zip(*(s.values for s in series), strict=True)
    ]
    marks = _axis(max(totals, default=0), _COUNTS)
    most = marks[-1]
    parts = [_grid(at, marks, number)]
    width = (_WIDTH - _LEFT - _RIGHT) / max(len(at), 1)
    for slot in range(len(at)):
        base = 0.0
        for place, one in enumerate(series, 1):
            value = one.values[slot] or 0
            if not value:
                continue
            top, bottom = _y(base + value, most), _y(base, most)
            parts.append(
                f'<rect class="bar series-{place}" x="{_LEFT + slot * width + width * 0.1:.1f}"'
                f' y="{top:.1f}" width="{max(width * 0.8, 0.8):.1f}"'
                f' height="{max(bottom - top, 0.8):.1f}">'
                f"<title>{at[slot]:%d %b %H:%M} {escape(one.name)} {number(value)}</title></rect>"
            )
            base += value
    return _svg(parts, title)


def lines(at: Sequence[datetime], series: Sequence[Series], title: str) -> Markup:
    """A line a series, of seconds; broken where there is no value."""
    marks = _axis(max((v for s in series for v in s.values if v is not None), default=0), _SECONDS)
    most = marks[-1]
    parts = [_grid(at, marks, span)]
    step = (_WIDTH - _LEFT - _RIGHT) / max(len(at), 1)
    for place, one in enumerate(series, 1):
        path: list[str] = []
        down = False
        for slot, value in enumerate(one.values):
            if value is None:
                down = False
                continue
            x, y = _LEFT + (slot + 0.5) * step, _y(value, most)
            path.append(f"{'L' if down else 'M'}{x:.1f} {y:.1f}")
            alone = (slot == 0 or one.values[slot - 1] is None) and (
                slot + 1 == len(one.values) or one.values[slot + 1] is None
            )
            if alone:
                parts.append(
                    f'<circle class="bar time-{place}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">'
                    f"<title>{at[slot]:%d %b %H:%M} {escape(one.name)} {span(value)}</title>"
                    "</circle>"
                )
            down = True
        if path:
            parts.append(f'<path class="line time-{place}" d="{" ".join(path)}"/>')
    return _svg(parts, title)


def _svg(parts: Sequence[str], title: str) -> Markup:
    return Markup(
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
        f' aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _y(value: float, most: float) -> float:
    return _HEIGHT - _BOTTOM - value / most * (_HEIGHT - _TOP - _BOTTOM)


def _grid(at: Sequence[datetime], marks: Sequence[float], read: Callable[[float], str]) -> str:
    parts = []
    for mark in marks:
        y = _y(mark, marks[-1])
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{read(mark)}</text>'
        )
    if at:
        days = (at[-1] - at[0]).days >= 1
        for slot in sorted({0, len(at) // 2, len(at) - 1}):
            x = _LEFT + (slot + 0.5) * (_WIDTH - _LEFT - _RIGHT) / len(at)
            anchor = "start" if slot == 0 else "end" if slot == len(at) - 1 else "middle"
            label = f"{at[slot]:%d %b %H:%M}" if days else f"{at[slot]:%H:%M}"
            parts.append(
                f'<text x="{x:.1f}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{label}</text>'
            )
    return "".join(parts)


def _axis(most: float, steps: Sequence[float]) -> list[float]:
    """Where an axis has its lines: five at most, the last a little above what is shown."""
    room = most * 1.05
    step = next((step for step in steps if room <= 4 * step), steps[-1])
    return [step * n for n in range(max(ceil(room / step), 1) + 1)]
