"""The page that shows the API: Swagger UI from its package, with a starter of our own.

The package's page starts with an inline script, which our Content-Security-Policy forbids.
"""

from __future__ import annotations

from importlib.resources import files

from flask import Blueprint, Response, render_template, send_from_directory

blueprint = Blueprint("api_docs", __name__, url_prefix="/api/docs")

_ASSETS = str(files("flask_swagger_ui") / "dist")


@blueprint.get("/")
def show() -> str:
    """The API, to read and to try."""
    return render_template("api/docs.html")


@blueprint.get("/assets/<name>")
def asset(name: str) -> Response:
    """Swagger UI's own files."""
    response = send_from_directory(_ASSETS, name)
    response.headers["Cache-Control"] = "private, max-age=3600"
    return response
