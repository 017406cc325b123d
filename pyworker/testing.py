"""For the tests of applications: jobs on a real database, in a transaction that is rolled back.

    # conftest.py
    pytest_plugins = ["pyworker.testing"]

    @pytest.fixture
    def rowlock_app():
        return shop.app

    # test_orders.py
    def test_an_order_sends_an_email(rowlock):
        shop.place_order(rowlock.conn, "a@b.example")
        rowlock.assert_enqueued("email.send", payload={"to": "a@b.example"}, count=1)
        assert rowlock.work_one("email").outcome == "succeeded"

The database is ROWLOCK_TEST_DATABASE_URL, whose login must own schema `queue` or be a superuser (it
is migrated, nothing else stays in it), or an embedded server without it. Jobs enqueued without a
connection go to the test's. `perform` needs no database.

Two statements here age rows. They are no part of the schema, where nobody may do such a thing.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any, Literal

import psycopg
import pytest

from pyworker import deploy, embedded, runner
from pyworker.app import App, Handler
from pyworker.client import Client, Enqueued, JsonText, encode_json
from pyworker.client import Job as JobRow
from pyworker.durations import duration
from pyworker.job import Job, Snooze, current_job

Outcome = Literal["succeeded", "failed", "cancelled", "retrying", "snoozed", "released"]

_WORKER = "testing"

_AGE = """
update queue.jobs as job
set created_at = job.created_at - %(span)s,
    available_at = job.available_at - %(span)s,
    started_at = job.started_at - %(span)s,
    finished_at = job.finished_at - %(span)s,
    lease_expires_at = job.lease_expires_at - %(span)s,
    deadline_at = job.deadline_at - %(span)s,
    cancel_requested_at = job.cancel_requested_at - %(span)s
where %(job_id)s::bigint is null or job.id = %(job_id)s
"""
_EXPIRE_LEASE = """
update queue.jobs as job
set lease_expires_at = clock_timestamp() - interval '1 second'
where job.id = %(job_id)s and job.status = 'running'
"""
# No function dates a job before what a session has seen; ageing does.
_FORGET_FLOORS = "select set_config('rowlock.floors', '', false)"


@dataclass(frozen=True, slots=True)
class Worked:
    """A job that was run, as it was left. `outcome` says how the run ended."""

    outcome: Outcome
    job: JobRow

    @property
    def result(self) -> Any:
        return self.job.result

    @property
    def error_type(self) -> str | None:
        return self.job.error_type

    @property
    def error_message(self) -> str | None:
        return self.job.error_message


JobRef = int | JobRow | Enqueued | Worked


class Rowlock:
    """Jobs of one test. `conn` is in a transaction that is rolled back after it."""

    def __init__(self, conn: psycopg.Connection[Any], app: App) -> None:
        self.conn = conn
        self.app = app
        self.client = Client(conn)

    # -- running jobs

    def work_one(self, queue: str | Sequence[str] = "default") -> Worked | None:
        """Runs the next due job here and now, as a worker would; None when none is due."""
        queues = [queue] if isinstance(queue, str) else list(queue)
        claims = self.client.claim_rows(_WORKER, queues, 1)
        if not claims:
            return None
        job = Job(claims[0], _WORKER, monotonic(), self._report)
        answer = self._run(job)
        if answer is not None:
            ((*_, verdict, reason),) = self.client.settle_rows([answer.text])
            if verdict == "refused":
                answer = runner.failed(job, "OutcomeRefused", str(reason), fatal=True)
                self.client.settle_rows([answer.text])
        row = self.client.get_job(job.id)
        return Worked(_outcome(row, answer), row)

    def drain(self, queue: str | Sequence[str] = "default", max_jobs: int = 1000) -> list[Worked]:
        """Runs what is due, and what that makes due, until nothing is.

        Fails when there is no end to it after `max_jobs`.
        """
        done: list[Worked] = []
        while (worked := self.work_one(queue)) is not None:
            done.append(worked)
            if len(done) > max_jobs:
                pytest.fail(f"still not drained after {max_jobs} jobs: {queue}")
        return done

    def _run(self, job: Job) -> runner.Answer | None:
        handler = self.app.handlers.get(job.kind)
        if handler is None:
            return runner.snoozed(job, Snooze(30, f"no handler for kind {job.kind}"))
        if handler.is_async:
            return asyncio.run(runner.run_async(handler, job))
        return runner.run(handler, job)

    def _report(self, job: Job) -> None:
        percent, message = job._progress or (None, None)
        job._progress_sent = job._progress
        verdict = self.client.progress(job.id, job.fence, percent, message)
        if verdict == "lost":
            job._lost = True
            job._tell_to_stop("lost")
        elif verdict == "stop":
            job._tell_to_stop("cancel")

    # -- looking

    def job(self, job: JobRef) -> JobRow:
        """The job as it is now."""
        return self.client.get_job(_id_of(job))

    def events(self, job: JobRef) -> list[str]:
        """What happened to a job, oldest first: enqueued, claimed, succeeded ..."""
        return [event.event for event in self.client.list_events(_id_of(job)).rows]

    def enqueued(
        self, kind: str, payload: dict[str, Any] | None = None, queue: str | None = None
    ) -> list[JobRow]:
        """The jobs of a kind, whatever has become of them, whose payload holds `payload`."""
        wanted: dict[str, Any] = {"kind": kind}
        if queue is not None:
            wanted["queue"] = queue
        found: list[JobRow] = []
        cursor: str | None = None
        while True:
            page = self.client.list_jobs(wanted, cursor)
            found += [self.client.get_job(row.id) for row in page.rows]
            cursor = page.next_cursor
            if cursor is None:
                break
        found.sort(key=lambda job: job.id)
        return [job for job in found if payload is None or _holds(job.payload, payload)]

    def assert_enqueued(
        self,
        kind: str,
        payload: dict[str, Any] | None = None,
        count: int | None = None,
        queue: str | None = None,
    ) -> list[JobRow]:
        """That there are such jobs: `count` of them, or at least one. Returns them."""
        found = self.enqueued(kind, payload, queue)
        if (count is None and found) or len(found) == count:
            return found

        wanted = f"{'at least one' if count is None else count} of kind {kind}"
        if queue is not None:
            wanted += f" in queue {queue}"
        if payload is not None:
            wanted += f" with {payload!r} in the payload"
        others = [f"{job.queue} {job.kind} {job.payload!r}" for job in self.enqueued(kind)]
        there = "".join(f"\n  {each}" for each in others[:20]) or " none"
        raise AssertionError(f"{wanted} wanted, {len(found)} found; of that kind there are:{there}")

    # -- time

    def age(self, span: str | float | timedelta, job: JobRef | None = None) -> None:
        """Lets time pass: what happens to a job, or to all, is so much longer ago."""
        with self.conn.cursor() as cursor:
            cursor.execute(
                _AGE, {"span": duration(span), "job_id": None if job is None else _id_of(job)}
            )
            cursor.execute(_FORGET_FLOORS)

    def expire_lease(self, job: JobRef) -> None:
        """As if the worker of a running job had vanished: lets its lease run out, and reaps it."""
        with self.conn.cursor() as cursor:
            cursor.execute(_EXPIRE_LEASE, {"job_id": _id_of(job)})
            if not cursor.rowcount:
                pytest.fail(f"job {_id_of(job)} is not running: it has no lease")
        self.client.reap()


def perform(
    handler: Handler[Any],
    payload: Any = None,
    *,
    attempt: int = 1,
    max_attempts: int = 5,
    headers: dict[str, Any] | None = None,
) -> Any:
    """Runs a handler by itself, without a database, and returns its result.

    The payload goes through JSON on its way, and the result has to fit into it. What the handler
    raises, `Retry` and its like included, is raised here.
    """
    text: JsonText = handler.type.dump({} if payload is None else payload)
    lease = handler.lease or timedelta(seconds=60)
    claim = (
        1, 1, handler.queue, handler.kind, text, attempt, max_attempts, lease, handler.timeout,
        encode_json(headers, "headers"),
    )  # fmt: skip
    job = Job(claim, _WORKER, monotonic())
    loaded = handler.type.load(job.payload)
    token = current_job.set(job)
    try:
        value = handler.function(loaded, job) if handler.takes_job else handler.function(loaded)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    finally:
        current_job.reset(token)
    encode_json(value, "result")
    return value


def _outcome(row: JobRow, answer: runner.Answer | None) -> Outcome:
    match row.status:
        case "succeeded" | "failed" | "cancelled":
            return row.status
    match answer:
        case runner.Answer(verb="fail"):
            return "retrying"
        case runner.Answer(verb="snooze"):
            return "snoozed"
    return "released"


def _id_of(job: JobRef) -> int:
    match job:
        case int():
            return job
        case Enqueued():
            return job.job_id
        case Worked():
            return job.job.id
    return job.id


def _holds(whole: Any, part: Any) -> bool:
    """Whether `part` is in `whole`: objects by some of their members, anything else as a whole."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and _holds(whole[name], value) for name, value in part.items()
        )
    return bool(whole == part)


# --------------------------------------------------------------------------------------------
# Fixtures
# --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def rowlock_database() -> Iterator[str]:
    """The URL of a migrated database. Override it to bring your own."""
    given = os.environ.get("ROWLOCK_TEST_DATABASE_URL")
    if given:
        deploy.migrate(given)
        yield given
        return
    with embedded.start() as server:
        deploy.migrate(server.url)
        yield server.url


@pytest.fixture
def rowlock_app() -> App:
    """The app whose handlers run. Override it in your conftest.py."""
    pytest.fail("define a fixture rowlock_app that returns your App")


@pytest.fixture
def rowlock(rowlock_database: str, rowlock_app: App) -> Iterator[Rowlock]:
    """Jobs of this test: enqueue, run, look at, and forget them."""
    with psycopg.connect(rowlock_database) as conn:
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        rowlock_app._producer.lent = conn
        try:
            yield Rowlock(conn, rowlock_app)
        finally:
            rowlock_app._producer.lent = None
            conn.rollback()
