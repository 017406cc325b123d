"""Durations as people write them: "30s", "5m", "1h30m", seconds as a number, or a timedelta; and as
PostgreSQL does."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from pyworker.errors import InvalidArgument

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
# As PostgreSQL writes an interval, in its own style.
_INTERVAL = re.compile(r"(?:(\d+) days? ?)?(?:(\d+):(\d\d):(\d\d(?:\.\d+)?))?")
_PIECE = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", re.ASCII)


def duration(value: str | int | float | timedelta) -> timedelta:
    """A timedelta from "90s", "1h30m", "2d", 90 (seconds) or a timedelta. Never negative.

    Raises InvalidArgument.
    """
    if isinstance(value, timedelta):
        span = value
    elif isinstance(value, str):
        span = _parse(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        span = _seconds(value)
    else:
        raise _not_a_duration(value)

    if span < timedelta(0):
        raise InvalidArgument(f"a duration cannot be negative: {value!r}")
    return span


def optional_duration(value: str | int | float | timedelta | None) -> timedelta | None:
    return None if value is None else duration(value)


def interval(text: str | None) -> timedelta | None:
    """What PostgreSQL wrote; None for what has months, or another style, and for none."""
    found = _INTERVAL.fullmatch(text or "-")
    if found is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def typed(text: str | None) -> str:
    """What PostgreSQL wrote, as people type it: 1h30m; as it is where `interval` is None."""
    left = interval(text)
    if left is None:
        return text or ""
    parts: list[str] = []
    for unit, size in reversed(_UNITS.items()):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def _parse(text: str) -> timedelta:
    text = text.strip()
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return _seconds(float(text))

    total, end = timedelta(0), 0
    for piece in _PIECE.finditer(text):
        if piece.start() != end:
            break
        try:
            total += float(piece[1]) * _UNITS[piece[2]]
        except OverflowError:
            raise _not_a_duration(text) from None
        end = piece.end()
    if not text or end != len(text):
        raise _not_a_duration(text)
    return total


def _seconds(value: float) -> timedelta:
    try:
        return timedelta(seconds=value)
    except OverflowError:
        raise _not_a_duration(value) from None


def _not_a_duration(value: object) -> InvalidArgument:
    return InvalidArgument(
        f"not a duration: {value!r}",
        hint='Write "30s", "5m", "1h30m" or "2d", a number of seconds, or a timedelta.',
    )
