"""The worker protocol, for workers without a PostgreSQL driver: claim, renew, settle.

Everything a worker says about a job carries the claim's fence. A claim that was taken away is 409
`claim_lost`: the worker drops its result. In a batch each claim has its own verdict, and the answer
is 409 only when all are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Blueprint, Response

from pyworker.client import Outcome, Renewal, Settlement
from webui.api import arguments, render
from webui.api.arguments import (
    LIMIT,
    PERCENT,
    Reader,
    Refused,
    anything,
    boolean,
    choice,
    identifier,
    objects,
    path_id,
    seconds,
    text,
    texts,
    within,
)
from webui.pages import acting

blueprint = Blueprint("claims", __name__)

FENCE = within(0, 2**31 - 1)
CLAIM: dict[str, Reader] = {"job_id": identifier, "fence": FENCE}
OUTCOME: dict[str, Reader] = {
    **CLAIM,
    "outcome": choice("complete", "fail", "snooze", "release", "accept_cancel"),
    "result": anything,
    "error_type": text,
    "message": text,
    "detail": anything,
    "retry_in_seconds": seconds,
    "fatal": boolean,
    "delay_seconds": seconds,
    "reason": text,
}


@blueprint.post("/claims")
def claim() -> Response:
    """Claims due jobs for a worker; no job is no error."""
    given = arguments.body({"worker": text, "queues": texts, "limit": LIMIT}, required=["worker"])
    with acting() as client:
        found = client.claim(
            given["worker"], given.get("queues", ["default"]), given.get("limit", 1)
        )
    return render.rows(found, fence=True)


@blueprint.post("/renewals")
def renew() -> Response:
    """Renews leases; a verdict of stop asks the handler to end."""
    given = arguments.body({"claims": objects(CLAIM, list(CLAIM))}, required=["claims"])
    with acting() as client:
        found = client.renew(
            [one["job_id"] for one in given["claims"]], [one["fence"] for one in given["claims"]]
        )
    return _verdicts(found)


@blueprint.post("/settlements")
def settle() -> Response:
    """Ends claims. `busy` is to be asked again, `refused` says why."""
    required = ["job_id", "fence", "outcome"]
    given = arguments.body({"outcomes": objects(OUTCOME, required)}, required=["outcomes"])
    with acting() as client:
        found = client.settle(Outcome(**one) for one in given["outcomes"])
    return _verdicts(found)


@blueprint.post("/jobs/<job_id>/progress")
def progress(job_id: str) -> Response:
    """How far a handler is."""
    fields: dict[str, Reader] = {"fence": FENCE, "percent": PERCENT, "message": text}
    given = arguments.body(fields, required=["fence"])
    job = path_id(job_id)
    with acting() as client:
        verdict = client.progress(job, **given)
    if verdict == "lost":
        raise _lost(None)
    return render.answer({"verdict": verdict})


def _verdicts(found: Sequence[Renewal] | Sequence[Settlement]) -> Response:
    if found and all(row.verdict == "lost" for row in found):
        raise _lost([{"job_id": str(row.job_id), "verdict": row.verdict} for row in found])
    return render.rows(found, fence=True)


def _lost(data: list[Any] | None) -> Refused:
    return Refused(
        409,
        "the claim was taken away",
        "claim_lost",
        "Drop the result and claim again.",
        data=data,
    )
