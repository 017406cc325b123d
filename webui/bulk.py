"""One action on many jobs: what is asked, and how far it is.

A request makes calls of at most 500 jobs for some seconds, each well within the statement timeout,
and says where it stopped. That travels in addresses and forms, so that any process can go on and
a person can stop.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flask import request
from werkzeug.datastructures import MultiDict

from pyworker.client import BulkOutcome, Page
from pyworker.errors import InvalidArgument, Unavailable
from webui import auth, forms
from webui.filters import Filter

# How many jobs a preview reads, as a page of the list does.
PREVIEW = 10_000

STEP = 500
_SECONDS = 5.0

ACTIONS = {
    "retry": "Retry",
    "cancel": "Cancel",
    "run_now": "Run now",
    "reprioritize": "Set priority of",
    "discard": "Discard",
}

_KEPT = ("extra_attempts", "delay", "spread", "new_priority", "reason")


@dataclass(frozen=True)
class Ask:
    """What is asked: an action on the jobs ticked, or on all that match."""

    action: str
    chosen: Filter
    ids: list[int]
    back: str | None
    cursor: str | None
    found: int
    read: int
    begun: bool
    changed: int
    skipped_count: int
    skipped: list[int]

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
            cursor=values.get("cursor") or None,
            found=forms.whole(values.get("found"), "found") or 0,
            read=forms.whole(values.get("read"), "read") or 0,
            begun="changed" in values,
            changed=forms.whole(values.get("changed"), "changed") or 0,
            skipped_count=forms.whole(values.get("skipped"), "skipped") or 0,
            skipped=[forms.job_id(value) for value in values.getlist("left")[:20]],
        )

    @property
    def query(self) -> dict[str, Any]:
        return {"ids": self.ids} if self.ids else self.chosen.to_query()

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

    def act(self, call: Callable[[str | None], Page[BulkOutcome]]) -> dict[str, Any]:
        """Calls until all is read or the time is over; answers with the address that tells how far
        it is."""
        ends = time.monotonic() + _SECONDS
        found = call(self.cursor)
        rows = [*found.rows]
        with suppress(Unavailable):  # What was done is told; who goes on hears of it.
            while found.next_cursor and time.monotonic() < ends:
                found = call(found.next_cursor)
                rows += found.rows
        skipped = [row.job_id for row in rows if row.outcome == "skipped"]
        return {
            **self.address(),
            **{name: value for name in _KEPT if (value := request.form.get(name))},
            "cursor": found.next_cursor,
            "found": self.found,
            "changed": self.changed + len(rows) - len(skipped),
            "skipped": self.skipped_count + len(skipped),
            "left": (self.skipped + skipped)[:20],
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
