"""The defaults of all queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flask import Blueprint, Response, request

from pyworker.client import Setting
from pyworker.errors import InvalidArgument
from webui.api import arguments, render
from webui.api.arguments import ATTEMPTS, Reader, Refused, boolean, seconds, text
from webui.pages import acting

blueprint = Blueprint("settings", __name__)

SETTINGS: dict[str, Reader] = {
    "lease_seconds": seconds,
    "max_attempts": ATTEMPTS,
    "backoff_base_seconds": seconds,
    "backoff_cap_seconds": seconds,
    "finished_retention_seconds": seconds,
    "failed_retention_seconds": seconds,
    "events_retention_seconds": seconds,
    "tick_interval_seconds": seconds,
    "claim_floor": boolean,
}


@blueprint.get("/settings")
def show() -> Response:
    """The settings."""
    arguments.query({})
    with acting() as client:
        return render.answer(render.settings(client.get_settings()))


@blueprint.patch("/settings")
def change() -> Response:
    """Changes some of the settings, all or none."""
    given = arguments.body({**SETTINGS, "reason": text})
    reason = given.pop("reason", None)
    if not given:
        raise InvalidArgument(
            "nothing is to be changed", hint=f"Give some of {', '.join(SETTINGS)}."
        )
    with acting() as client:
        check_unchanged(lambda: client.set_settings({}))
        now = client.set_settings(given, reason)
    return render.changed(now)


def check_unchanged(look: Callable[[], Sequence[Setting]]) -> None:
    """412 when If-Match names another state than the present one. `look` is a change of nothing,
    in the transaction of the change: it locks what it answers with."""
    if request.if_match and render.etag(render.settings(look())) not in request.if_match:
        raise Refused(
            412,
            "it was changed meanwhile",
            "changed_meanwhile",
            "Read it again and decide anew.",
        )
