"""Settings: the defaults of all queues, maintenance, accounts, tokens, the audit, the database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from flask import Blueprint, Response, make_response, redirect, request, url_for

from pyworker.durations import typed
from pyworker.errors import InvalidArgument
from webui import auth, forms
from webui.pages import acting, done, page, reading

blueprint = Blueprint("settings", __name__)

TABS = (
    ("settings.show", "Defaults", "viewer"),
    ("settings.maintenance", "Maintenance", "viewer"),
    ("settings.accounts", "Accounts", "admin"),
    ("settings.tokens", "API tokens", "admin"),
    ("settings.audit", "Audit", "admin"),
    ("api_docs.show", "API", "viewer"),
)

SPANS = (
    ("lease", "Lease", "how long a worker has before it must renew"),
    ("backoff_base", "Backoff, base", "the first wait after a failure; doubles each time"),
    ("backoff_cap", "Backoff, cap", "the longest wait after a failure"),
    ("tick_interval", "Tick", "how often maintenance looks for lost leases"),
)
RETENTION = (
    ("finished_retention", "Succeeded and cancelled jobs", "then they are removed"),
    ("failed_retention", "Failed jobs", "then they are removed"),
    ("events_retention", "Events", "whole days are removed at once"),
)

_ROLES = ("viewer", "operator", "admin")
_TOKEN_ROLES = ("producer", "worker", "viewer", "operator", "admin")

# Carries a secret from the answer to a form to the page that shows it, once.
_ONCE = "rowlock_once"


@blueprint.get("/settings")
def show() -> Response:
    """The defaults of all queues, and how long things are kept."""
    with reading() as client:
        settings = {setting.name: setting.value for setting in client.get_settings()}
    return page(
        "settings/show.html", tabs=TABS, settings=settings, spans=SPANS, retention=RETENTION
    )


@blueprint.post("/settings")
@auth.answers_form
def save() -> Response:
    """Changes those that were given another value."""
    changed: dict[str, Any] = {}
    with acting() as client:
        now = {setting.name: setting.value for setting in client.get_settings()}
        for name, label, _ in (*SPANS, *RETENTION):
            if (value := forms.given(name)) and value != typed(now[name]):
                changed[name] = forms.span(value, label.lower())
        if (value := forms.given("max_attempts")) and value != now["max_attempts"]:
            changed["max_attempts"] = forms.whole(value, "attempts", 1, 100_000)
        if (value := forms.given("claim_floor")) in {"true", "false"} and value != now[
            "claim_floor"
        ]:
            changed["claim_floor"] = value == "true"
        client.set_settings(changed, forms.reason())
    return done("settings.show", "saved")


# -- maintenance


@blueprint.get("/settings/maintenance")
def maintenance() -> Response:
    """What health() finds, and what to do about it."""
    with reading() as client:
        checks = client.health()
        capabilities = client.capabilities()
    return page(
        "settings/maintenance.html",
        live="settings/_maintenance.html",
        tabs=TABS,
        checks=checks,
        capabilities=capabilities,
    )


@blueprint.post("/settings/maintenance/tick")
@auth.answers_form
def tick() -> Response:
    """Does the steps that are due, each in a transaction of its own."""
    for _ in range(10):
        with acting() as client:
            step = client.tick()
        if not step.more:
            break
    return done("settings.maintenance", "ticked")


# -- accounts


@blueprint.get("/settings/accounts")
def accounts() -> Response:
    """Who may sign in."""
    with reading() as client:
        found = client.list_accounts()
    return _show_once("settings/accounts.html", accounts=found, roles=_ROLES)


@blueprint.post("/settings/accounts")
@auth.answers_form
def create_account() -> Response:
    """Somebody more may sign in: with a password, or by a link that is shown once."""
    account = (forms.given("account") or "").lower()
    password = request.form.get("password") or None
    password_hash = auth.hash_password(password) if password else None
    with acting() as client:
        client.create_account(
            account, request.form.get("role") or "viewer", password_hash, forms.reason()
        )
        secret = None if password else client.create_link(account, timedelta(days=1))
    if secret is None:
        return done("settings.accounts", "account")
    return _keep_once("settings.accounts", f"link:{secret}")


@blueprint.post("/settings/accounts/<account>")
@auth.answers_form
def set_account(account: str) -> Response:
    """Another role or password, disabled or enabled; ends the account's sessions."""
    password = request.form.get("password") or None
    disabled = {"1": True, "0": False}.get(request.form.get("disabled", ""))
    password_hash = auth.hash_password(password) if password else None
    role = forms.given("role")
    if password_hash is None and disabled is None and role is None:
        raise InvalidArgument("nothing to change was given", hint="A role or a password.")
    with acting() as client:
        client.set_account(account, role, password_hash, disabled, forms.reason())
    return done("settings.accounts", "account")


@blueprint.post("/settings/accounts/<account>/link")
@auth.answers_form
def create_link(account: str) -> Response:
    """A link that signs the account in once, within a day."""
    with acting() as client:
        secret = client.create_link(account, timedelta(days=1))
    return _keep_once("settings.accounts", f"link:{secret}")


# -- tokens


@blueprint.get("/settings/tokens")
def tokens() -> Response:
    """Secrets of programs."""
    with reading() as client:
        found = client.list_tokens()
    return _show_once("settings/tokens.html", tokens=found, roles=_TOKEN_ROLES)


@blueprint.post("/settings/tokens")
@auth.answers_form
def create_token() -> Response:
    """A program more may use the API."""
    lifetime = forms.span(request.form.get("lifetime"), "lifetime")
    with acting() as client:
        made = client.create_token(
            forms.given("name") or "", request.form.get("role") or "", lifetime, forms.reason()
        )
    return _keep_once("settings.tokens", f"token:{made.secret}")


@blueprint.post("/settings/tokens/<token_id>/revoke")
@auth.answers_form
def revoke_token(token_id: str) -> Response:
    """The token is refused from now on."""
    number = forms.whole(token_id, "token id", 1) or 0
    with acting() as client:
        client.revoke_token(number, forms.reason())
    return done("settings.tokens", "revoked")


# -- audit


@blueprint.get("/settings/audit")
def audit() -> Response:
    """Who did what, beside what jobs' own events tell."""
    cursor = forms.whole(request.args.get("cursor"), "cursor")
    with reading() as client:
        actions = client.list_audit(cursor, 100)
    return page(
        "settings/audit.html",
        tabs=TABS,
        actions=actions,
        cursor=cursor,
        older=actions[-1].id if len(actions) == 100 else None,
    )


def _keep_once(endpoint: str, secret: str) -> Response:
    """A secret does not belong into an address: it travels in a cookie that lives a minute."""
    response = make_response(redirect(url_for(endpoint), 303))
    response.set_cookie(
        _ONCE,
        secret,
        max_age=60,
        httponly=True,
        samesite="Strict",
        secure=request.is_secure or auth.config().secure_cookies,
        path=url_for(endpoint),
    )
    return response


def _show_once(template: str, **context: Any) -> Response:
    kind, _, secret = request.cookies.get(_ONCE, "").partition(":")
    if kind not in {"link", "token"}:
        secret = ""
    response = page(template, tabs=TABS, secret=secret, secret_kind=kind, **context)
    if secret:
        response.delete_cookie(
            _ONCE, path=request.script_root + request.path, httponly=True, samesite="Strict"
        )
    return response
