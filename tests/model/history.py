"""What the events of one job say: where it stands (`replay`), and whether it can be (`violations`).

An event is written by the transition it tells of, and tells all that changed:

* every event: `to_status`, `attempt` and `fence` as they are afterwards, `worker` where one held
  the job before or holds it now, `at`, the instant of the transition;
* `enqueued`: `detail` has priority, max_attempts, and available_at where that is not `at`;
* whatever queues a job again: `detail` has available_at, with `reprioritized` the priority and with
  `retried` max_attempts;
* whatever follows a failure or a lost lease: `detail` has error_type, error_message, error_group;
* `progressed`: `detail` has progress and progress_message as they are now.

Fields that are null are left out of `detail`. A renewal changes no more than the lease and writes
no event.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyworker.client import Event

FINISHED = frozenset({"succeeded", "failed", "cancelled"})

ARROWS = frozenset(
    {
        ("enqueued", None, "queued"),
        ("claimed", "queued", "running"),
        ("made_due", "queued", "queued"),
        ("reprioritized", "queued", "queued"),
        ("progressed", "running", "running"),
        ("succeeded", "running", "succeeded"),
        ("retry_scheduled", "running", "queued"),
        ("failed", "running", "failed"),
        ("lease_expired", "running", "queued"),
        ("lease_expired", "running", "failed"),
        ("timed_out", "running", "queued"),
        ("timed_out", "running", "failed"),
        ("released", "running", "queued"),
        ("snoozed", "running", "queued"),
        ("cancelled", "queued", "cancelled"),
        ("cancelled", "running", "cancelled"),
        ("cancel_requested", "running", "running"),
        ("retried", "failed", "queued"),
        ("retried", "cancelled", "queued"),
        ("discarded", "succeeded", "gone"),
        ("discarded", "failed", "gone"),
        ("discarded", "cancelled", "gone"),
    }
)
"""DESIGN's table of states, and no other arrow."""

GIVES_BACK = frozenset({"released", "snoozed"})
"""Events after which the attempt counts as not used."""


@dataclass(slots=True)
class Standing:
    """What the events of a job say about it; the names are those of the row's columns."""

    status: str = ""
    attempt: int = 0
    max_attempts: int = 0
    fence: int = 0
    worker: str | None = None
    priority: int = 0
    available_at: datetime | None = None
    finished_at: datetime | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_group: str | None = None
    progress: int | None = None
    progress_message: str | None = None


STANDING = tuple(Standing.__dataclass_fields__)


def replay(events: Iterable[Event]) -> Standing:
    """Where a job stands after these events, the first of which is its `enqueued`."""
    job = Standing()
    for event in events:
        job.status, job.attempt, job.fence = event.to_status, event.attempt, event.fence
        job.worker = event.worker if event.to_status == "running" else None
        job.finished_at = event.at if event.to_status in FINISHED else None

        if event.event == "enqueued":
            job.available_at = event.at
        elif event.event == "claimed":
            job.progress = job.progress_message = None
        elif event.event == "succeeded":
            job.error_type = job.error_message = job.error_group = None

        for name, value in (event.detail or {}).items():
            if name in STANDING:
                setattr(job, name, instant(value) if name == "available_at" else value)
    return job


def instant(value: Any) -> datetime:
    """An instant in a detail: ISO 8601 text, unless it has been read already."""
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def violations(events: Iterable[Event]) -> list[str]:
    """What in this history of one job cannot have happened; nothing when all is well."""
    found: list[str] = []
    last: Event | None = None
    max_attempts = 0
    cancel_requested = False

    for event in events:
        said = f"event {event.id} of job {event.job_id} ({event.event}, fence {event.fence})"
        detail = event.detail or {}
        max_attempts = detail.get("max_attempts", max_attempts)

        if (event.event, event.from_status, event.to_status) not in ARROWS:
            found.append(f"{said}: no arrow from {event.from_status} to {event.to_status}")
        if event.from_status != (last.to_status if last else None):
            found.append(f"{said}: comes from {event.from_status}, not from where the job was")

        attempt, fence = (last.attempt, last.fence) if last else (0, 0)
        if event.event == "claimed":
            attempt, fence = attempt + 1, fence + 1
        elif event.event in GIVES_BACK:
            attempt -= 1
        if event.fence != fence:
            found.append(f"{said}: the fence should be {fence}")
        if event.attempt != attempt:
            found.append(f"{said}: attempt {event.attempt} should be {attempt}")
        if event.attempt > max_attempts:
            found.append(f"{said}: attempt {event.attempt} of {max_attempts}")

        if event.event in ("lease_expired", "timed_out"):
            is_last = event.attempt >= max_attempts
            if is_last != (event.to_status == "failed"):
                found.append(f"{said}: attempt {attempt} of {max_attempts} -> {event.to_status}")
        elif event.event == "retry_scheduled" and event.attempt >= max_attempts:
            found.append(f"{said}: queued again after the last attempt")

        if cancel_requested and event.from_status == "running" and event.to_status not in (
            "running", "succeeded", "cancelled",
        ):  # fmt: skip
            found.append(f"{said}: a cancel was requested")
        cancel_requested = event.to_status == "running" and (
            event.event == "cancel_requested" or (cancel_requested and event.event != "claimed")
        )

        holder = last.worker if last and last.to_status == "running" else None
        if holder is not None and event.worker != holder:
            found.append(f"{said}: {event.worker} acts on what {holder} holds")
        if event.event == "claimed" and not event.worker:
            found.append(f"{said}: nobody claimed it")
        if last is not None and event.at < last.at:
            found.append(f"{said}: happened at {event.at}, before the event before it")
        last = event

    if last is None:
        found.append("there is no event at all")
    return found
