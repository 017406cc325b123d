"""How answers are written: rows of the client as JSON, in one place.

Ids are texts, instants RFC 3339 in UTC, durations numbers of seconds under names in `_seconds`.
JSON that Python cannot hold goes out as the text it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args, get_type_hints

from flask import Response, current_app, request
from werkzeug.http import generate_etag

from pyworker.client import Job, JobSummary, JsonText, Latency, Setting

_IDS = {"id", "job_id", "sample_id"}

# Where the API's word is another than the column's.
_NAMES = {"check_name": "check", "kind_of_job": "kind", "session_user_name": "session_user"}

# The fencing token is for whoever holds the claim, never for those who look on.
_HIDDEN = {"fence"}


def answer(value: Any, status: int = 200, *, fence: bool = False, **headers: str) -> Response:
    """A JSON answer; on GET with an ETag, and 304 where the caller has it already."""
    response: Response = current_app.response_class(
        encode(value, fence) + "\n", status=status, mimetype="application/json"
    )
    for name, text in headers.items():
        response.headers[name.replace("_", "-")] = text
    if request.method in {"GET", "HEAD"} and status == 200:
        response.add_etag()
        response.make_conditional(request)
    return response


def changed(now: Sequence[Setting]) -> Response:
    """Settings or a policy after a change, with the ETag to make the next by."""
    response = answer(settings(now))
    response.add_etag()
    return response


def etag(value: Any) -> str:
    """The ETag that `answer` gives a value."""
    return generate_etag((encode(value) + "\n").encode())


def rows(found: Sequence[Any], *, fence: bool = False, status: int = 200) -> Response:
    """A list that is whole."""
    return answer({"data": found}, status, fence=fence)


def nothing() -> Response:
    return current_app.response_class(status=204)


def page(
    found: Sequence[Any], next_cursor: str | None, prev_cursor: str | None = None, **more: Any
) -> Response:
    """A list of which there may be more."""
    return answer(
        {
            "data": found,
            "page": {
                "next_cursor": next_cursor,
                "prev_cursor": prev_cursor,
                "has_more": next_cursor is not None,
            },
            **more,
        }
    )


def job(row: Job | JobSummary) -> dict[str, Any]:
    """A job as the API shows it: what belongs together is together."""
    members = {name: _member(row, name) for name in _plan(type(row), False)}
    percent, message = members.pop("progress"), members.pop("progress_message")
    kind = members.pop("error_type")
    text, group = members.pop("error_message"), members.pop("error_group")
    here = f"{request.script_root}/api/v1/jobs/{row.id}"
    return {
        **members,
        "progress": None
        if row.progress is None and row.progress_message is None
        else {"percent": percent, "message": message},
        "last_error": None
        if row.error_type is None
        else {"type": kind, "message": text, "error_group": group},
        "links": {"self": here, "events": f"{here}/events", "attempts": f"{here}/attempts"},
    }


def settings(found: Sequence[Setting]) -> dict[str, Any]:
    """Settings or a policy as one object, each value of its own type; null where another holds."""
    plain: dict[str, Any] = {}
    for setting in found:
        value = setting.value
        if setting.name == "max_attempts":
            plain[setting.name] = None if value is None else int(value)
        elif setting.name == "claim_floor":
            plain[setting.name] = value == "true"
        else:
            plain[f"{setting.name}_seconds"] = None if value is None else _interval(value)
    return plain


_UNITS = {"year": 365.25 * 86400, "mon": 30 * 86400, "day": 86400}
_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d(?:\.\d+)?)")


def _interval(text: str) -> float:
    """Seconds of PostgreSQL's own way to write an interval: `1 day 02:00:00`."""
    total = sum(
        int(count) * _UNITS[unit] for count, unit in re.findall(r"(-?\d+) (year|mon|day)s?", text)
    )
    for sign, hours, minutes, seconds in _TIME.findall(text):
        time = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        total += -time if sign else time
    return total


# -- the writer


def encode(value: Any, fence: bool = False) -> str:
    """JSON text. `fence`: with the fencing tokens, for the worker protocol."""
    if isinstance(value, JsonText):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        plan = _plan(type(value), fence)
        return _object((name, write(getattr(value, attr))) for name, (attr, write) in plan.items())
    if isinstance(value, Mapping):
        return _object((name, encode(item, fence)) for name, item in value.items())
    if isinstance(value, list | tuple):
        return f"[{','.join(encode(item, fence) for item in value)}]"
    return _scalar(value)


def _object(members: Any) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in members)}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, datetime):
        stamp = value.astimezone(UTC).isoformat(timespec="microseconds")
        return f'"{stamp.removesuffix("+00:00")}Z"'
    if isinstance(value, timedelta):
        return json.dumps(value.total_seconds())
    if isinstance(value, Decimal):
        return json.dumps(int(value) if value == value.to_integral_value() else float(value))
    return json.dumps(value, ensure_ascii=False)


def _document(value: Any) -> str:
    return value if isinstance(value, JsonText) else json.dumps(value, ensure_ascii=False)


def _id(value: Any) -> str:
    return json.dumps(None if value is None else str(value))


def _member(row: Any, name: str) -> JsonText:
    attr, write = _plan(type(row), False)[name]
    return JsonText(write(getattr(row, attr)))


# By the name of each member: the row's attribute, and how it is written.
Plan = dict[str, tuple[str, Callable[[Any], str]]]
_plans: dict[tuple[type, bool], Plan] = {}


def _plan(row: type, fence: bool) -> Plan:
    if (row, fence) not in _plans:
        _plans[row, fence] = _make_plan(row, fence)
    return _plans[row, fence]


def _make_plan(row: type, fence: bool) -> Plan:
    hints = get_type_hints(row)
    plan: Plan = {}
    for item in fields(row):
        if (item.name in _HIDDEN and not fence) or item.metadata.get("local"):
            continue
        name = _NAMES.get(item.name, item.name)
        hint = hints[item.name]
        if timedelta in (hint, *get_args(hint)) or (row is Latency and item.name != "at"):
            name = f"{name}_seconds"
        write = _id if item.name in _IDS else _document if item.metadata.get("json") else _scalar
        plan[name] = (item.name, write)
    return plan
