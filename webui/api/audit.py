"""What people did that concerns no single job."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.api.arguments import LIMIT, text
from webui.pages import acting

blueprint = Blueprint("audit", __name__)


@blueprint.get("/audit")
def list_all() -> Response:
    """Newest first."""
    given = arguments.query({"limit": LIMIT, "cursor": text})
    limit = given.get("limit", 50)
    place = arguments.number_cursor(given.get("cursor"), {})
    with acting() as client:
        found = client.list_audit(place, limit)
    following = found[-1].id if len(found) == limit else None
    return render.page(found, arguments.pack(following, {}))
