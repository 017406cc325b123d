"""Jobs: made by producers, looked at by viewers, steered by operators."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Response, request

from pyworker.client import Enqueued, EnqueuedOne, Event, NewJob
from webui.api import arguments, render
from webui.api.arguments import (
    ATTEMPTS,
    LIMIT,
    PRIORITY,
    Reader,
    Refused,
    anything,
    boolean,
    choice,
    document,
    identifier,
    identifiers,
    instant,
    members,
    objects,
    path_id,
    seconds,
    text,
    within,
)
from webui.pages import acting, count_all

blueprint = Blueprint("jobs", __name__)

NEW_JOB: dict[str, Reader] = {
    "kind": text,
    "payload": anything,
    "queue": text,
    "priority": PRIORITY,
    "available_at": instant,
    "delay_seconds": seconds,
    "max_attempts": ATTEMPTS,
    "lease_seconds": seconds,
    "timeout_seconds": seconds,
    "idempotency_key": text,
    "headers": document,
}
FILTER: dict[str, Reader] = {
    "status": text,
    "label": text,
    "queue": text,
    "kind": text,
    "priority": PRIORITY,
    "worker": text,
    "error_group": text,
    "idempotency_key": text,
    "created_after": instant,
    "created_before": instant,
}
DOCUMENTS = ("payload", "headers")
PAGE: dict[str, Reader] = {"limit": LIMIT, "cursor": text}
REASON: dict[str, Reader] = {"reason": text}

# Who waits for events holds a thread of the server: only so many may, the others ask again.
MOST_WAITING = 3
_waiting = threading.BoundedSemaphore(MOST_WAITING)
_LONGEST_WAIT = 20
_LOOK_EVERY = 0.5


@blueprint.post("/jobs")
def create() -> Response:
    """Enqueues a job. The header Idempotency-Key is the job's key."""
    given = arguments.body(NEW_JOB, required=["kind"])
    key = request.headers.get("Idempotency-Key")
    if key is not None and given.setdefault("idempotency_key", key) != key:
        raise Refused(422, "idempotency_key is not what the header says", "validation_failed")

    with acting() as client:
        made = client.enqueue(**given)
    if made.created:
        where = f"{request.script_root}/api/v1/jobs/{made.job_id}"
        return render.answer(_made(made), 201, Location=where)
    return render.answer(_made(made), 200, Idempotent_Replay="true")


@blueprint.post("/jobs/batch")
def create_many() -> Response:
    """Enqueues up to 1,000 jobs, all or none."""
    given = arguments.body({"jobs": objects(NEW_JOB, ["kind"])}, required=["jobs"])
    with acting() as client:
        made = client.enqueue_many(NewJob(**job) for job in given["jobs"])
    return render.rows([_made(one) for one in made], status=201)


def _made(made: Enqueued | EnqueuedOne) -> dict[str, Any]:
    return {"id": str(made.job_id), "created": made.created}


@blueprint.get("/jobs")
def list_all() -> Response:
    """Jobs that match a filter, without payloads, a page at a time."""
    return list_page(arguments.query({**FILTER, **PAGE}, DOCUMENTS))


def list_page(given: dict[str, Any]) -> Response:
    limit, cursor = given.pop("limit", 50), given.pop("cursor", None)
    place, backwards = arguments.unpack(cursor, given)
    with acting() as client:
        found = client.list_jobs(given, place, limit, backwards)
        total = None if cursor else count_all(client, given, found, limit)
    return render.page(
        [render.job(row) for row in found.rows],
        arguments.pack(found.next_cursor, given),
        arguments.pack(found.previous_cursor, given, backwards=True),
        total=total and {"value": total.jobs, "capped": total.capped},
    )


@blueprint.get("/jobs/count")
def count() -> Response:
    """How many jobs match a filter; capped says that there may be more."""
    given = arguments.query(FILTER, DOCUMENTS)
    with acting() as client:
        total = client.count_jobs(given)
    return render.answer({"value": total.jobs, "capped": total.capped})


@blueprint.get("/jobs/<job_id>")
def show(job_id: str) -> Response:
    """One job, with its payload and result."""
    arguments.query({})
    with acting() as client:
        return render.answer(render.job(client.get_job(path_id(job_id))))


@blueprint.get("/jobs/<job_id>/events")
def events(job_id: str) -> Response:
    """What happened to a job after an event, oldest first; `wait`: for so many seconds if nothing
    has."""
    given = arguments.query({"after": identifier, "wait": within(0, _LONGEST_WAIT), "limit": LIMIT})
    job, limit = path_id(job_id), given.get("limit", 50)
    after, wait = given.get("after"), given.get("wait", 0)
    with acting() as client:
        found = client.list_events(job, None, after, limit).rows
        if not found and (wait or after is None):
            client.get_job(job)  # Raises when there is no such job: nothing will happen to it.
    if not found and wait:
        with _seat():
            found = _wait_for_events(job, after, limit, wait)
    last = found[-1].id if found else after
    return render.answer(
        {
            "data": found,
            "page": {
                "next_after": None if last is None else str(last),
                "has_more": len(found) == limit,
            },
        }
    )


def _wait_for_events(job_id: int, after: int | None, limit: int, wait: int) -> list[Event]:
    """Looks again and again, each time in a transaction of its own: none is held while waiting."""
    ends = time.monotonic() + wait
    found: list[Event] = []
    while not found and (left := ends - time.monotonic()) > 0:
        time.sleep(min(_LOOK_EVERY, left))
        with acting() as client:
            found = client.list_events(job_id, None, after, limit).rows
    return found


@contextmanager
def _seat() -> Iterator[None]:
    if not _waiting.acquire(blocking=False):
        raise Refused(
            429,
            "too many requests are waiting for events",
            "too_many_waiting",
            "Ask again after Retry-After, or without wait.",
        )
    try:
        yield
    finally:
        _waiting.release()


@blueprint.get("/jobs/<job_id>/attempts")
def attempts(job_id: str) -> Response:
    """Each claim of a job: who held it, how it ended, with what error."""
    arguments.query({})
    with acting() as client:
        found = client.job_attempts(path_id(job_id))
        if not found:
            client.get_job(path_id(job_id))  # Raises when there is no such job.
    return render.rows(found)


@blueprint.post("/jobs/<job_id>/retry")
def retry(job_id: str) -> Response:
    """Queues a failed or cancelled job again."""
    given = arguments.body({"extra_attempts": ATTEMPTS, "delay_seconds": seconds, **REASON})
    with acting() as client:
        return render.answer(client.retry(path_id(job_id), **given))


@blueprint.post("/jobs/<job_id>/cancel")
def cancel(job_id: str) -> Response:
    """Cancels a queued job; of a running one asks the worker to stop, which is a 202."""
    given = arguments.body(REASON)
    with acting() as client:
        cancelled = client.cancel(path_id(job_id), **given)
    return render.answer(cancelled, 202 if cancelled.status == "running" else 200)


@blueprint.post("/jobs/<job_id>/run-now")
def run_now(job_id: str) -> Response:
    """Makes a queued job due."""
    given = arguments.body(REASON)
    with acting() as client:
        return render.answer(client.run_now(path_id(job_id), **given))


@blueprint.patch("/jobs/<job_id>")
def reprioritize(job_id: str) -> Response:
    """Changes the priority of a queued job."""
    given = arguments.body({"priority": PRIORITY, **REASON}, required=["priority"])
    with acting() as client:
        return render.answer(client.reprioritize(path_id(job_id), **given))


@blueprint.delete("/jobs/<job_id>")
def discard(job_id: str) -> Response:
    """Removes a finished job before its retention."""
    given = arguments.query(REASON)
    with acting() as client:
        client.discard(path_id(job_id), **given)
    return render.nothing()


_ACTIONS = ("retry", "cancel", "run_now", "reprioritize", "discard")
_ARGUMENTS: dict[str, Reader] = {
    "extra_attempts": ATTEMPTS,
    "delay_seconds": seconds,
    "spread_seconds": seconds,
    "priority": PRIORITY,
}
_BULK_FILTER: dict[str, Reader] = {**FILTER, "payload": anything, "headers": anything}


@blueprint.post("/jobs/bulk")
def bulk() -> Response:
    """One action on the jobs given by ids, by a filter, or on all it can take: a page of them."""
    given = arguments.body(
        {
            "action": choice(*_ACTIONS),
            "ids": identifiers,
            "filter": members(_BULK_FILTER),
            "all": boolean,
            "dry_run": boolean,
            "limit": within(1, 1000),
            "cursor": text,
            "args": members(_ARGUMENTS),
            **REASON,
        },
        required=["action"],
    )
    which = _which(given)
    scope = {"action": given["action"], **which}
    place, _ = arguments.unpack(given.get("cursor"), scope)
    with acting() as client:
        found = client.bulk(
            given["action"],
            which,
            given.get("dry_run", False),
            given.get("limit", 1000),
            given.get("args"),
            given.get("reason"),
            place,
        )
    outcomes = [row.outcome for row in found.rows]
    return render.page(
        [{"id": str(row.job_id), "outcome": row.outcome, "note": row.note} for row in found.rows],
        arguments.pack(found.next_cursor, scope),
        matched=len(found.rows),
        affected=outcomes.count("changed"),
        skipped=outcomes.count("skipped"),
    )


def _which(given: dict[str, Any]) -> dict[str, Any]:
    """The filter of a bulk action; nothing given must not mean everything."""
    ways = [name for name in ("ids", "filter", "all") if given.get(name) not in (None, False)]
    if len(ways) != 1 or given.get("filter") == {}:
        raise Refused(
            422,
            "exactly one of ids, a filter that is not empty, and all says which jobs are meant",
            "validation_failed",
            "To mean every job that the action takes, send all: true.",
        )
    if ways == ["ids"]:
        return {"ids": given["ids"]}
    return dict(given.get("filter") or {})
