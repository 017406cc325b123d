"""The whole queue in figures, and over time."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.api.arguments import Reader, instant, seconds, text
from webui.pages import acting

blueprint = Blueprint("stats", __name__)

SPAN: dict[str, Reader] = {
    "from": instant,
    "to": instant,
    "bucket_seconds": seconds,
    "queue": text,
    "kind": text,
}


@blueprint.get("/stats")
def show() -> Response:
    """A few numbers; some by priority."""
    arguments.query({})
    with acting() as client:
        return render.rows(client.stats())


@blueprint.get("/stats/throughput")
def throughput() -> Response:
    """How many jobs came, started and ended, a row a bucket."""
    given = _span()
    with acting() as client:
        return render.rows(client.throughput(**given))


@blueprint.get("/stats/latency")
def latency() -> Response:
    """How long jobs waited and ran, a row a bucket."""
    given = _span()
    with acting() as client:
        return render.rows(client.latency(**given))


def _span() -> dict[str, Any]:
    given = arguments.query(SPAN)
    names = {"from": "since", "to": "until", "bucket": "resolution"}
    return {names.get(name, name): value for name, value in given.items()}
