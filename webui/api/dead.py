"""Dead letters: jobs that failed for good, one by one and by what went wrong."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.api.arguments import LIMIT, Reader, instant, text
from webui.api.jobs import PAGE, list_page
from webui.pages import acting

blueprint = Blueprint("dead", __name__)

FILTER: dict[str, Reader] = {"queue": text, "kind": text, "error_group": text}


@blueprint.get("/dead")
def list_all() -> Response:
    """Dead jobs, the last to fail first."""
    return list_page({**arguments.query({**FILTER, **PAGE}), "status": "failed"})


@blueprint.get("/dead/groups")
def groups() -> Response:
    """Dead jobs by kind, error type and message, the largest groups first."""
    given = arguments.query({"queue": text, "kind": text, "since": instant, "limit": LIMIT})
    given["max_groups"] = given.pop("limit", 50)
    with acting() as client:
        return render.rows(client.failure_groups(**given))
