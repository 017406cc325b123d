"""Workers: live sessions, and leases of workers that are gone."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.pages import page, reading

blueprint = Blueprint("workers", __name__)


@blueprint.get("/workers")
def index() -> Response:
    """Who works, with how many jobs in hand."""
    with reading() as client:
        workers = client.list_workers()
    return page("workers/list.html", live="workers/_list.html", workers=workers)
