"""What is written on the line, as the client wants it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import click

from pyworker.durations import duration
from pyworker.errors import InvalidArgument


def span(value: str) -> timedelta:
    try:
        return duration(value)
    except InvalidArgument as exc:
        raise click.BadParameter(f"{exc}; {_SPAN_EXAMPLES}") from exc


_SPAN_EXAMPLES = "write 90s, 5m, 1h30m or 2d"


def instant(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"not a timestamp: {value!r}; {_INSTANT_EXAMPLE}") from None
    if found.utcoffset() is None:
        raise click.BadParameter(f"{value!r} has no time zone; {_INSTANT_EXAMPLE}")
    return found


_INSTANT_EXAMPLE = "write 2027-01-31T12:00:00Z"

_LABELS = ("scheduled", "ready", "retrying", "dead")


def pairs(
    terms: Iterable[str], what: str = "filter", sign: str = ":", example: str = "queue:billing"
) -> dict[str, str]:
    """`queue:billing kind:email.send`, each name once."""
    found: dict[str, str] = {}
    for term in terms:
        name, given, value = term.partition(sign)
        if not given or not name:
            raise click.UsageError(f"not a {what}: {term!r}; write name{sign}value as in {example}")
        if name in found:
            raise click.UsageError(f"{name} is given twice: one value each")
        found[name] = value
    return found


def job_filter(terms: Iterable[str]) -> dict[str, Any]:
    """`status:failed queue:billing payload.user.id:42` as `list_jobs` wants it."""
    found: dict[str, Any] = {}
    for name, value in pairs(terms).items():
        if name == "payload" or name.startswith("payload."):
            document: Any = _json_or_text(value)
            for key in reversed(name.split(".")[1:]):
                document = {key: document}
            found["payload"] = _merged(found.get("payload"), document)
        elif name == "status" and value in _LABELS:
            found["label"] = value
        elif name == "priority":
            found[name] = _json_or_text(value)
        elif name in ("created_after", "created_before"):
            try:
                found[name] = instant(value).isoformat()
            except click.BadParameter as exc:
                raise click.UsageError(f"{name}: {exc.message}") from exc
        else:
            found[name] = value
    return found


SETTING_SPANS = (
    *("lease", "timeout", "backoff_base", "backoff_cap", "tick_interval"),
    *("finished_retention", "failed_retention", "events_retention"),
)


def settings(terms: Iterable[str]) -> dict[str, str]:
    """`lease=5m max_attempts=3`, where durations are written as everywhere; the database has the
    bounds."""
    found = pairs(terms, "setting", "=", "lease=5m")
    for name, value in found.items():
        if name in SETTING_SPANS and value:
            try:
                duration(value)
            except InvalidArgument as exc:
                raise click.UsageError(f"{name} is {exc}; {_SPAN_EXAMPLES}") from exc
    return found


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}
    return other


REASON = click.option("--reason", help="Kept with the event.")
AUDIT_REASON = click.option("--reason", help="Kept in the audit.")
PRIORITY = click.IntRange(0, 9)
ATTEMPTS = click.IntRange(1, 100_000)
ID = click.IntRange(1, 2**63 - 1)
