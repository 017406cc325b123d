"""An error's SQLSTATE is its HTTP status: a page for people, problem details for programs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, current_app, g, jsonify, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from pyworker.errors import InvalidArgument, NotAllowed, RowlockError, Unavailable
from webui.database import is_down

log = logging.getLogger("rowlock.web")

_CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "changed_meanwhile",
    413: "too_large",
    415: "unsupported_media_type",
    422: "unprocessable",
    429: "limit_reached",
    500: "internal_error",
    503: "unavailable",
}


def register(app: Flask) -> None:
    app.register_error_handler(RowlockError, _refused)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _unexpected)


def app_view(endpoint: str) -> Callable[..., Any] | None:
    return current_app.view_functions.get(endpoint)


def status_of(error: RowlockError) -> int:
    """RL404 is 404; what has another SQLSTATE goes by its class."""
    if error.sqlstate and error.sqlstate.startswith("RL"):
        return int(error.sqlstate[2:])
    if isinstance(error, NotAllowed):
        return 403
    if isinstance(error, InvalidArgument):
        return 400
    if isinstance(error, Unavailable):
        return 503
    return 500


def problem(
    status: int, detail: str, *, hint: str | None = None, code: str | None = None
) -> Response:
    """Problem details (RFC 9457) as JSON. Never a traceback: the request id finds it in the log."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code or _CODES.get(status, "error"),
        "detail": detail,
        "request_id": g.get("request_id", ""),
    }
    if hint:
        body["hint"] = hint
    response = jsonify(body)
    response.status_code = status
    response.mimetype = "application/problem+json"
    return response


def _answer(status: int, message: str, hint: str | None, template: str = "error.html") -> Response:
    if request.path.startswith("/api/"):
        return problem(status, message, hint=hint)
    page = render_template(
        template,
        status=status,
        phrase=HTTPStatus(status).phrase,
        message=message,
        hint=hint,
        request_id=g.get("request_id", ""),
    )
    return make_response(page, status)


def _refused(error: RowlockError) -> Response:
    status = status_of(error)
    if status >= 500 and not is_down(error):
        log.error("request %s: %s", g.get("request_id"), error)
    response = _answer(
        status, str(error), error.hint, "database_down.html" if is_down(error) else "error.html"
    )
    if status in {429, 503}:
        response.headers["Retry-After"] = "5" if status == 503 else "60"
    return response


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    response = _answer(status, error.description or "", None)
    if status == 405 and (allowed := getattr(error, "valid_methods", None)):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _unexpected(error: Exception) -> Response:
    log.exception("request %s", g.get("request_id"), exc_info=error)
    return _answer(500, "Something went wrong here.", "The log has it under the request id.")
