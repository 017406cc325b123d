"""Accounts of people. There is no deleting one, for the audit names it: it is disabled."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from pyworker.errors import InvalidArgument
from webui import auth
from webui.api import arguments, render
from webui.api.arguments import Reader, boolean, seconds, text
from webui.pages import acting

blueprint = Blueprint("accounts", __name__)

CHANGE: dict[str, Reader] = {"role": text, "password": text, "reason": text}


@blueprint.get("/accounts")
def list_all() -> Response:
    """All accounts."""
    arguments.query({})
    with acting() as client:
        return render.rows(client.list_accounts())


@blueprint.post("/accounts")
def create() -> Response:
    """An account; without a password it signs in by a link."""
    given = arguments.body({"account": text, **CHANGE}, required=["account", "role"])
    with acting() as client:
        client.list_accounts()  # Hashing takes its time: let the database say no before.
    given = _hashed(given)
    with acting() as client:
        client.create_account(**given)
    return render.answer({"account": given["account"], "role": given["role"]}, 201)


@blueprint.patch("/accounts/<account>")
def change(account: str) -> Response:
    """Another role or password, disabled or enabled again; either ends its sessions."""
    given = arguments.body({**CHANGE, "disabled": boolean})
    if given.keys() <= {"reason"}:
        raise InvalidArgument("nothing is to be changed", hint="Give role, password or disabled.")
    with acting() as client:
        client.list_accounts()
    given = _hashed(given)
    with acting() as client:
        client.set_account(account, **given)
    return render.nothing()


@blueprint.delete("/accounts/<account>")
def disable(account: str) -> Response:
    """Disables an account and ends its sessions."""
    given = arguments.query({"reason": text})
    with acting() as client:
        client.set_account(account, disabled=True, **given)
    return render.nothing()


@blueprint.post("/accounts/<account>/links")
def create_link(account: str) -> Response:
    """A secret that signs the account in once, at /sign-in/link/<secret>."""
    given = arguments.body({"lifetime_seconds": seconds})
    with acting() as client:
        return render.answer({"secret": client.create_link(account, **given)}, 201)


def _hashed(given: dict[str, Any]) -> dict[str, Any]:
    secret = given.pop("password", None)
    return given if secret is None else {**given, "password_hash": auth.hash_password(secret)}
