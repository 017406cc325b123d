"""Events: the whole history, newest first."""

from __future__ import annotations

from flask import Blueprint, Response, request

from webui import forms
from webui.pages import page, reading

blueprint = Blueprint("events", __name__)

EVENTS = (
    "enqueued", "claimed", "progressed", "succeeded", "retry_scheduled", "failed", "lease_expired",
    "timed_out", "released", "snoozed", "cancel_requested", "cancelled", "retried", "made_due",
    "reprioritized", "discarded",
)  # fmt: skip
_FIELDS = ("event", "queue", "kind", "worker", "actor")
_SIZE = 100


@blueprint.get("/events")
def index() -> Response:
    """A page of events that match. Polled for how many are newer than those shown, so that
    nothing moves under a reader."""
    chosen = {
        name: value for name in _FIELDS if (value := (request.args.get(name) or "").strip()[:200])
    }
    cursor = forms.whole(request.args.get("cursor"), "cursor")
    newer_than = forms.whole(request.args.get("newer_than"), "newer_than")
    of_job = forms.whole((request.args.get("job") or "").removeprefix("#"), "job id", 1)

    with reading() as client:
        if newer_than is not None and request.headers.get("X-Live"):
            recent = client.list_events(None, chosen, None, 201).rows
            new = sum(event.id > newer_than for event in recent)
            return page("events/_new.html", live="events/_new.html", new=new, chosen=chosen)
        if of_job:
            found = client.list_events(of_job, chosen, cursor, 1000)
            events = found.rows[::-1]
        else:
            found = client.list_events(None, chosen, cursor, _SIZE)
            events = found.rows
        newest = events or client.list_events(None, {}, None, 1).rows
        queues = client.list_queues(0)

    return page(
        "events/list.html",
        events=events,
        top=newest[0].id if newest else 0,
        chosen=chosen,
        job=of_job,
        cursor=cursor,
        names=EVENTS,
        queues=queues,
        next_cursor=found.next_cursor,
        # Fewer than fit, and yet more to come: the page ended where 10,000 events were read.
        unfinished=found.next_cursor and len(events) < (1000 if of_job else _SIZE),
        follows=cursor is None and of_job is None,
        new=0,
    )
