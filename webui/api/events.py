"""The history of all jobs: a page at a time for people, each event once for programs."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.api.arguments import LIMIT, Reader, identifier, text
from webui.pages import acting

blueprint = Blueprint("events", __name__)

FILTER: dict[str, Reader] = {
    "event": text,
    "queue": text,
    "kind": text,
    "worker": text,
    "actor": text,
}


@blueprint.get("/events")
def list_all() -> Response:
    """Events newest first, by a filter; of one job with `job_id`, which are oldest first."""
    given = arguments.query({**FILTER, "job_id": identifier, "limit": LIMIT, "cursor": text})
    limit, cursor = given.pop("limit", 50), given.pop("cursor", None)
    place = arguments.number_cursor(cursor, given)
    job = given.get("job_id")
    filter = {name: value for name, value in given.items() if name != "job_id"}
    with acting() as client:
        found = client.list_events(job, filter, place, limit)
    return render.page(found.rows, arguments.pack(found.next_cursor, given))


@blueprint.get("/events/feed")
def feed() -> Response:
    """For followers: each event exactly once, whatever the order in which transactions commit.

    Without `after` nothing but where now is; then what has come since.
    """
    given = arguments.query({"after": text, "limit": LIMIT})
    limit = given.get("limit", 50)
    place, _ = arguments.unpack(given.get("after"), {})
    with acting() as client:
        found = client.read_events(place, limit)
    page: dict[str, Any] = {
        "next_after": arguments.pack(found.next_cursor, {}),
        "has_more": len(found.rows) == limit,
    }
    return render.answer({"data": found.rows, "page": page})
