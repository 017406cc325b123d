"""Who one is here, and what one may do."""

from __future__ import annotations

from flask import Blueprint, Response

from webui import auth
from webui.api import arguments, render
from webui.pages import acting

blueprint = Blueprint("capabilities", __name__)


@blueprint.get("/whoami")
def whoami() -> Response:
    """The account or token that asks. Any role may."""
    arguments.query({})
    who = auth.caller()
    return render.answer(
        {
            "name": who.name,
            "role": who.role,
            "actor": who.actor,
            "by": "session" if who.secret else "token",
        }
    )


@blueprint.get("/capabilities")
def show() -> Response:
    """What a viewer's client shows of the server."""
    arguments.query({})
    with acting() as client:
        return render.answer(client.capabilities())
