"""Workers, as their sessions and leases show them."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.pages import acting

blueprint = Blueprint("workers", __name__)


@blueprint.get("/workers")
def list_all() -> Response:
    """Who works, and who is gone with leases still running out."""
    arguments.query({})
    with acting() as client:
        return render.rows(client.list_workers())
