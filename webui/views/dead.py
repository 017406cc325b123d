"""Dead letters: failed jobs by what went wrong. What is done with them is `jobs.preview`'s."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Blueprint, Response, request

from pyworker.errors import InvalidArgument
from webui import forms
from webui.filters import Filter
from webui.pages import page, reading

blueprint = Blueprint("dead", __name__)

PERIODS = {"1h": "1 hour", "24h": "24 hours", "7d": "7 days", "": "any time"}


@blueprint.get("/dead")
def groups() -> Response:
    """Groups of failures, the largest first, of a queue, a kind and a time."""
    names = ("queue", "kind", "since")
    chosen = Filter.of({name: request.args.get(name, "") for name in names})
    since = chosen.get("since")
    if since not in PERIODS:
        raise InvalidArgument(
            f"since {since[:20]!r} is unknown",
            hint=f"It is one of {', '.join(name for name in PERIODS if name)}.",
        )
    span = forms.span(since, "since")
    with reading() as client:
        found = client.failure_groups(
            chosen.get("queue") or None,
            chosen.get("kind") or None,
            datetime.now(UTC) - span if span else None,
            200,
        )
        queues = [] if request.headers.get("X-Live") else client.list_queues(0)
        last = [] if found else client.list_jobs({"status": "failed"}, None, 1).rows
    return page(
        "dead/groups.html",
        live="dead/_groups.html",
        chosen=chosen,
        groups=found,
        jobs=sum(group.jobs for group in found),
        capped=any(group.capped for group in found),
        queues=queues,
        periods=PERIODS,
        last=last[0] if last else None,
    )
