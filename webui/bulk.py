"""One action on many jobs, in calls of at most 1,000: what is asked, and how far it is.

The state of it travels in addresses and forms, so that any process can go on and a person can stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict

from pyworker.client import BulkOutcome
from pyworker.errors import InvalidArgument
from webui import auth, forms
from webui.filters import Filter

MOST = 1000

ACTIONS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "run_now": "Run now",
    "reprioritize": "Set priority of",
    "discard": "Discard",
}

# Which statuses an action takes when its filter names none, as bulk() has it.
_STATUSES = {
    "retry": {"status": "failed"},
    "discard": {"status": "failed"},
    "run_now": {"status": "queued"},
    "reprioritize": {"status": "queued"},
}

_KEPT = ("extra_attempts", "delay", "spread", "new_priority", "reason")


@dataclass(frozen=True)
class Ask:
    """What is asked: an action on the jobs ticked, or on all that match."""

    action: str
    chosen: Filter
    ids: list[int]
    back: str | None
    changed: int
    skipped_count: int
    skipped: list[int]
    expected: int
    over: bool

    @classmethod
    def of(cls, values: MultiDict[str, str]) -> Ask:
        action = values.get("action", "")
        if action not in ACTIONS:
            raise InvalidArgument(
                f"action {action[:40]!r} is unknown", hint=f"It is one of {', '.join(ACTIONS)}."
            )
        ids = [forms.job_id(value) for value in values.getlist("ids")[:200]]
        chosen = Filter.of(values)
        if not ids and values.get("all") != "1":
            raise InvalidArgument(
                "no job is ticked", hint="Tick some, or choose all that match the filter."
            )
        return cls(
            action=action,
            chosen=Filter() if ids else chosen,
            ids=ids,
            back=auth.safe_path(values.get("back")),
            changed=forms.whole(values.get("changed"), "changed") or 0,
            skipped_count=forms.whole(values.get("skipped"), "skipped") or 0,
            skipped=[forms.job_id(value) for value in values.getlist("left")[:20]],
            expected=forms.whole(values.get("of"), "of") or 0,
            over=values.get("over") == "1",
        )

    @property
    def query(self) -> dict[str, Any]:
        return {"ids": self.ids} if self.ids else self.chosen.to_query()

    @property
    def counted(self) -> dict[str, Any]:
        """The filter to count what is left by."""
        query = self.query
        if not {"status", "label", "ids"} & set(query):
            query = {**query, **_STATUSES.get(self.action, {})}
        return query

    @property
    def title(self) -> str:
        return ACTIONS[self.action]

    @property
    def done(self) -> int:
        return self.changed + self.skipped_count

    @property
    def kept(self) -> dict[str, str]:
        """The arguments as they were typed, for the next call."""
        return {name: value for name in _KEPT if (value := request.args.get(name))}

    def address(self) -> dict[str, Any]:
        """What names this in an address."""
        named: dict[str, Any] = {"action": self.action, **self.chosen.values}
        if self.ids:
            named["ids"] = self.ids
        else:
            named["all"] = "1"
        if self.back:
            named["back"] = self.back
        return named

    def after(self, rows: Sequence[BulkOutcome]) -> dict[str, Any]:
        """The address that tells how far it is after a call."""
        changed = sum(row.outcome == "changed" for row in rows)
        skipped = [row.job_id for row in rows if row.outcome == "skipped"]
        return {
            **self.address(),
            **{name: value for name in _KEPT if (value := request.form.get(name))},
            "changed": self.changed + changed,
            "skipped": self.skipped_count + len(skipped),
            "of": self.expected,
            "left": (self.skipped + skipped)[:20],
            # A call that was not full has had them all; one that changed nothing gets no further.
            "over": "1" if len(rows) < MOST or not changed else "0",
        }


def arguments(action: str) -> dict[str, Any]:
    """What the form says beside the action, in the words of bulk()."""
    found: dict[str, Any] = {}
    if action == "retry":
        found["extra_attempts"] = forms.whole(
            request.form.get("extra_attempts"), "extra attempts", 1, 100_000
        )
        found["delay"] = forms.span(request.form.get("delay"), "delay")
        found["spread"] = forms.span(request.form.get("spread"), "spread")
    elif action == "reprioritize":
        found["priority"] = forms.whole(request.form.get("new_priority"), "priority", 0, 9)
        if found["priority"] is None:
            raise InvalidArgument("no priority was given", hint="0 to 9, higher first.")
    return {name: value for name, value in found.items() if value is not None}
