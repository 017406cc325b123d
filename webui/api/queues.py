"""Queues: how they are doing, and what differs for them from the settings."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from pyworker.errors import InvalidArgument
from webui.api import arguments, render
from webui.api.arguments import ATTEMPTS, Reader, Refused, instant, seconds, text
from webui.api.settings import check_unchanged
from webui.pages import acting

blueprint = Blueprint("queues", __name__)

POLICY: dict[str, Reader] = {
    "lease_seconds": seconds,
    "timeout_seconds": seconds,
    "max_attempts": ATTEMPTS,
    "backoff_base_seconds": seconds,
    "backoff_cap_seconds": seconds,
    "finished_retention_seconds": seconds,
    "failed_retention_seconds": seconds,
}


@blueprint.get("/queues")
def list_all() -> Response:
    """The queues in use."""
    arguments.query({})
    with acting() as client:
        return render.rows(client.list_queues())


@blueprint.get("/queues/<queue>")
def show(queue: str) -> Response:
    """One queue."""
    arguments.query({})
    with acting() as client:
        found = next(iter(client.list_queues(queues=[queue])), None)
    if found is None:
        raise Refused(
            404, "no such queue is in use", hint="A queue is there while it has jobs or a policy."
        )
    return render.answer(found)


@blueprint.post("/queues/<queue>/pause")
def pause(queue: str) -> Response:
    """No job of the queue is claimed until it is resumed, or until an instant."""
    given = arguments.body({"reason": text, "until": instant})
    with acting() as client:
        return render.answer(client.pause(queue, **given))


@blueprint.post("/queues/<queue>/resume")
def resume(queue: str) -> Response:
    """Claims go on; `resumed` says whether the queue was paused."""
    given = arguments.body({"reason": text})
    with acting() as client:
        return render.answer({"queue": queue, "resumed": client.resume(queue, **given)})


@blueprint.get("/queues/<queue>/policy")
def policy(queue: str) -> Response:
    """What differs for the queue; null where the settings hold."""
    arguments.query({})
    with acting() as client:
        return render.answer(render.settings(client.get_policy(queue)))


@blueprint.patch("/queues/<queue>/policy")
def set_policy(queue: str) -> Response:
    """Changes what differs for the queue; null goes back to the settings."""
    given = arguments.body({**POLICY, "reason": text}, nulls=True)
    reason = given.pop("reason", None)
    unset = [name.removesuffix("_seconds") for name, value in given.items() if value is None]
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not given:
        raise InvalidArgument("nothing is to be changed", hint=f"Give some of {', '.join(POLICY)}.")
    with acting() as client:
        check_unchanged(lambda: client.set_policy(queue))
        now = client.set_policy(queue, **changed, unset=unset, reason=reason)
    return render.changed(now)
