"""Charts: where their axes end."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from webui import charts

AT = [datetime(2026, 1, 2, 3, tzinfo=UTC) + timedelta(minutes=n) for n in range(3)]


def axis(chart: str) -> list[str]:
    return re.findall(r'text-anchor="end">([^<]+)</text>', chart)[: chart.count('class="grid"')]


@pytest.mark.parametrize(
    ("most", "marks"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1", "2"]),
        (7, ["0", "2", "4", "6", "8"]),
        (95, ["0", "25", "50", "75", "100"]),
        (100, ["0", "50", "100", "150"]),
        (130, ["0", "50", "100", "150"]),
        (199, ["0", "100", "200", "300"]),
        (4_000_000, ["0", "2,000,000", "4,000,000", "6,000,000"]),
    ],
)
def test_bars_have_round_numbers_beside_them_and_room_above(most: int, marks: list[str]) -> None:
    assert axis(charts.bars(AT, [charts.Series("jobs", [0, most, 0])], "Jobs")) == marks


@pytest.mark.parametrize(
    ("most", "marks"),
    [
        (0.004, ["0 ms", "2 ms", "4 ms", "6 ms"]),
        (3.1, ["0 ms", "1.0 s", "2.0 s", "3.0 s", "4.0 s"]),
        (100, ["0 ms", "30 s", "1 m", "1 m 30 s", "2 m"]),
        (3000, ["0 ms", "15 m", "30 m", "45 m", "1 h"]),
        (200_000, ["0 ms", "1 d", "2 d", "3 d"]),
    ],
)
def test_times_are_round_on_a_clock(most: float, marks: list[str]) -> None:
    assert axis(charts.lines(AT, [charts.Series("wait", [None, most, 0])], "Wait")) == marks
