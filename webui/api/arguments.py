"""What comes in with a request, read by tables: a field's name and the reader of its value.

What is wrong in the address is a 400, what is wrong in a body a 422 that names every field. Names
in `_seconds` become the timedelta arguments of the client: `delay_seconds` is `delay`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from flask import Response, request
from werkzeug.exceptions import UnsupportedMediaType

from pyworker.client import JsonText
from webui import errors

# Reads one JSON value or raises ValueError, which says what was expected.
Reader = Callable[[Any], Any]

MOST_ROWS = 200
_BIGGEST_ID = 2**63 - 1
_NO_ID = f"must be an id, as text: 0 to {_BIGGEST_ID}"


@dataclass
class Refused(Exception):  # noqa: N818
    """A request that is turned away before the database is asked."""

    status: int
    detail: str
    code: str | None = None
    hint: str | None = None
    errors: list[dict[str, str]] = field(default_factory=list)
    data: list[Any] | None = None


def refuse(refused: Refused) -> Response:
    members: dict[str, Any] = {}
    if refused.errors:
        members["errors"] = refused.errors
    if refused.data is not None:
        members["data"] = refused.data
    response = errors.problem(
        refused.status, refused.detail, hint=refused.hint, code=refused.code, **members
    )
    if refused.status == 429:
        response.headers["Retry-After"] = "5"
    return response


# -- readers of one value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


def seconds(value: Any) -> timedelta:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("must be a number of seconds")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise ValueError("is out of range") from None


def instant(value: Any) -> datetime:
    expected = "must be a time with its zone, such as 2027-01-31T12:00:00Z"
    # Only the form of RFC 3339: Python reads more of ISO 8601, which differs between releases.
    if not isinstance(value, str) or not re.fullmatch(
        r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", value, re.ASCII
    ):
        raise ValueError(expected)
    try:
        return datetime.fromisoformat(value.upper())
    except ValueError:
        raise ValueError(expected) from None


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("must be an array of texts")
    return value


def document(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("must be an object")
    return value


def anything(value: Any) -> Any:
    """Any JSON. A null that was given is a value, not the default."""
    return JsonText("null") if value is None else value


def identifier(value: Any) -> int:
    """An id travels as text: JavaScript's numbers end at 2^53."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    elif not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(_NO_ID)
    if not 0 <= value <= _BIGGEST_ID:
        raise ValueError(_NO_ID)
    return int(value)


def identifiers(value: Any) -> list[int]:
    if not isinstance(value, list) or not 1 <= len(value) <= 1000:
        raise ValueError("must be an array of 1 to 1000 ids")
    return [identifier(item) for item in value]


def choice(*words: str) -> Reader:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return read


def within(least: int, most: int) -> Reader:
    """A whole number. The bounds are the database's: there what is beyond an integer has no name
    of a field any more."""

    def read(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"must be a whole number, {least} to {most}")
        return value

    return read


PRIORITY = within(0, 9)
ATTEMPTS = within(1, 100_000)
PERCENT = within(0, 100)


def objects(
    fields: Mapping[str, Reader], required: Collection[str] = (), most: int = 1000
) -> Reader:
    """An array of objects, each read by the same table."""

    def read(value: Any) -> list[dict[str, Any]]:
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise ValueError(f"must be an array of 1 to {most} objects")
        wrong: list[dict[str, str]] = []
        found = [
            _read(item, fields, required, wrong, f"[{place}]") for place, item in enumerate(value)
        ]
        if wrong:
            raise _ItemsError(wrong)
        return found

    return read


def members(fields: Mapping[str, Reader]) -> Reader:
    """An object within the body, read by a table of its own."""

    def read(value: Any) -> dict[str, Any]:
        wrong: list[dict[str, str]] = []
        found = _read(document(value), fields, (), wrong, "")
        if wrong:
            raise _ItemsError([{**error, "field": f".{error['field']}"} for error in wrong])
        return found

    return read


class _ItemsError(ValueError):
    """Errors within an array or object, each with its place."""

    def __init__(self, errors: list[dict[str, str]]) -> None:
        super().__init__("has errors")
        self.errors = errors


# -- the body


def body(
    fields: Mapping[str, Reader], required: Collection[str] = (), *, nulls: bool = False
) -> dict[str, Any]:
    """The request's JSON object, as arguments. `nulls`: keep them, else null is the default.
    What has a body takes nothing from the address's parameters."""
    query({})
    wrong: list[dict[str, str]] = []
    found = _read(_json(), fields, required, wrong, "", nulls=nulls)
    if wrong:
        raise Refused(
            422,
            "; ".join(f"{error['field']} {error['detail']}" for error in wrong[:3]),
            "validation_failed",
            errors=wrong[:100],
        )
    return found


def _json() -> Any:
    raw = request.get_data()
    if not raw:
        return {}
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("The body must be application/json.")
    try:
        return json.loads(raw.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as exc:
        reason = "it is nested too deeply" if isinstance(exc, RecursionError) else str(exc)
        raise Refused(400, f"the body is not JSON: {reason[:200]}", "malformed") from exc


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _read(
    given: Any,
    fields: Mapping[str, Reader],
    required: Collection[str],
    wrong: list[dict[str, str]],
    path: str,
    *,
    nulls: bool = False,
) -> dict[str, Any]:
    if not isinstance(given, dict):
        wrong.append({"field": path or "body", "detail": "must be an object"})
        return {}
    dot = f"{path}." if path else ""
    found: dict[str, Any] = {}
    for name, value in given.items():
        reader = fields.get(name)
        if reader is None:
            wrong.append({"field": f"{dot}{name[:80]}", "detail": "is unknown"})
        elif value is None and reader is not anything:
            if nulls:
                found[name] = None
        else:
            try:
                found[name.removesuffix("_seconds")] = reader(value)
            except _ItemsError as exc:
                wrong.extend({**e, "field": f"{dot}{name}{e['field']}"} for e in exc.errors)
            except ValueError as exc:
                wrong.append({"field": f"{dot}{name}", "detail": str(exc)})
    for name in required:
        if given.get(name) is None and fields[name] is not anything:
            wrong.append({"field": f"{dot}{name}", "detail": "is missing"})
    return found


# -- the address

LIMIT = within(1, MOST_ROWS)

# How the text of a parameter becomes the JSON value that its reader expects.
_PLAIN = {text, instant, identifier}


def query(fields: Mapping[str, Reader], documents: Collection[str] = ()) -> dict[str, Any]:
    """The address's parameters, as arguments. `documents`: names that are asked into by a path,
    as `payload.user.id=42`; a value is JSON where it reads as such, else text."""
    found: dict[str, Any] = {}
    for name, values in request.args.lists():
        root, _, path = name.partition(".")
        try:
            if len(values) > 1:
                raise ValueError("is given twice")
            if root in documents and path:
                _put(found.setdefault(root, {}), path.split("."), _guess(values[0]))
            elif (reader := fields.get(name)) is None:
                raise ValueError("is unknown")
            else:
                value = values[0] if reader in _PLAIN else _from_text(values[0])
                found[name.removesuffix("_seconds")] = reader(value)
        except ValueError as exc:
            raise Refused(
                400,
                f"{name[:80]} {exc}",
                "invalid_parameter",
                errors=[{"field": name[:80], "detail": str(exc)}],
            ) from None
    return found


def path_id(value: str) -> int:
    """An id in the path, which is the first that the path names."""
    try:
        return identifier(value)
    except ValueError as exc:
        name = next(iter(request.view_args or {}), "id")
        raise Refused(
            400,
            f"{name} {exc}",
            "invalid_parameter",
            errors=[{"field": name, "detail": str(exc)}],
        ) from None


def _from_text(value: str) -> Any:
    """A number, true or false as what it is; anything else stays text."""
    if value in {"true", "false"}:
        return value == "true"
    if re.fullmatch(r"-?[0-9]{1,20}", value):
        return int(value)
    if re.fullmatch(r"-?[0-9]{1,20}\.[0-9]{1,20}", value):
        return float(value)
    return value


def _guess(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return value


def _put(target: dict[str, Any], path: list[str], value: Any) -> None:
    if len(path) > 16 or not all(path):
        raise ValueError("is no path")
    for step in path[:-1]:
        target = target.setdefault(step, {})
        if not isinstance(target, dict):
            raise ValueError("asks for two things at one place")
    if path[-1] in target:
        raise ValueError("asks for two things at one place")
    target[path[-1]] = value


# -- cursors


def pack(
    cursor: str | int | None, filter: Mapping[str, Any], *, backwards: bool = False
) -> str | None:
    """A cursor to hand out: opaque, and good only for the list and filter it came from."""
    if cursor is None:
        return None
    packed = json.dumps([_scope(filter), int(backwards), str(cursor)], separators=(",", ":"))
    return base64.urlsafe_b64encode(packed.encode()).decode().rstrip("=")


def unpack(given: str | None, filter: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The database's cursor and the direction of one that came back."""
    if given is None:
        return None, False
    try:
        raw = base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True)
        scope, backwards, cursor = json.loads(raw)
        if not isinstance(cursor, str) or not isinstance(scope, str):
            raise ValueError("is made up")
    except (ValueError, TypeError, RecursionError, binascii.Error):
        raise Refused(
            400,
            "the cursor is not one of ours",
            "invalid_cursor",
            "Take it as the last page gave it.",
        ) from None
    if scope != _scope(filter):
        raise Refused(
            400,
            "the cursor belongs to another list or filter",
            "cursor_mismatch",
            "Begin the list again without a cursor, or keep the filter as it was.",
        )
    return cursor, bool(backwards)


def number_cursor(given: str | None, filter: Mapping[str, Any]) -> int | None:
    """As `unpack`, where the database's cursor is an id."""
    cursor, _ = unpack(given, filter)
    try:
        return None if cursor is None else identifier(cursor)
    except ValueError:
        raise Refused(400, "the cursor is not one of ours", "invalid_cursor") from None


def _scope(filter: Mapping[str, Any]) -> str:
    what = json.dumps([request.path, filter], sort_keys=True, default=str)
    return hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()[:16]
