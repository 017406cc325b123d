"""Which jobs: the address of a list, the filter of `list_jobs`, and the words in the search box."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pyworker.errors import InvalidArgument
from webui import forms

# What an address can name, and what `list_jobs` calls it.
_FIELDS = {
    "status": "status",
    "label": "label",
    "queue": "queue",
    "kind": "kind",
    "priority": "priority",
    "worker": "worker",
    "error_group": "error_group",
    "key": "idempotency_key",
    "since": "created_after",
    "q": "q",
}
_LABELS = {"ready", "scheduled", "retrying", "dead"}
_LONGEST = 2000

_TERM = re.compile(r'([a-z_]+(?:\.[^\s:"]+)*):("(?:[^"\\]|\\.)*"|\S+)|(\S+)')


@dataclass(frozen=True)
class Filter:
    """`values` as they stand in the address, in one order; blank ones are left out."""

    values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Mapping[str, str]) -> Filter:
        values = {}
        for name in _FIELDS:
            value = (arguments.get(name) or "").strip()
            if len(value) > _LONGEST:
                raise InvalidArgument(f"{name} is too long", hint=f"At most {_LONGEST} characters.")
            if value:
                values[name] = value
        return cls(values)

    def get(self, name: str) -> str:
        return self.values.get(name, "")

    def without(self, *names: str) -> dict[str, str]:
        return {name: value for name, value in self.values.items() if name not in names}

    def at(self, place: Mapping[str, str]) -> dict[str, str]:
        """The same on another tab."""
        return {**self.without("status", "label"), **place}

    @property
    def place(self) -> dict[str, str]:
        """The tab: which status or label."""
        return {name: self.values[name] for name in ("status", "label") if name in self.values}

    @property
    def chips(self) -> Iterator[tuple[str, dict[str, str]]]:
        """What narrows the list beside the tab, each with the address without it."""
        for name, value in self.values.items():
            if name in {"status", "label"}:
                continue
            if name != "q":
                yield f"{name.replace('_', ' ')}: {value}", self.without(name)
                continue
            terms = [match.group(0) for match in _TERM.finditer(value)]
            for at, term in enumerate(terms):
                rest = " ".join(terms[:at] + terms[at + 1 :])
                yield term, {**self.without("q"), **({"q": rest} if rest else {})}

    def to_query(self) -> dict[str, Any]:
        """The filter that `list_jobs`, `count_jobs` and `bulk` take. Raises InvalidArgument."""
        found: dict[str, Any] = {}
        for name, value in self.values.items():
            if name == "q":
                found.update(_read_search(value))
            elif name == "priority":
                found["priority"] = forms.whole(value, "priority", 0, 9)
            elif name == "since":
                found["created_after"] = _ago(value)
            else:
                found[_FIELDS[name]] = value
        return found


def _ago(value: str) -> datetime:
    span = forms.span(value, "since")
    try:
        return datetime.now(UTC) - span if span else datetime.now(UTC)
    except OverflowError as error:
        raise InvalidArgument("since lies too far back") from error


def _read_search(text: str) -> dict[str, Any]:
    """`queue:billing payload.user.id:42`: a name and a value; a number alone is a job's id."""
    found: dict[str, Any] = {}
    for match in _TERM.finditer(text):
        name, value, alone = match.groups()
        if alone is not None:
            if not re.fullmatch(r"#?[0-9]{1,19}", alone):
                raise InvalidArgument(
                    f"{alone[:80]!r} is not a search",
                    hint="Write kind:email.send, queue:billing, payload.user_id:42, or a job's id.",
                )
            found.setdefault("ids", []).append(forms.job_id(alone))
            continue
        root, *path = name.split(".")
        if root in {"payload", "headers"}:
            part: Any = _value(value)
            for key in reversed(path):
                part = {key: part}
            found[root] = _merge(found.get(root), part)
        elif path:
            raise InvalidArgument(
                f"{name[:80]!r} is not a field", hint="payload and headers have fields of fields."
            )
        elif root == "priority":
            found["priority"] = forms.whole(value, "priority", 0, 9)
        elif root == "since":
            found["created_after"] = _ago(value)
        elif root == "status" and value in _LABELS:
            found["label"] = value
        else:
            found[_FIELDS.get(root, root)] = value[1:-1] if value.startswith('"') else value
    return found


def _value(text: str) -> Any:
    """42 is a number, "42" and x are texts."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _merge(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _merge(one.get(key), value) for key, value in other.items()}}
    return other
