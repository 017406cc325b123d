"""Signing in and out."""

from __future__ import annotations

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for

from pyworker.errors import LimitReached
from webui import auth

blueprint = Blueprint("sign_in", __name__)


@blueprint.get("/sign-in")
@auth.public
def form() -> str:
    """The form; `next` is where to go afterwards."""
    return render_template("sign_in/form.html", next=auth.safe_path(request.args.get("next")))


@blueprint.post("/sign-in")
@auth.public
def check() -> Response:
    """Checks a password. Wrong account and wrong password read alike and take as long."""
    auth.check_same_origin()
    account = request.form.get("account", "").strip().lower()
    target = auth.safe_path(request.form.get("next"))
    address = request.remote_addr or ""

    try:
        with auth.database().as_web() as client:
            expected = client.check_password(account, address)
    except LimitReached as error:
        return _again(target, f"{error}. {error.hint or ''}", 429)

    # Between the transactions: hashing takes its time, and a connection should not wait for it.
    if not auth.password_is_right(request.form.get("password", ""), expected):
        with auth.database().as_web() as client:
            client.record_sign_in_failure(account, address)
        return _again(target, "Account or password is wrong.", 401)

    with auth.database().as_web() as client:
        secret = client.start_session(account, address, request.headers.get("User-Agent"))
    return auth.keep_session(
        make_response(redirect(target or url_for("overview.show"), 303)), secret
    )


@blueprint.get("/sign-in/link/<secret>")
@auth.public
def link(secret: str) -> str:
    """A link of `rowlock account link`. Asks for a click: a preview must not use it up."""
    return render_template("sign_in/link.html", secret=secret)


@blueprint.post("/sign-in/link/<secret>")
@auth.public
def redeem(secret: str) -> Response:
    """Signs in whoever the link is for, once."""
    auth.check_same_origin()
    with auth.database().as_web() as client:
        session = client.redeem_link(secret, request.remote_addr, request.headers.get("User-Agent"))
    if session is None:
        return _again(None, "The link has been used or is too old. Ask for a new one.", 401)
    return auth.keep_session(make_response(redirect(url_for("overview.show"), 303)), session)


@blueprint.post("/sign-out")
@auth.answers_form
def sign_out() -> Response:
    """Ends the session on the server too."""
    with auth.database().as_web() as client:
        client.end_session(auth.caller().secret or "")
    return auth.drop_session(make_response(redirect(url_for("sign_in.form"), 303)))


def _again(target: str | None, message: str, status: int) -> Response:
    page = render_template(
        "sign_in/form.html", next=target, message=message, account=request.form.get("account")
    )
    return make_response(page, status)
