"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pyworker.durations import duration, interval, optional_duration, typed
from pyworker.errors import InvalidArgument


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172800),
        ("250ms", 0.25),
        ("1.5h", 5400),
        ("90", 90),
        (" 7 ", 7),
        (90, 90),
        (0.5, 0.5),
        (timedelta(minutes=2), 120),
        (0, 0),
    ],
)
def test_read(written: Any, seconds: float) -> None:
    assert duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    ["", "s", "5 minutes", "1h-30m", "-5s", -1, timedelta(seconds=-1), "5x", True, None, [],
     float("nan"), float("inf"), 1e30, "9" * 400, "9" * 400 + "d", "٣s"],
)  # fmt: skip
def test_refused(written: Any) -> None:
    with pytest.raises(InvalidArgument):
        duration(written)


def test_none_is_none() -> None:
    assert optional_duration(None) is None
    assert optional_duration("1s") == timedelta(seconds=1)


@pytest.mark.parametrize(
    ("told", "span", "written"),
    [
        ("00:01:00", timedelta(minutes=1), "1m"),
        (
            "1 day 02:30:05.25",
            timedelta(days=1, hours=2, minutes=30, seconds=5.25),
            "1d2h30m5s250ms",
        ),
        ("30 days", timedelta(days=30), "30d"),
        ("00:00:00", timedelta(0), "0s"),
        ("10 years", None, "10 years"),
        ("PT1M", None, "PT1M"),
        (None, None, ""),
    ],
)
def test_what_postgresql_wrote(told: str | None, span: timedelta | None, written: str) -> None:
    assert interval(told) == span
    assert typed(told) == written
    if span is not None:
        assert duration(written) == span
