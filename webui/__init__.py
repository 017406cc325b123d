"""The dashboard and the HTTP API: Flask over the functions of schema `queue`, and nothing else.

A view checks, calls and renders. What a caller may do is decided by the database (`database.py`);
an error's SQLSTATE is its HTTP status (`errors.py`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flask import Flask, Response, g, request
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.wrappers import Response as AnyResponse

from webui import auth, errors, pages
from webui.config import Config
from webui.database import Database

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


def create_app(config: Config) -> Flask:
    """The whole application, to be served by any WSGI server with threads."""
    from webui import api, health, metrics, views

    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = config.max_body
    app.config["MAX_FORM_MEMORY_SIZE"] = config.max_body
    # The Host header is never believed beyond this, and no redirect is made from it.
    app.config["TRUSTED_HOSTS"] = list(config.trusted_hosts) or None
    app.extensions["rowlock_config"] = config
    app.extensions["rowlock_database"] = Database(config)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    app.jinja_options = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}

    metrics.register(app)
    errors.register(app)
    pages.register(app)
    app.before_request(_find_caller)
    app.after_request(_add_headers)

    views.register(app)
    api.register(app)
    health.register(app)

    if config.proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=config.proxies, x_proto=config.proxies, x_host=0, x_prefix=0
        )
    if config.base_path:
        app.wsgi_app = _Below(app.wsgi_app, config.base_path)  # type: ignore[method-assign]
    return app


def _find_caller() -> AnyResponse | None:
    """Deny by default: a view without a mark of its own needs somebody signed in."""
    given = request.headers.get("X-Request-Id", "")
    g.request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)

    view = None if request.endpoint is None else errors.app_view(request.endpoint)
    if request.endpoint in {None, "static"} or auth.is_public(view):
        return None
    if request.blueprint is not None and request.blueprint.split(".")[0] == "api":
        return None  # The API finds its caller itself: a token, or a session.

    g.caller = auth.find_session()
    return None if g.caller else auth.to_sign_in()


def _add_headers(response: Response) -> Response:
    headers = response.headers
    headers.setdefault("Content-Security-Policy", _POLICY)
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
    headers["X-Request-Id"] = g.get("request_id", "")
    if request.endpoint != "static":
        headers.setdefault("Cache-Control", "no-store")
    if request.is_secure:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    return response


class _Below:
    """Serves an application below a path that a proxy passes on."""

    def __init__(self, app: WSGIApplication, path: str) -> None:
        self._app = app
        self._path = path

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if path == self._path or path.startswith(self._path + "/"):
            environ["SCRIPT_NAME"] = self._path
            environ["PATH_INFO"] = path[len(self._path) :] or "/"
        return self._app(environ, start_response)
