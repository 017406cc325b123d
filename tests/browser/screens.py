"""An installation with something on every screen, and the addresses of the screens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pyworker.client import Client

WORKER = "vm-1-4711-1a2b3c4d"


@dataclass(frozen=True)
class LivedIn:
    """Jobs by what has become of them."""

    jobs: dict[str, int]
    queue: str

    @property
    def paths(self) -> tuple[str, ...]:
        """Every screen, in each of the shapes it takes."""
        return (
            "/", "/?range=7d", "/jobs", "/jobs?label=retrying", "/jobs?status=running",
            f"/jobs?queue={self.queue}&q=kind:no.such", "/jobs?cursor=nonsense", "/jobs/new",
            f"/jobs/new?like={self.jobs['failed']}",
            f"/jobs/bulk?action=retry&all=1&status=failed&queue={self.queue}",
            f"/jobs/bulk?action=discard&ids={self.jobs['failed']}",
            *(f"/jobs/{job_id}" for job_id in self.jobs.values()),
            "/jobs/999999999", "/dead", "/queues", f"/queues/{self.queue}", "/queues/never.used",
            "/workers", "/events", f"/events?job={self.jobs['failed']}", "/settings",
            "/settings/maintenance", "/settings/accounts", "/settings/tokens", "/settings/audit",
            "/no/such/page",
        )  # fmt: skip


def live_in(client: Client, queue: str) -> LivedIn:
    """A job in every state, with long texts where texts can be long."""
    long = "a rather long text that has to find its place somewhere, " * 4
    jobs: dict[str, int] = {}

    def make(name: str, **options: object) -> int:
        jobs[name] = client.enqueue(
            "invoice.render_and_send", {"user_id": 42, "note": long}, queue, **options  # type: ignore[arg-type]
        ).job_id  # fmt: skip
        return jobs[name]

    def start(name: str, **options: object) -> tuple[int, int]:
        job_id = make(name, priority=9, **options)
        (claim,) = client.claim(WORKER, [queue])
        assert claim.job_id == job_id
        return job_id, claim.fence

    job_id, fence = start("failed", max_attempts=2)
    error = (
        "company.payments.gateway.errors." + "TemporarilyUnavailable" * 4,
        long,
        {"traceback": f"Traceback\n  {long}"},
    )
    client.fail(job_id, fence, *error)
    client.run_now(job_id, "now")
    (claim,) = client.claim(WORKER, [queue])
    client.fail(job_id, claim.fence, *error)
    client.complete(*start("succeeded"), {"pages": [long] * 20})
    client.fail(*start("retrying"), "OSError", long, retry_in=timedelta(hours=1))
    client.accept_cancel(*start("cancelled"), long)
    client.complete(*start("gone"), None)
    client.discard(jobs["gone"], long)
    for name in ("running", "stopping"):
        job_id, fence = start(name)
        client.progress(job_id, fence, 10, "begun")
        client.progress(job_id, fence, 60, long)
    client.cancel(jobs["stopping"], long)
    make("ready", idempotency_key="order-" + "4711-" * 20, headers={"trace": long})
    make("scheduled", delay=timedelta(days=1))
    client.pause(queue, long, None)
    client.create_token(f"ci {queue}", "viewer", timedelta(days=1), long)
    while client.roll_up().more:
        pass
    return LivedIn(jobs, queue)
