"""Values as people type them into forms and addresses, or InvalidArgument that names the field."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import request

from pyworker.durations import duration
from pyworker.errors import InvalidArgument

_LARGEST = 2**63 - 1


def whole(value: str | None, name: str, low: int = 0, high: int = _LARGEST) -> int | None:
    """A whole number in ASCII digits; None when nothing was given."""
    if value is None or not value.strip():
        return None
    text = value.strip()
    if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
        fault = "is out of range" if re.fullmatch(r"-?[0-9]+", text) else "is no whole number"
        raise InvalidArgument(
            f"{name} {text[:40]!r} {fault}",
            hint=f"{name} is a whole number"
            + (f" from {low} to {high:,}." if high < _LARGEST else f" of at least {low}."),
        )
    return int(text)


def job_id(value: str | None) -> int:
    """The id of a job, as it stands in an address."""
    found = whole((value or "").strip().removeprefix("#"), "job id", 1)
    if found is None:
        raise InvalidArgument("no job id was given", hint="A job id is a whole number.")
    return found


def span(value: str | None, name: str) -> timedelta | None:
    """`30s`, `1h30m`, a number of seconds; None when nothing was given."""
    if value is None or not value.strip():
        return None
    try:
        return duration(value.strip())
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{name} {value[:40]!r} is no duration", hint="Write 30s, 5m, 1h30m or 2d."
        ) from error


def instant(value: str | None, name: str) -> datetime | None:
    """An instant, in UTC where no zone is given: the fields say so."""
    if value is None or not value.strip():
        return None
    try:
        found = datetime.fromisoformat(value.strip())
    except ValueError as error:
        raise InvalidArgument(
            f"{name} {value[:40]!r} is no time", hint="Write 2027-01-31T12:00, in UTC."
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def document(value: str | None, name: str) -> Any:
    """A JSON document; None when nothing was given."""
    if value is None or not value.strip():
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} is not JSON: {error}") from error


def given(name: str) -> str | None:
    """A field of the form that was sent, None when it is blank."""
    return (request.form.get(name) or "").strip() or None


def reason() -> str | None:
    return given("reason")
