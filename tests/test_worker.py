"""A worker, in a thread of the test's process, on a real database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from pyworker import App, Cancel, Client, Fail, Job, Retry, Snooze, Stopped, health
from pyworker import worker as worker_module
from pyworker.client import ClaimRow, connect
from pyworker.dispatcher import BURST_TRIES
from pyworker.errors import ClaimLost, InvalidArgument, NotAllowed, RowlockError, Unavailable
from pyworker.loop import Link
from tests.support.cluster import Database
from tests.workers import client_of, events, eventually, finished, jobs, running, status_of


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)
    yield app
    app.close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    client = client_of(url)
    yield client
    client.conn.close()


@dataclass
class Order:
    number: int
    note: str = ""


# -- how a run may end -------------------------------------------------------------------------


def test_what_a_handler_returns_is_the_result(app: App, url: str, client: Client) -> None:
    @app.job("typed")
    def typed(order: Order, job: Job) -> dict[str, Any]:
        return {"number": order.number + 1, "attempt": job.attempt, "kind": job.kind}

    job_id = typed.enqueue(Order(41)).job_id
    with running(app, url):
        job = finished(client, job_id)

    assert job.status == "succeeded"
    assert job.result == {"number": 42, "attempt": 1, "kind": "typed"}


def test_a_coroutine_handler_runs_on_the_loop(app: App, url: str, client: Client) -> None:
    together = 0
    most = 0

    @app.job("aio")
    async def aio(payload: dict[str, Any]) -> str:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.3)
        together -= 1
        return threading.current_thread().name

    ids = [aio.enqueue({}).job_id for _ in range(4)]
    with running(app, url, threads=4):
        results = {finished(client, job_id).result for job_id in ids}

    assert results == {"rowlock-event-loop"}
    assert most > 1, "coroutines did not run at the same time"


def raise_(exc: BaseException) -> None:
    raise exc


def fail_because(payload: Any) -> None:
    try:
        raise_(KeyError("card"))
    except KeyError as exc:
        raise Fail("no card") from exc


ENDINGS: dict[str, tuple[Any, str, str | None, str | None]] = {
    "boom": (lambda p: raise_(ValueError("bad")), "queued", "ValueError", "bad"),
    "exit": (lambda p: raise_(SystemExit(3)), "queued", "SystemExit", "3"),
    "retry": (lambda p: raise_(Retry("busy", in_="10m")), "queued", "Retry", "busy"),
    "fail": (lambda p: raise_(Fail("never")), "failed", "Fail", "never"),
    "fail.cause": (fail_because, "failed", "KeyError", "no card: 'card'"),
    "cancel": (lambda p: raise_(Cancel("gone")), "cancelled", None, None),
    "snooze": (lambda p: raise_(Snooze("1h", "later")), "queued", None, None),
    "notjson": (lambda p: object(), "failed", "ResultInvalid", None),
    "nan": (lambda p: float("nan"), "failed", "ResultInvalid", None),
    "toolarge": (
        lambda p: "x" * 2_000_000,
        "failed",
        "ResultTooLarge",
        "result has 2000002 bytes; 1 MiB of JSON is the most",
    ),
    "nul": (lambda p: raise_(ValueError("a\0b\ud800")), "queued", "ValueError", "a\ufffdb\ufffd"),
    "nul.result": (lambda p: "a\0b\ud800", "succeeded", None, None),
}


def test_each_ending_has_its_outcome_whatever_its_neighbours(
    app: App, url: str, client: Client
) -> None:
    for kind, (function, *_) in ENDINGS.items():
        app.job(kind)(function)
    app.job("good")(lambda payload: "good")

    ids: dict[str, int] = {}
    good: list[int] = []
    for kind in ENDINGS:
        ids[kind] = app.enqueue(kind, {}).job_id
        good.append(app.enqueue("good", {}).job_id)
    with running(app, url, threads=len(ENDINGS) * 2):
        for job_id in good:
            assert finished(client, job_id).result == "good"
        eventually(lambda: not jobs(client, status="running"))

    for kind, (_, status, error_type, message) in ENDINGS.items():
        job = client.get_job(ids[kind])
        assert (job.status, job.error_type) == (status, error_type), kind
        if message is not None:
            assert job.error_message == message, kind
    assert client.get_job(ids["snooze"]).attempt == 0
    assert client.get_job(ids["nul.result"]).result == "a\ufffdb\ufffd"
    retried = client.get_job(ids["retry"])
    assert retried.available_at - retried.created_at > timedelta(minutes=9)


def test_an_exception_without_a_text_ends_its_job(app: App, url: str, client: Client) -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise RuntimeError("no text")

    @app.job("mute", max_attempts=1)
    def mute(payload: dict[str, Any]) -> None:
        raise Mute

    job_id = mute.enqueue({}).job_id
    with running(app, url):
        job = finished(client, job_id)
    assert job.status == "failed"
    assert job.error_type is not None
    assert job.error_type.endswith("Mute")


def test_a_failure_tells_its_traceback(app: App, url: str, client: Client) -> None:
    @app.job("boom", max_attempts=1)
    def boom(payload: dict[str, Any]) -> None:
        raise ZeroDivisionError("by zero")

    job_id = boom.enqueue({}).job_id
    with running(app, url):
        finished(client, job_id)
    failed = client.list_events(job_id).rows[-1]
    assert failed.event == "failed"
    assert "in boom" in json.dumps(failed.detail)


def test_a_payload_that_does_not_fit_fails_for_good(app: App, url: str, client: Client) -> None:
    @app.job("typed")
    def typed(order: Order) -> None:
        raise AssertionError("must not run")

    job_id = client.enqueue("typed", {"number": "many"}).job_id
    with running(app, url):
        job = finished(client, job_id)

    assert (job.status, job.error_type, job.attempt) == ("failed", "PayloadInvalid", 1)
    assert job.error_message == "payload.number: int wanted, not str"


def test_a_kind_without_handler_is_put_back_and_said_loudly(
    app: App, url: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = client.enqueue("nobody.knows").job_id
    with caplog.at_level(logging.ERROR, "rowlock"), running(app, url):
        eventually(lambda: "snoozed" in events(client, job_id))

    job = client.get_job(job_id)
    assert (job.status, job.attempt) == ("queued", 0)
    assert "no handler for kind nobody.knows" in caplog.text
    snoozed = client.list_events(job_id).rows[-1]
    assert "no handler for kind nobody.knows" in json.dumps(snoozed.detail)


def test_a_payload_that_python_cannot_read_fails_alone(
    app: App, url: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    app.job("good")(lambda payload: "good")
    app.job("deep")(lambda payload: "deep")
    good = app.enqueue("good", {}).job_id
    bad = app.enqueue("deep", {}).job_id
    # What an older release may have let in.
    conn.execute(
        "update queue.jobs set payload = %s::jsonb where id = %s", [f'{{"n": {"9" * 10_000}}}', bad]
    )
    with running(app, url):
        assert finished(client, good).status == "succeeded"
        job = finished(client, bad)
    assert (job.status, job.error_type) == ("failed", "PayloadInvalid")


# -- progress, and being told to stop ----------------------------------------------------------


def test_the_last_progress_arrives_before_the_outcome(app: App, url: str, client: Client) -> None:
    @app.job("steps")
    def steps(payload: dict[str, Any], job: Job) -> None:
        for percent in range(101):
            job.progress(percent, f"step {percent}")

    ids = [steps.enqueue({}).job_id for _ in range(20)]
    with running(app, url, threads=5):
        ended = [finished(client, job_id) for job_id in ids]

    assert {(job.progress, job.progress_message) for job in ended} == {(100, "step 100")}
    reports = [events(client, job_id).count("progressed") for job_id in ids]
    assert max(reports) <= 3, "a hundred reports in a moment are not a hundred calls"


def test_progress_out_of_bounds_is_refused_where_it_is_made(app: App) -> None:
    job = Job(_claim(), "w", time.monotonic())
    with pytest.raises(InvalidArgument):
        job.progress(101)


def test_a_cancelled_job_ends_as_cancelled(app: App, url: str, client: Client) -> None:
    stopped: list[str] = []

    @app.job("long", lease="3s")
    def long(payload: dict[str, Any], job: Job) -> None:
        try:
            while True:
                job.wait(0.02)
                job.check()
        except Stopped as exc:
            stopped.append(f"{type(exc).__name__} {job.stop_reason}")
            raise

    @app.job("long.async", lease="3s")
    async def long_async(payload: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    ids = [long.enqueue({}).job_id, long_async.enqueue({}).job_id]
    with running(app, url):
        eventually(lambda: len(jobs(client, status="running")) == 2)
        for job_id in ids:
            client.cancel(job_id, "not wanted")
        ended = [finished(client, job_id, 10) for job_id in ids]

    assert [job.status for job in ended] == ["cancelled", "cancelled"]
    assert stopped == ["Cancelled cancel"]


def test_a_job_past_its_timeout_is_told_and_fails(app: App, url: str, client: Client) -> None:
    @app.job("slow", timeout="1s", max_attempts=1)
    def slow(payload: dict[str, Any], job: Job) -> None:
        assert job.seconds_left is not None
        while not job.wait(0.05):
            pass
        job.check()

    @app.job("slow.async", timeout="1s", max_attempts=1)
    async def slow_async(payload: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    ids = [slow.enqueue({}).job_id, slow_async.enqueue({}).job_id]
    with running(app, url):
        ended = [finished(client, job_id, 10) for job_id in ids]
    assert [(job.status, job.error_type) for job in ended] == [("failed", "TimedOut")] * 2


def test_a_handler_that_does_not_stop_is_given_up_on_and_replaced(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STOP_GRACE", 0.5)
    let_go = threading.Event()

    @app.job("deaf", timeout="1s", max_attempts=1)
    def deaf(payload: dict[str, Any]) -> str:
        let_go.wait(30)
        return "too late"

    app.job("good")(lambda payload: "good")

    job_id = deaf.enqueue({}).job_id
    with running(app, url, threads=1) as worker:
        job = finished(client, job_id, 10)
        assert (job.status, job.error_type) == ("failed", "TimedOut")
        assert "did not stop" in (job.error_message or "")
        # The only slot has a new thread.
        assert finished(client, app.enqueue("good", {}).job_id).result == "good"
        assert worker.stuck == 1
        let_go.set()
        eventually(lambda: worker.stuck == 0)
    assert client.get_job(job_id).status == "failed"


def test_a_coroutine_that_blocks_the_loop_for_good_ends_the_process(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STOP_GRACE", 0.3)
    let_go = threading.Event()

    @app.job("deaf", timeout="1s", max_attempts=1)
    async def deaf(payload: dict[str, Any]) -> None:
        let_go.wait(30)

    @app.job("good")
    async def good(payload: dict[str, Any]) -> None: ...

    blocker = deaf.enqueue({}).job_id
    behind: list[int] = []

    def enqueue_behind_it() -> None:
        eventually(lambda: status_of(watching, blocker) == "running")
        behind.append(good.enqueue({}).job_id)

    watching = client_of(url)
    producer = threading.Thread(target=enqueue_behind_it)
    producer.start()
    try:
        worker = worker_module.Worker(app, url, shutdown_budget=2)
        assert worker.run() == worker_module.EXIT_STUCK
    finally:
        let_go.set()
        producer.join()
        watching.conn.close()
    assert client.get_job(blocker).error_type == "TimedOut"
    # Whoever waited for the loop has lost nothing.
    job = client.get_job(behind[0])
    assert (job.status, job.attempt) == ("queued", 0)


def test_a_coroutine_that_blocks_the_loop_for_a_while_is_named(
    app: App,
    url: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(worker_module, "_STANDS_STILL_AFTER", 0.5)

    @app.job("slow")
    async def slow(payload: dict[str, Any]) -> str:
        time.sleep(1.5)
        return "done"

    with running(app, url):
        assert finished(client, slow.enqueue({}).job_id).result == "done"
    said = [r.getMessage() for r in caplog.records if "has stood still" in r.getMessage()]
    assert len(said) == 1
    assert "the handler of slow blocks all coroutine handlers" in said[0]


def test_nothing_that_a_coroutine_does_ends_the_loop(app: App, url: str, client: Client) -> None:
    async def leave() -> None:
        sys.exit(3)

    @app.job("leaver", max_attempts=1)
    async def leaver(payload: dict[str, Any]) -> None:
        await asyncio.create_task(leave())

    @app.job("stopper")
    async def stopper(payload: dict[str, Any]) -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "goes on"

    @app.job("good")
    async def good(payload: dict[str, Any]) -> str:
        return "good"

    with running(app, url):
        left = finished(client, leaver.enqueue({}).job_id, 10)
        assert (left.status, left.error_type) == ("failed", "SystemExit")
        assert finished(client, stopper.enqueue({}).job_id, 10).result == "goes on"
        assert finished(client, good.enqueue({}).job_id, 10).result == "good"


@pytest.mark.parametrize("name", ["rowlock-handler-1", "rowlock-event-loop"])
def test_a_thread_that_the_system_refuses_is_tried_again(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    start, refused = threading.Thread.start, iter(range(2))

    def refuse_twice(thread: threading.Thread) -> None:
        if thread.name == name and next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_twice)

    app.job("plain")(lambda payload: "plain")

    @app.job("coroutine")
    async def coroutine(payload: dict[str, Any]) -> str:
        return "coroutine"

    kinds = ["plain", "coroutine"]
    ids = [app.enqueue(kind, {}).job_id for kind in kinds]
    with running(app, url, threads=1):
        assert [finished(client, job_id, 10).result for job_id in ids] == kinds


def test_a_sink_of_the_log_that_fails_costs_no_job(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    class Down(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the sink is down")

    @app.job("bad", max_attempts=1)
    def bad(payload: dict[str, Any]) -> None:
        raise ValueError("no")

    app.job("good")(lambda payload: "good")

    sink = Down()
    logging.getLogger("rowlock").addHandler(sink)
    try:
        with running(app, url, threads=1):
            assert finished(client, bad.enqueue({}).job_id, 10).error_type == "ValueError"
            # Nor the thread, which is the only one.
            assert finished(client, app.enqueue("good", {}).job_id, 10).result == "good"
    finally:
        logging.getLogger("rowlock").removeHandler(sink)


def test_too_many_handlers_that_do_not_stop_end_the_process(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "STOP_GRACE", 0.2)
    let_go = threading.Event()

    @app.job("deaf", timeout="1s", max_attempts=1)
    def deaf(payload: dict[str, Any]) -> None:
        let_go.wait(30)

    for _ in range(2):
        deaf.enqueue({})
    worker = worker_module.Worker(app, url, threads=2, max_stuck=1, shutdown_budget=3)
    try:
        assert worker.run() == worker_module.EXIT_STUCK
    finally:
        let_go.set()
    assert {job.error_type for job in jobs(client)} == {"TimedOut"}


def test_a_lost_claim_is_told_and_its_answer_refused(
    app: App,
    url: str,
    client: Client,
    conn: psycopg.Connection[Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str | None] = []

    @app.job("long", lease="1s")
    def long(payload: dict[str, Any], job: Job) -> str:
        if job.attempt > 1:
            return "second"
        job.wait(20)
        told.append(job.stop_reason)
        with pytest.raises(ClaimLost):
            job.check()
        return "first"

    job_id = long.enqueue({}).job_id
    with caplog.at_level(logging.WARNING, "rowlock"), running(app, url):
        eventually(lambda: status_of(client, job_id) == "running")
        # As if another worker's reaper had seen the lease run out.
        conn.execute(
            "update queue.jobs set lease_expires_at = now() - interval '1 minute' where id = %s",
            [job_id],
        )
        client.reap()
        conn.execute("update queue.jobs set available_at = now() where id = %s", [job_id])
        job = finished(client, job_id, 15)
        eventually(lambda: "changed nothing" in caplog.text)

    assert told == ["lost"]
    assert job.result == "second"
    assert events(client, job_id).count("succeeded") == 1


def test_leases_are_renewed_for_as_long_as_a_handler_runs(
    app: App, url: str, client: Client
) -> None:
    @app.job("long", lease="1s")
    def long(payload: dict[str, Any], job: Job) -> int:
        time.sleep(4)
        return job.attempt

    job_id = long.enqueue({}).job_id
    with running(app, url):
        job = finished(client, job_id)
    assert job.result == 1
    assert events(client, job_id) == ["enqueued", "claimed", "succeeded"]


# -- slots, connections, statements ------------------------------------------------------------


def test_no_more_is_claimed_than_there_are_slots(app: App, url: str, client: Client) -> None:
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> None:
        gate.wait(30)

    ids = [wait.enqueue({}).job_id for _ in range(20)]
    with running(app, url, threads=3):
        eventually(lambda: len(jobs(client, status="running")) == 3)
        time.sleep(0.5)
        assert len(jobs(client, status="running")) == 3
        gate.set()
        for job_id in ids:
            finished(client, job_id)


def test_many_handlers_four_connections(app: App, url: str, client: Client) -> None:
    @app.job("nap", lease="1s")
    def nap(payload: dict[str, Any]) -> None:
        time.sleep(0.5)

    app.enqueue_many([nap.new_job({}) for _ in range(150)])
    seen: set[str] = set()
    most = 0
    with running(app, url, threads=50) as worker:
        while jobs(client, status="running") or jobs(client, status="queued"):
            rows = client.conn.execute(
                "select application_name from pg_stat_activity where application_name like %s",
                [f"rowlock:{worker.id}:%"],
            ).fetchall()
            seen |= {name.rpartition(":")[2] for (name,) in rows}
            most = max(most, len(rows))
            time.sleep(0.02)
    assert seen == {"dispatcher", "keeper", "settler", "waker"}
    assert most == 4


def test_a_blocked_handler_holds_up_no_other(app: App, url: str, client: Client) -> None:
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> None:
        gate.wait(30)

    app.job("good")(lambda payload: "good")

    # One claim hands over all of them.
    app.enqueue_many([wait.new_job({}) for _ in range(5)] + [app.new_job("good", {})])
    with running(app, url, threads=10):
        eventually(lambda: jobs(client, kind="good", status="succeeded"), 5)
        assert len(jobs(client, kind="wait", status="running")) == 5
        gate.set()
        eventually(lambda: not jobs(client, status="running"))


def test_an_idle_worker_is_woken_at_once(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        # By now it polls seldom: what finds the job is the wake-up.
        time.sleep(4)
        waits = []
        for _ in range(5):
            job = finished(client, client.enqueue("good").job_id)
            assert job.started_at is not None
            waits.append((job.started_at - job.created_at).total_seconds())
            time.sleep(0.1)
    assert max(waits) < 0.5, waits


def test_where_wake_ups_tell_of_more_no_claim_finds_nothing(
    app: App, url: str, client: Client
) -> None:
    app.job("good")(lambda payload: "good")
    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        time.sleep(1)
        empty = worker.metrics.claim_batch.counts[0]
        for _ in range(5):
            finished(client, client.enqueue("good").job_id)
            time.sleep(0.1)
        assert worker.metrics.claim_batch.counts[0] == empty


def test_a_wake_up_that_arrives_beside_an_answer_is_heard(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It makes no socket readable: the call that was waiting for its answer has read it."""
    app.job("good")(lambda payload: "good")
    tick = Client.tick
    made: list[int] = []

    def tick_while_somebody_enqueues(self: Client) -> Any:
        if not made:
            made.append(client.enqueue("good").job_id)
        return tick(self)

    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        time.sleep(4)
        monkeypatch.setattr(Client, "tick", tick_while_somebody_enqueues)
        worker._waker._tick_at = 0.0
        worker._waker.ring()
        eventually(lambda: made)
        job = finished(client, made[0])
    assert job.started_at is not None
    assert job.started_at - job.created_at < timedelta(seconds=0.5)


def test_a_job_due_soon_is_started_when_it_is_due(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        time.sleep(2)
        job_id = client.enqueue("good", delay=timedelta(seconds=3)).job_id
        job = finished(client, job_id)
    assert job.started_at is not None
    assert timedelta(0) <= job.started_at - job.available_at < timedelta(seconds=1)


def test_a_held_up_producer_is_not_waited_for(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    with psycopg.connect(url) as producer:
        # Holds the shared wake lock until it commits: nobody can stand by, others enqueue silently.
        Client(producer).enqueue("good")
        with running(app, url) as worker:
            eventually(lambda: worker.cover == "uncovered")
            time.sleep(4)
            for _ in range(3):
                time.sleep(0.3)
                job = finished(client, client.enqueue("good").job_id)
                assert job.started_at is not None
                assert job.started_at - job.created_at < timedelta(seconds=0.6)
            producer.commit()
            eventually(lambda: worker.cover == "covered")


def test_a_busy_worker_holds_no_wake_lock(app: App, url: str, client: Client) -> None:
    """So that enqueueing costs no NOTIFY while nobody is idle."""
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> None:
        gate.wait(30)

    def wake_locks() -> int:
        row = client.conn.execute(
            "select count(*) from pg_locks join pg_database on pg_database.oid = database"
            " where locktype = 'advisory' and mode = 'ExclusiveLock'"
            " and datname = current_database()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    with running(app, url, threads=1):
        eventually(lambda: wake_locks() == 1)
        first = wait.enqueue({}).job_id
        eventually(lambda: wake_locks() == 0)
        assert status_of(client, first) == "running"
        gate.set()
        eventually(lambda: wake_locks() == 1)


def test_the_next_idle_worker_stands_by_when_the_holder_is_busy(
    app: App, url: str, client: Client
) -> None:
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> None:
        gate.wait(30)

    app.job("good")(lambda payload: "good")

    with running(app, url, threads=1), running(app, url, threads=1):
        time.sleep(1.5)
        first = wait.enqueue({}).job_id
        eventually(lambda: status_of(client, first) == "running")
        time.sleep(3)
        job = finished(client, client.enqueue("good").job_id)
        assert job.started_at is not None
        assert job.started_at - job.created_at < timedelta(seconds=0.5)
        gate.set()
        finished(client, first)


def test_a_holder_that_died_is_replaced_by_whoever_notices(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.job("good")(lambda payload: "good")
    with psycopg.connect(url, autocommit=True) as holder:
        # An idle worker that is about to be killed.
        Client(holder).listen()
        assert Client(holder).stand_by() == "covered"
        with running(app, url) as worker:
            eventually(lambda: worker.cover == "covered")
            time.sleep(1)
            holder.close()
            # Silent: nobody holds the lock. A poll finds it.
            finished(client, client.enqueue("good").job_id)
            time.sleep(1)
            job = finished(client, client.enqueue("good").job_id)
    assert job.started_at is not None
    assert job.started_at - job.created_at < timedelta(seconds=0.5), "still not woken"


def test_an_idle_worker_is_quiet(app: App, url: str, client: Client) -> None:
    """At most six statements a minute, once it has settled down."""
    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        time.sleep(8)
        before = _calls(worker)
        time.sleep(20)
        made = _calls(worker) - before
    assert made <= 2, made


def _calls(worker: worker_module.Worker) -> int:
    return sum(link.calls for link in worker.links)


def test_listening_can_be_turned_off(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    with running(app, url, listen=False) as worker:
        time.sleep(1)
        job = finished(client, client.enqueue("good").job_id)
        assert worker.cover == "polling"
        assert worker.metrics.notifications == 0
    assert job.started_at is not None
    assert job.started_at - job.created_at < timedelta(seconds=2)


def test_burst_ends_when_nothing_is_due(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    app.enqueue_many([app.new_job("good", {}) for _ in range(30)])
    later = app.enqueue("good", {}, delay="1h").job_id

    worker = worker_module.Worker(app, url, burst=True)
    started = time.monotonic()
    assert worker.run() == 0
    assert time.monotonic() - started < 10
    assert len(jobs(client, status="succeeded")) == 30
    assert status_of(client, later) == "queued"


@pytest.mark.parametrize("queues", [["BAD"], [""], ["good", "a b"]])
@pytest.mark.parametrize("burst", [False, True])
def test_a_queue_that_the_database_refuses_ends_the_worker(
    app: App, url: str, caplog: pytest.LogCaptureFixture, queues: list[str], burst: bool
) -> None:
    with pytest.raises(InvalidArgument):
        worker_module.Worker(app, url, queues=queues, burst=burst).run()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("burst", [False, True])
def test_a_login_that_may_not_claim_ends_the_worker(
    app: App, url: str, database: Database, client: Client, burst: bool
) -> None:
    app.job("good")(lambda payload: "good")
    job_id = app.enqueue("good", {}).job_id
    with pytest.raises(NotAllowed):
        worker_module.Worker(app, database.url_as("queue_viewer"), burst=burst).run()
    assert status_of(client, job_id) == "queued"


def test_a_worker_that_has_worked_outlasts_a_revoked_right(
    app: App, database: Database, client: Client
) -> None:
    app.job("good")(lambda payload: "good")
    with running(app, database.url_as("queue_worker")) as worker, database.connect() as conn:
        finished(client, client.enqueue("good").job_id)
        conn.execute("revoke usage on schema queue from queue_worker")
        try:
            job_id = client.enqueue("good").job_id
            dispatcher = worker.loops[-1]
            eventually(lambda: "permission denied" in (dispatcher.last_error or ""))
        finally:
            conn.execute("grant usage on schema queue to queue_worker")
        assert finished(client, job_id).status == "succeeded"


def test_a_burst_does_not_wait_for_ever_for_a_database(app: App) -> None:
    worker = worker_module.Worker(app, "postgresql://127.0.0.1:1/x", burst=True)
    with pytest.raises(Unavailable):
        worker.run()
    assert worker.loops[-1].errors == BURST_TRIES - 1


def test_max_jobs_ends_after_so_many(app: App, url: str, client: Client) -> None:
    app.job("good")(lambda payload: "good")
    app.enqueue_many([app.new_job("good", {}) for _ in range(10)])
    assert worker_module.Worker(app, url, max_jobs=7).run() == 0
    assert len(jobs(client, status="succeeded")) == 7
    assert len(jobs(client, status="queued")) == 3


def test_queues_are_served_in_the_order_given(app: App, url: str, client: Client) -> None:
    order: list[str] = []

    @app.job("note")
    def note(payload: dict[str, Any], job: Job) -> None:
        order.append(job.queue)

    for queue in ("slow", "fast", "other"):
        app.enqueue_many([note.new_job({}, queue=queue) for _ in range(3)])
    assert worker_module.Worker(app, url, queues=["fast", "slow"], threads=1, burst=True).run() == 0
    assert order == ["fast"] * 3 + ["slow"] * 3
    assert len(jobs(client, queue="other", status="queued")) == 3


# -- survival ----------------------------------------------------------------------------------


def test_terminated_backends_are_connected_anew(
    app: App, url: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    app.job("good")(lambda payload: "good")

    @app.job("long", lease="2s")
    def long(payload: dict[str, Any], job: Job) -> int:
        job.wait(4)
        return job.attempt

    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        job_id = long.enqueue({}).job_id
        eventually(lambda: status_of(client, job_id) == "running")
        for _ in range(3):
            ended = conn.execute(
                "select count(pg_terminate_backend(pid)) from pg_stat_activity"
                " where application_name like %s",
                [f"rowlock:{worker.id}:%"],
            ).fetchone()
            assert ended is not None
            assert ended[0] > 0
            time.sleep(0.4)
        assert finished(client, job_id).result == 1, "the claim outlived the connections"

        eventually(lambda: worker.cover == "covered")
        time.sleep(2)
        job = finished(client, client.enqueue("good").job_id)
        assert job.started_at is not None
        assert job.started_at - job.created_at < timedelta(seconds=0.5), "not woken any more"


def test_an_answer_asked_again_after_a_lost_connection_is_given_once(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settle call commits, and the word of it is lost."""
    app.job("good")(lambda payload: "good")
    settle = Client.settle_rows
    lost: list[int] = []

    def settle_and_lose(self: Client, outcomes: Any) -> Any:
        answer = settle(self, outcomes)
        if not lost:
            lost.append(len(answer))
            self.conn.close()
            self.stand_down()
        return answer

    monkeypatch.setattr(Client, "settle_rows", settle_and_lose)
    job_id = app.enqueue("good", {}).job_id
    with running(app, url) as worker:
        finished(client, job_id)
        eventually(lambda: len(worker.claims) == 0)
        assert sum(worker.metrics.outcomes.values()) == 1
        assert not worker.metrics.stale_answers
    assert lost == [1]
    assert events(client, job_id) == ["enqueued", "claimed", "succeeded"]


def test_one_bad_answer_does_not_hold_up_the_others(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole call fails while a certain answer is in it: it is found, and fails its own job."""
    app.job("good")(lambda payload: "good")
    app.job("bad")(lambda payload: "poison")
    settle = Client.settle_rows

    def refuse_poison(self: Client, outcomes: Any) -> Any:
        given = list(outcomes)
        if any('"poison"' in each for each in given):
            raise InvalidArgument("cannot be read", sqlstate="22P02")
        return settle(self, given)

    monkeypatch.setattr(Client, "settle_rows", refuse_poison)
    good = [app.enqueue("good", {}).job_id for _ in range(7)]
    bad = app.enqueue("bad", {}).job_id
    with running(app, url, threads=20):
        assert {finished(client, job_id).status for job_id in good} == {"succeeded"}
        job = finished(client, bad)
    assert (job.status, job.error_type) == ("failed", "ResultInvalid")


@pytest.mark.parametrize("sqlstate", ["40001", "57014", "XX000", "42883"])
def test_an_error_that_passes_delays_answers_and_loses_none(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch, sqlstate: str
) -> None:
    app.job("good")(lambda payload: "good")
    settle = Client.settle_rows
    tries: list[int] = []

    def fail_at_first(self: Client, outcomes: Any) -> Any:
        given = list(outcomes)
        tries.append(len(given))
        if len(tries) <= 3:
            kind = Unavailable if sqlstate in ("40001", "57014") else RowlockError
            raise kind("not now", sqlstate=sqlstate)
        return settle(self, given)

    monkeypatch.setattr(Client, "settle_rows", fail_at_first)
    ids = [app.enqueue("good", {}).job_id for _ in range(9)]
    with running(app, url, threads=20):
        assert {finished(client, job_id).status for job_id in ids} == {"succeeded"}
    assert len(tries) > 3


def test_an_answer_that_always_fails_ends_its_job_and_no_other(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that blames nobody: whose it is shows when it is asked about alone."""
    app.job("good")(lambda payload: "good")
    app.job("bad")(lambda payload: "poison")
    settle = Client.settle_rows

    def fail_with_poison(self: Client, outcomes: Any) -> Any:
        given = list(outcomes)
        if any('"poison"' in each for each in given):
            raise RowlockError("internal error", sqlstate="XX000")
        return settle(self, given)

    monkeypatch.setattr(Client, "settle_rows", fail_with_poison)
    bad = app.enqueue("bad", {}).job_id
    good = [app.enqueue("good", {}).job_id for _ in range(7)]
    with running(app, url, threads=20):
        assert {finished(client, job_id).status for job_id in good} == {"succeeded"}
        job = finished(client, bad)
    assert (job.status, job.error_type) == ("failed", "ResultInvalid")
    assert job.error_message == "internal error"


def test_an_answer_that_cannot_be_given_at_all_is_left_to_the_reaper(
    app: App,
    url: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app.job("bad", lease="1s")(lambda payload: "poison")
    refused = threading.Event()

    def refuse(self: Client, outcomes: Any) -> Any:
        if refused.is_set():
            return settle(self, outcomes)
        rows = [json.loads(each) for each in outcomes]
        return [(row["job_id"], row["fence"], "refused", "no") for row in rows]

    settle = Client.settle_rows
    monkeypatch.setattr(Client, "settle_rows", refuse)
    job_id = app.enqueue("bad", {}).job_id
    with caplog.at_level(logging.ERROR, "rowlock"), running(app, url) as worker:
        eventually(lambda: "its lease will run out" in caplog.text)
        assert len(worker.claims) == 0
        refused.set()
        assert finished(client, job_id, 25).attempt == 2


def test_a_last_report_that_cannot_be_sent_delays_no_outcome_for_long(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job("steps")
    def steps(payload: dict[str, Any], job: Job) -> str:
        job.progress(99)
        return "done"

    def busy(self: Client, *arguments: Any) -> str:
        raise Unavailable("locked", sqlstate="55P03")

    monkeypatch.setattr(Client, "progress", busy)
    job_id = steps.enqueue({}).job_id
    with running(app, url):
        assert finished(client, job_id, 10).result == "done"


@pytest.mark.parametrize("refused", ["keeper", "settler"])
def test_nothing_is_claimed_that_could_not_be_renewed_or_settled(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """Where connections run out, the claiming one is not what gets the last."""
    app.job("good")(lambda payload: "good")
    may_connect = threading.Event()

    def connect_but_one(url: str, role: str, **options: Any) -> Any:
        if role == refused and not may_connect.is_set():
            raise Unavailable("too many clients", sqlstate="53300")
        return connect(url, role, **options)

    monkeypatch.setattr(worker_module, "connect", connect_but_one)
    job_id = app.enqueue("good", {}).job_id
    with running(app, url) as worker:
        eventually(lambda: sum(loop.errors for loop in worker.loops) > 3)
        assert status_of(client, job_id) == "queued"
        may_connect.set()
        assert finished(client, job_id).status == "succeeded"


def test_a_connection_that_is_dead_before_its_first_call_is_hung_up(url: str) -> None:
    stopped: list[int] = []

    def connect_to_a_server_that_stops(role: str, opened: Any) -> Any:
        def stop_and_tell(conn: Any) -> None:
            stopped.append(conn.info.backend_pid)
            os.kill(stopped[0], signal.SIGSTOP)
            opened(conn)

        return connect(url, role, opened=stop_and_tell)

    link = Link("test", connect_to_a_server_that_stops)
    failure: list[Exception] = []

    def open_link() -> None:
        try:
            link.open()
        except Unavailable as exc:
            failure.append(exc)

    thread = threading.Thread(target=open_link)
    thread.start()
    try:
        eventually(lambda: link.hang_up(0.3), 10)
        thread.join(10)
        assert failure
        assert link.conn is None
    finally:
        os.kill(stopped[0], signal.SIGCONT)
        thread.join(10)


def test_a_locked_job_is_settled_when_it_is_free(
    app: App, url: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> str:
        gate.wait(30)
        return "done"

    app.job("good")(lambda payload: "good")
    job_id = wait.enqueue({}).job_id
    with running(app, url):
        eventually(lambda: status_of(client, job_id) == "running")
        with conn.transaction():
            conn.execute("select from queue.jobs where id = %s for update", [job_id])
            gate.set()
            # The others are not held up.
            assert finished(client, app.enqueue("good", {}).job_id).result == "good"
            time.sleep(0.5)
        assert finished(client, job_id).result == "done"


def test_a_half_dead_connection_is_hung_up(
    app: App, url: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's process stands still: neither it nor TCP will ever end the call."""
    monkeypatch.setattr(worker_module, "_HALF_DEAD_AFTER", 1.0)
    app.job("good")(lambda payload: "good")
    with running(app, url) as worker:
        eventually(lambda: worker.cover == "covered")
        row = client.conn.execute(
            "select pid from pg_stat_activity where application_name = %s",
            [f"rowlock:{worker.id}:dispatcher"],
        ).fetchone()
        assert row is not None
        try:
            os.kill(row[0], signal.SIGSTOP)
            job = finished(client, client.enqueue("good").job_id, 10)
            assert job.status == "succeeded"
        finally:
            os.kill(row[0], signal.SIGCONT)


def test_the_worker_role_is_enough(app: App, database: Any, client: Client) -> None:
    @app.job("steps", lease="1s")
    def steps(payload: dict[str, Any], job: Job) -> None:
        job.progress(50)
        job.wait(1.5)

    job_id = steps.enqueue({}).job_id
    with running(app, database.url_as("queue_worker")) as worker:
        assert finished(client, job_id).status == "succeeded"
        eventually(lambda: worker.cover == "covered")
        eventually(lambda: worker.metrics.ticks > 0)
        assert {loop.last_error for loop in worker.loops} == {None}


def test_workers_tick(app: App, url: str, client: Client, conn: psycopg.Connection[Any]) -> None:
    """A job whose worker vanished is run again by another, though nobody else reaps."""
    app.job("good")(lambda payload: "good")
    job_id = client.enqueue("good", lease=timedelta(seconds=1)).job_id
    assert len(client.claim("vanished")) == 1
    with running(app, url):
        job = finished(client, job_id, 25)
    assert job.attempt == 2
    assert "lease_expired" in events(client, job_id)


# -- health and metrics ------------------------------------------------------------------------


def get(worker: worker_module.Worker, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{worker.health_port}{path}", timeout=5
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        return exc.code, exc.read().decode()


def test_health_and_metrics(app: App, url: str, client: Client) -> None:
    gate = threading.Event()

    @app.job("wait")
    def wait(payload: dict[str, Any]) -> None:
        gate.wait(30)

    app.job("boom", max_attempts=1)(lambda payload: raise_(ValueError("no")))
    with running(app, url, health_addr="127.0.0.1:0", threads=4) as worker:
        eventually(lambda: get(worker, "/readyz")[0] == 200)
        assert get(worker, "/healthz")[0] == 200
        assert get(worker, "/other")[0] == 404

        waiting = wait.enqueue({}).job_id
        finished(client, app.enqueue("boom", {}).job_id)
        eventually(lambda: status_of(client, waiting) == "running")
        eventually(lambda: 'outcome="failed"' in get(worker, "/metrics")[1])
        text = get(worker, "/metrics")[1]
        assert "rowlock_worker_slots 4.0" in text
        assert "rowlock_worker_busy_slots 1.0" in text
        assert 'rowlock_jobs_claimed_total{queue="default"} 2.0' in text
        assert 'rowlock_outcomes_total{kind="boom",outcome="failed",queue="default"} 1.0' in text
        # Once it stands by again.
        covered = 'rowlock_worker_wakeup{cover="covered"} 1.0'
        eventually(lambda: covered in get(worker, "/metrics")[1])

        worker.stop()
        eventually(lambda: get(worker, "/readyz")[0] == 503)
        assert get(worker, "/healthz")[0] == 200
        gate.set()


def test_readiness_follows_the_database(
    app: App, url: str, client: Client, conn: psycopg.Connection[Any]
) -> None:
    with running(app, url, health_addr="127.0.0.1:0", shutdown_budget=2) as worker:
        eventually(lambda: get(worker, "/readyz")[0] == 200)
        name = conn.info.dbname
        with psycopg.connect(url, dbname="postgres", autocommit=True) as other:
            other.execute(f'alter database "{name}" allow_connections off')
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like %s",
                [f"rowlock:{worker.id}:%"],
            )
            eventually(lambda: get(worker, "/readyz")[0] == 503)
            body = get(worker, "/readyz")[1]
            assert json.loads(body)["checks"]["database"] == "failing"
            assert get(worker, "/healthz")[0] == 200, "alive, though it can do nothing"
            other.execute(f'alter database "{name}" allow_connections on')
        eventually(lambda: get(worker, "/readyz")[0] == 200)


def test_addresses_to_listen_on() -> None:
    assert health.parse_address(":8321") == ("", 8321)
    assert health.parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert health.parse_address("localhost") == ("localhost", health.DEFAULT_PORT)
    assert health.parse_address("[::1]:9") == ("::1", 9)
    assert health.parse_address("[::1]") == ("::1", health.DEFAULT_PORT)
    for odd in ("host:port", "host:", "host:70000", "host:-1", "host:٣"):
        with pytest.raises(InvalidArgument):
            health.parse_address(odd)


def test_an_address_that_is_taken_is_said(app: App, url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidArgument, match="cannot listen"):
            worker_module.Worker(app, url, health_addr=address)


def test_probes_that_hang_do_not_block_others(app: App, url: str) -> None:
    with running(app, url, health_addr="127.0.0.1:0") as worker, contextlib.ExitStack() as stack:
        assert worker.health_port is not None
        for _ in range(10):
            stack.enter_context(socket.create_connection(("127.0.0.1", worker.health_port)))
        eventually(lambda: get(worker, "/readyz")[0] == 200)


# -- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 0},
        {"queues": []},
        {"queues": "default"},
        {"queues": [f"q{n}" for n in range(33)]},
        {"max_jobs": 0},
    ],
)
def test_arguments_that_make_no_sense_are_refused(options: dict[str, Any], url: str) -> None:
    with pytest.raises(InvalidArgument):
        worker_module.Worker(App(), url, **options)


def test_worker_ids_are_fresh() -> None:
    first, second = worker_module.new_worker_id(), worker_module.new_worker_id()
    assert first != second
    assert f"-{os.getpid()}-" in first


def _claim() -> ClaimRow:
    return (1, 1, "default", "k", "{}", 1, 5, timedelta(seconds=60), None, "{}")


def test_a_claim_runs_out_by_the_local_clock_only_as_a_warning(url: str) -> None:
    job = Job(_claim(), "w", time.monotonic())
    assert job._tell_to_stop("lost")
    assert job.stop_reason == "lost"
    job._not_lost_after_all()
    assert job.stop_reason is None
    job._lost = True
    assert job._tell_to_stop("lost")
    job._not_lost_after_all()
    assert job.stop_reason == "lost"
