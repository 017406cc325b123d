"""The HTTP API, `/api/v1`, and its description.

A view checks what came in (`arguments.py`), calls one function of schema `queue` and renders what
it answers (`render.py`). `webui/openapi.json` was written first: a test holds the views to it.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from flask import Blueprint, Flask, Response, make_response, request

from webui.api import arguments, caller, docs

NOUNS = (
    "jobs",
    "dead",
    "queues",
    "workers",
    "claims",
    "events",
    "stats",
    "settings",
    "accounts",
    "tokens",
    "audit",
    "capabilities",
)

OPENAPI = Path(__file__).parents[1] / "openapi.json"


def register(app: Flask) -> None:
    blueprint = Blueprint("api", __name__, url_prefix="/api")
    blueprint.before_request(caller.find)
    blueprint.register_error_handler(arguments.Refused, arguments.refuse)
    blueprint.add_url_rule("/openapi.json", view_func=openapi)
    for noun in NOUNS:
        blueprint.register_blueprint(import_module(f"webui.api.{noun}").blueprint, url_prefix="/v1")
    app.register_blueprint(blueprint)
    app.register_blueprint(docs.blueprint)


def openapi() -> Response:
    """This API as an OpenAPI 3.1 document."""
    arguments.query({})
    response = make_response(OPENAPI.read_bytes())
    response.mimetype = "application/json"
    response.add_etag()
    response.make_conditional(request)
    return response
