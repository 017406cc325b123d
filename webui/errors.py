"""An error's SQLSTATE is its HTTP status: a page for people, problem details for programs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from flask import Flask, Response, current_app, g, jsonify, make_response, render_template, request
from werkzeug.exceptions import HTTPException, SecurityError
from werkzeug.routing import RequestRedirect

from pyworker.errors import (
    ClaimLost,
    InvalidArgument,
    KeyReused,
    NotAllowed,
    RowlockError,
    Unavailable,
    WrongState,
)
from webui import auth
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
    422: "validation_failed",
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
    status: int,
    detail: str,
    *,
    hint: str | None = None,
    code: str | None = None,
    **members: Any,
) -> Response:
    """Problem details (RFC 9457) as JSON. Never a traceback: the request id finds it in the log."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code or _CODES.get(status, "error"),
        "detail": detail,
        "request_id": g.get("request_id", ""),
        **members,
    }
    if hint:
        body["hint"] = hint
    response = jsonify(body)
    response.status_code = status
    response.mimetype = "application/problem+json"
    return response


def code_of(error: RowlockError) -> str | None:
    """What a program tells errors of one status apart by; None for the status's own word."""
    if isinstance(error, ClaimLost):
        return "claim_lost"
    if isinstance(error, WrongState):
        return "wrong_state"
    if isinstance(error, KeyReused):
        return "key_reused"
    if is_down(error):
        return "database_down"
    return {"57014": "timeout", "25006": "read_only"}.get(error.sqlstate or "")


def _answer(
    status: int,
    message: str,
    hint: str | None,
    template: str = "error.html",
    code: str | None = None,
) -> Response:
    if request.path.startswith("/api/"):
        return problem(status, message, hint=hint, code=code)
    if request.headers.get("X-Live"):
        return Response(message, status, mimetype="text/plain")
    page = render_template(
        template,
        code=status,
        phrase=HTTPStatus(status).phrase,
        message=message,
        hint=hint,
        request_id=g.get("request_id", ""),
        asked_from=auth.asked_from(),
    )
    return make_response(page, status)


def _refused(error: RowlockError) -> Response:
    status = status_of(error)
    if status == 400 and request.path.startswith("/api/") and request.method not in {"GET", "HEAD"}:
        status = 422  # The API's rule: what is wrong in the address is 400, in a body 422.
    if isinstance(error, NotAllowed):
        _record_refusal(error)
    if status >= 500 and not is_down(error):
        log.error("request %s: %s", g.get("request_id"), error)
    response = _answer(
        status,
        str(error),
        error.hint,
        "database_down.html" if is_down(error) else "error.html",
        code_of(error),
    )
    if status in {429, 503}:
        response.headers["Retry-After"] = "5" if status == 503 else "60"
    return response


def _record_refusal(error: NotAllowed) -> None:
    """What somebody tried and may not: in the log, and in the audit when they are signed in."""
    caller: auth.Caller | None = g.get("caller")
    log.warning(
        "request %s: %s %s refused to %s: %s",
        g.get("request_id"),
        request.method,
        request.path.encode("ascii", "backslashreplace").decode(),
        f"{caller.actor} ({caller.role})" if caller else "somebody not signed in",
        error,
    )
    if caller is None or request.method in {"GET", "HEAD", "OPTIONS"}:
        return
    try:
        with auth.database().as_web(caller.actor) as client:
            client.record_refusal(f"{request.method} {request.path}", caller.role, str(error))
    except RowlockError as exc:
        log.warning("request %s: its refusal is not in the audit: %s", g.get("request_id"), exc)


def _http_error(error: HTTPException) -> Response:
    if isinstance(error, RequestRedirect):
        return cast(Response, error.get_response())
    if isinstance(error, SecurityError):
        # A Host that is not ours: no page, for its addresses would be made from it.
        hint = "ROWLOCK_TRUSTED_HOSTS names the hosts that this dashboard answers to."
        if request.path.startswith("/api/"):
            return problem(400, error.description or "", hint=hint)
        return Response(f"{error.description}\n{hint}\n", 400, mimetype="text/plain")
    status = error.code or 500
    response = _answer(status, error.description or "", None)
    if status == 405 and (allowed := getattr(error, "valid_methods", None)):
        response.headers["Allow"] = ", ".join(sorted(allowed))
    return response


def _unexpected(error: Exception) -> Response:
    log.exception("request %s", g.get("request_id"), exc_info=error)
    return _answer(500, "Something went wrong here.", "The log has it under the request id.")
