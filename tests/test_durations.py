"""Durations as people write them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pyworker.durations import duration, optional_duration
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
