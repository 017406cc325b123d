"""API tokens."""

from __future__ import annotations

from flask import Blueprint, Response

from webui.api import arguments, render
from webui.api.arguments import path_id, seconds, text
from webui.pages import acting

blueprint = Blueprint("tokens", __name__)


@blueprint.get("/tokens")
def list_all() -> Response:
    """All tokens, without their secrets."""
    arguments.query({})
    with acting() as client:
        return render.rows(client.list_tokens())


@blueprint.post("/tokens")
def create() -> Response:
    """A token; its secret is shown this once. A null lifetime never ends."""
    given = arguments.body(
        {"name": text, "role": text, "lifetime_seconds": seconds, "reason": text},
        required=["name", "role"],
        nulls=True,
    )
    if "lifetime_seconds" in given:
        given["lifetime"] = given.pop("lifetime_seconds")
    with acting() as client:
        return render.answer(client.create_token(**given), 201)


@blueprint.delete("/tokens/<token_id>")
def revoke(token_id: str) -> Response:
    """Revokes a token at once."""
    given = arguments.query({"reason": text})
    with acting() as client:
        client.revoke_token(path_id(token_id), **given)
    return render.nothing()
