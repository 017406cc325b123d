"""The claim's floor (db/functions/internal/_refresh_floors.sql), proved by scripted interleavings.

A floor is the instant below which a session believes no claimable job to be. Each script brings a
session to raise its floors at the worst moment, then asserts that it still finds the job. Nothing
sleeps: a refresh is made due by the state in rowlock.floors. `test_a_wrong_variant_is_caught`
puts each wrong variant into a database of its own and asserts that its script fails there.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.cluster import Cluster, Database
from tests.support.interleave import Change, Mutant, Session, Stage, clean, expect, stage_on

HOUR = 3_600_000_000
Q = "q"


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Database]:
    """One database for all scripts that change no function."""
    database = cluster.create()
    yield database
    cluster.drop(database)


@pytest.fixture
def stage(shared: Database) -> Iterator[Stage]:
    with stage_on(shared) as stage:
        yield stage
    clean(shared)


@pytest.fixture
def own_stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        yield stage


# -- ways in which a job becomes claimable ---------------------------------------------------------
#
# Each prepares a job that no claim can see and returns the call that makes it claimable at once.

Maker = Callable[[Stage], Callable[[Session], Any]]


def enqueue(stage: Stage) -> Callable[[Session], Any]:
    return lambda session: session.enqueue(Q)


def enqueue_in_the_past(stage: Stage) -> Callable[[Session], Any]:
    return lambda session: session.run(
        "select queue.enqueue('t', queue => %s, available_at => now() - interval '1 hour')", Q
    )


def enqueue_with_key(stage: Stage) -> Callable[[Session], Any]:
    return lambda session: session.enqueue(Q, idempotency_key="k")


def enqueue_many(stage: Stage) -> Callable[[Session], Any]:
    jobs = json.dumps([{"kind": "t", "queue": Q}])
    return lambda session: session.run("select queue.enqueue_many(%s)", jobs)


def enqueue_many_in_the_past(stage: Stage) -> Callable[[Session], Any]:
    jobs = json.dumps([{"kind": "t", "queue": Q, "available_at": "2020-01-01T00:00:00Z"}])
    return lambda session: session.run("select queue.enqueue_many(%s)", jobs)


def enqueue_many_a_pruned_key(stage: Stage) -> Callable[[Session], Any]:
    """The second half of enqueue_many: a key that it did not insert and that is gone since."""
    jobs = json.dumps([{"kind": "t", "queue": Q, "idempotency_key": k} for k in ("a", "a")])
    return lambda session: session.run("select queue.enqueue_many(%s)", jobs)


def claimed(stage: Stage) -> tuple[int, int]:
    stage.admin.enqueue(Q)
    ((job_id, fence),) = stage.admin.claims(Q)
    return job_id, fence


def fail(stage: Stage) -> Callable[[Session], Any]:
    token = claimed(stage)
    return lambda session: session.run(
        "select queue.fail(%s, %s, 'E', retry_in => interval '0')", *token
    )


def settle(stage: Stage) -> Callable[[Session], Any]:
    job_id, fence = claimed(stage)
    outcome = {"job_id": job_id, "fence": fence, "outcome": "fail", "retry_in": "0 s"}
    return lambda session: session.run("select queue.settle(%s)", json.dumps([outcome]))


def snooze(stage: Stage) -> Callable[[Session], Any]:
    token = claimed(stage)
    return lambda session: session.run("select queue.snooze(%s, %s, interval '0')", *token)


def release(stage: Stage) -> Callable[[Session], Any]:
    token = claimed(stage)
    return lambda session: session.run("select queue.release(%s, %s)", *token)


def reap(stage: Stage) -> Callable[[Session], Any]:
    job_id, _ = claimed(stage)
    stage.admin.run("update queue.settings set backoff_base = '1 ms', backoff_cap = '1 ms'")
    stage.admin.run(
        "update queue.jobs set lease_expires_at = now() - interval '1 hour' where id = %s", job_id
    )
    return lambda session: expect(
        session.one("select requeued from queue.reap()") == 1, "nothing was reaped"
    )


def retry(stage: Stage) -> Callable[[Session], Any]:
    job_id, fence = claimed(stage)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    return lambda session: session.run("select queue.retry(%s)", job_id)


def retry_in_the_past(stage: Stage) -> Callable[[Session], Any]:
    job_id, fence = claimed(stage)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    return lambda session: session.run(
        "select queue.retry(%s, delay => interval '-1 hour')", job_id
    )


def bulk_retry(stage: Stage) -> Callable[[Session], Any]:
    job_id, fence = claimed(stage)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    return lambda session: session.run(
        "select queue.bulk('retry', jsonb_build_object('queue', %s::text), dry_run => false)", Q
    )


def run_now(stage: Stage) -> Callable[[Session], Any]:
    job_id = stage.admin.enqueue(Q, delay="1 hour")
    return lambda session: session.run("select queue.run_now(%s)", job_id)


def reprioritize(stage: Stage) -> Callable[[Session], Any]:
    """A due job that changes its line: at its old date it would join the new line below the floor.

    Until then its queue is paused, so that no claim takes it.
    """
    job_id = stage.admin.enqueue(Q)
    stage.admin.run("select queue.pause(%s)", Q)

    def act(session: Session) -> None:
        session.run("select queue.reprioritize(%s, 9)", job_id)
        stage.admin.run("select queue.resume(%s)", Q)

    return act


MAKERS: list[Maker] = [
    enqueue,
    enqueue_in_the_past,
    enqueue_with_key,
    enqueue_many,
    enqueue_many_in_the_past,
    enqueue_many_a_pruned_key,
    fail,
    settle,
    snooze,
    release,
    reap,
    retry,
    retry_in_the_past,
    bulk_retry,
    run_now,
    reprioritize,
]


# -- interleavings ---------------------------------------------------------------------------------


def warm(worker: Session) -> None:
    """A refresh ticks, and has floors when it or a later one finds the tick safe."""
    worker.raise_floors(Q)


def finds_a_job(worker: Session) -> None:
    expect(len(worker.claim(Q)) == 1, "the job is there, the claim missed it")


def late_commit(maker: Maker) -> Callable[[Stage], None]:
    """A writer holds its transaction open across four ticks, then commits."""

    def script(stage: Stage) -> None:
        act = maker(stage)
        worker, eager, writer = stage.session(), stage.session(), stage.session()
        warm(worker)
        warm(eager)
        writer.begin()
        act(writer)
        for _ in range(4):
            worker.refresh(Q)
            expect(worker.claim(Q) == [], "an uncommitted job was claimed")
        safe = worker.floors["safe"]
        writer.commit()
        finds_a_job(worker)
        # And not because floors stood still for good.
        worker.raise_floors(Q, beyond=safe)

    return script


def late_commit_then_refresh(maker: Maker) -> Callable[[Stage], None]:
    """As late_commit, but floors are raised once more after the commit and before the claim."""

    def script(stage: Stage) -> None:
        act = maker(stage)
        worker, writer = stage.session(), stage.session()
        warm(worker)
        writer.begin()
        act(writer)
        for _ in range(4):
            worker.refresh(Q)
        writer.commit()
        for _ in range(3):
            worker.refresh(Q)
        finds_a_job(worker)

    return script


def prepared(maker: Maker) -> Callable[[Stage], None]:
    """The writer's transaction waits prepared, its session gone, while floors are raised."""

    def script(stage: Stage) -> None:
        act = maker(stage)
        worker, writer = stage.session(), stage.session()
        warm(worker)
        name = f"{stage.database.name}_{maker.__name__}"
        writer.begin()
        act(writer)
        writer.run(f"prepare transaction '{name}'")
        writer.conn.close()
        for _ in range(4):
            worker.refresh(Q)
            expect(worker.claim(Q) == [], "an uncommitted job was claimed")
        stage.admin.run(f"commit prepared '{name}'")
        finds_a_job(worker)

    return script


def rolled_back_savepoint(stage: Stage) -> None:
    worker, writer = stage.session(), stage.session()
    warm(worker)
    writer.begin()
    writer.run("savepoint a")
    gone = writer.enqueue(Q)
    writer.run("rollback to a")
    worker.refresh(Q)
    writer.run("savepoint b")
    kept = writer.enqueue(Q)
    writer.run("release b")
    for _ in range(3):
        worker.refresh(Q)
    writer.commit()
    found = worker.claim(Q, 10)
    expect(gone not in found, "a job was claimed that never was")
    expect(found == [kept], "the job of the second savepoint was missed")


def tick_in_a_rolled_back_savepoint(stage: Stage) -> None:
    """A worker's own tick is undone with its savepoint, and with the claim that made it."""
    worker, writer = stage.session(), stage.session()
    warm(worker)
    worker.make_refresh_due()
    before = worker.floors
    worker.begin()
    worker.run("savepoint a")
    worker.claim(Q)
    expect(worker.floors != before, "the claim did not refresh")
    worker.run("rollback to a")
    expect(worker.floors == before, "a floor outlived the tick it rests on")
    writer.begin()
    writer.enqueue(Q)
    worker.claim(Q)
    worker.commit()
    for _ in range(3):
        worker.refresh(Q)
    writer.commit()
    finds_a_job(worker)


def own_claim_rolled_back(stage: Stage) -> None:
    worker = stage.session()
    job_id = stage.admin.enqueue(Q)
    warm(worker)
    worker.begin()
    worker.make_refresh_due()
    expect(worker.claim(Q) == [job_id], "nothing claimed")
    for _ in range(3):
        worker.refresh(Q)
    worker.rollback()
    for _ in range(3):
        worker.refresh(Q)
    finds_a_job(worker)


def other_claim_rolled_back(stage: Stage) -> None:
    worker, other = stage.session(), stage.session()
    job_id = stage.admin.enqueue(Q)
    other.begin()
    expect(other.claim(Q) == [job_id], "nothing claimed")
    for _ in range(4):
        worker.refresh(Q)
        expect(worker.claim(Q) == [], "a job was claimed twice")
    other.rollback()
    finds_a_job(worker)


def prepared_claim_rolled_back(stage: Stage) -> None:
    worker, other = stage.session(), stage.session()
    stage.admin.enqueue(Q)
    warm(other)
    other.begin()
    other.make_refresh_due()
    other.claim(Q)
    other.run(f"prepare transaction '{stage.database.name}'")
    for _ in range(4):
        worker.refresh(Q)
        other.refresh(Q)
    stage.admin.run(f"rollback prepared '{stage.database.name}'")
    other.refresh(Q)
    expect(other.floors != {}, "no floors at all")
    finds_a_job(other)
    worker.refresh(Q)
    stage.admin.enqueue(Q)
    finds_a_job(worker)


def still_queued(stage: Stage) -> None:
    """A job that is simply there, committed long before floors are raised past its date."""
    worker = stage.session()
    job_id = stage.admin.enqueue(Q)
    for _ in range(4):
        worker.refresh(Q)
    expect(
        worker.run("select queue.next_due(array[%s]) = interval '0'", Q) == [(True,)],
        "next_due says that nothing is due",
    )
    expect(worker.claim(Q) == [job_id], "the job is there, the claim missed it")


def own_transaction_id(stage: Stage) -> None:
    """A session with a transaction id of its own must not tick.

    Its id is older than its clock: a writer between the two could commit after the tick is
    held to be safe.
    """
    worker, writer = stage.session(), stage.session()
    warm(worker)
    worker.begin()
    worker.run("select pg_current_xact_id()")
    writer.begin()
    writer.enqueue(Q)
    worker.refresh(Q)
    worker.commit()
    worker.refresh(Q)
    writer.commit()
    finds_a_job(worker)


def writer_between_clock_and_id_of_a_tick(stage: Stage) -> None:
    """Needs a tick that pauses between its two steps, at advisory lock 1."""
    worker, writer = stage.session(), stage.session()
    stage.admin.run("select pg_advisory_lock(1)")
    ticking = worker.later("select queue._refresh_floors(array[%s])", Q)
    stage.wait_until_blocked(worker)
    writer.begin()
    writer.enqueue(Q)
    stage.admin.run("select pg_advisory_unlock(1)")
    ticking.result()
    for _ in range(3):
        worker.refresh(Q)
    writer.commit()
    finds_a_job(worker)


def tick_between_clock_and_id_of_a_writer(stage: Stage) -> None:
    """Needs _transition_time to pause between its two steps, at advisory lock 1."""
    worker, writer = stage.session(), stage.session()
    stage.admin.run("select pg_advisory_lock(1)")
    writer.begin()
    writing = writer.later("select queue.enqueue('t', queue => %s)", Q)
    stage.wait_until_blocked(writer)
    worker.refresh(Q)
    stage.admin.run("select pg_advisory_unlock(1)")
    writing.result()
    for _ in range(3):
        worker.refresh(Q)
    writer.commit()
    finds_a_job(worker)


def clock_steps_back(stage: Stage) -> None:
    """All that a session remembers lies an hour ahead of the clock."""
    worker = stage.session()
    warm(worker)
    state = worker.floors
    floors = [floor + HOUR for floor in map(int, state["queues"][Q]["floors"][1:-1].split(","))]
    worker.floors = {
        "at": state["at"] + HOUR,
        "next": state["next"] + HOUR,
        "recheck": state["recheck"] + HOUR,
        "safe": state["safe"] + HOUR,
        "tick": {"xid": state["tick"]["xid"], "at": state["tick"]["at"] + HOUR},
        "queues": {Q: {"at": state["at"] + HOUR, "floors": "{" + ",".join(map(str, floors)) + "}"}},
    }
    stage.admin.enqueue(Q)
    expect(
        worker.run("select queue.next_due(array[%s]) = interval '0'", Q) == [(True,)],
        "next_due believed floors from the future",
    )
    finds_a_job(worker)
    expect(worker.floors["at"] < state["at"] + HOUR, "floors from the future were kept")


def below_the_floor(stage: Stage) -> Session:
    """A session whose floor stands above a job, as after a clock that stepped back unnoticed."""
    worker = stage.session()
    warm(worker)
    job_id = stage.admin.enqueue(Q)
    stage.admin.run(
        "update queue.jobs set available_at = now() - interval '1 minute' where id = %s", job_id
    )
    return worker


def recheck(stage: Stage) -> None:
    """Once a minute floors are sought from the start again."""
    worker = below_the_floor(stage)
    expect(worker.claim(Q) == [], "the floor does nothing: this script proves nothing")
    worker.floors = worker.floors | {"recheck": worker.floors["at"]}
    worker.refresh(Q)
    finds_a_job(worker)


def recheck_of_a_session_that_only_polls(stage: Stage) -> None:
    worker = below_the_floor(stage)
    state = worker.floors
    expect(
        worker.run("select queue.next_due(array[%s])", Q) == [(None,)],
        "the floor does nothing: this script proves nothing",
    )
    worker.floors = state | {"recheck": state["at"]}
    for _ in range(2):
        expect(
            worker.run("select queue.next_due(array[%s]) = interval '0'", Q) == [(True,)],
            "a session that polls never learns of the job",
        )
    rechecked = worker.floors
    expect(
        rechecked["recheck"] > state["at"] + 50_000_000 and Q in rechecked["queues"],
        "the recheck is due for ever, or has left no floors",
    )
    expect(rechecked["tick"] == state["tick"], "a poll has ticked")
    finds_a_job(worker)


def recheck_is_planned_anew(stage: Stage) -> None:
    """After a recheck the next one is a minute away: floors are not sought anew each time."""
    worker = stage.session()
    warm(worker)
    worker.floors = worker.floors | {"recheck": worker.floors["at"]}
    worker.refresh(Q)
    state = worker.floors
    expect(
        state["at"] + 50_000_000 < state["recheck"] <= state["at"] + 60_000_000,
        "the recheck is not a minute away",
    )


def old_snapshot(isolation: str) -> Callable[[Stage], None]:
    """Floors raised inside a snapshot that does not see the job yet."""

    def script(stage: Stage) -> None:
        worker = stage.session()
        warm(worker)
        worker.begin(isolation)
        worker.run("select count(*) from queue.jobs")
        stage.admin.enqueue(Q)
        worker.refresh(Q)
        expect(worker.claim(Q) == [], "a snapshot saw what came after it")
        worker.commit()
        for _ in range(2):
            worker.refresh(Q)
        finds_a_job(worker)

    return script


def more_queues_than_are_kept(stage: Stage) -> None:
    worker = stage.session()
    queues = [f"q{number}" for number in range(70)]
    worker.raise_floors(queues[0])
    for start in range(0, 70, 10):
        worker.refresh(*queues[start : start + 10])
    kept = set(worker.floors["queues"])
    expect(len(kept) == 64, f"{len(kept)} queues are kept, not 64")
    expect(kept >= set(queues[10:]), "the queues kept are not those used last")
    for queue in queues:
        stage.admin.enqueue(queue)
    for queue in queues:
        expect(len(worker.claim(queue)) == 1, f"the job in {queue} was missed")
    expect(len(worker.floors["queues"]) <= 64, "more than 64 queues are kept")


def switched_off(stage: Stage) -> None:
    """claim_floor off: no session keeps floors, and one that has some does not use them."""
    worker, fresh = below_the_floor(stage), stage.session()
    stage.admin.run("update queue.settings set claim_floor = false")
    fresh.claim("other")
    expect(fresh.floors == {}, "floors were kept although switched off")
    finds_a_job(worker)


def long_open_writer(stage: Stage) -> None:
    """Behind a writer floors stand still, and claims go on: exact, in order, each job once."""
    worker, writer = stage.session(), stage.session()
    warm(worker)
    writer.begin()
    writer.run("select pg_current_xact_id()")
    worker.refresh(Q)
    safe = worker.floors["safe"]
    jobs = [stage.admin.enqueue(Q) for _ in range(20)]
    found = []
    for _ in range(10):
        worker.refresh(Q)
        found += worker.claim(Q, 2)
    expect(found == jobs, "jobs were missed or out of order")
    expect(worker.floors["safe"] == safe, "the floor passed a writer that is still open")
    writer.commit()
    worker.raise_floors(Q, beyond=safe)


def pooled(stage: Stage) -> None:
    """A session handed from client to client keeps floors, or loses them: right either way."""
    worker = stage.session()
    warm(worker)
    worker.run("set role queue_worker")
    stage.admin.enqueue(Q)
    finds_a_job(worker)
    worker.run("reset role")
    stage.admin.enqueue(Q)
    worker.run("discard all")
    expect(worker.floors == {}, "discard all left floors")
    finds_a_job(worker)
    warm(worker)


def kept_between_transactions(stage: Stage) -> None:
    """The floor has an effect: it stays after the claim that raised it, and moves up."""
    worker = stage.session()
    for _ in range(3):
        stage.admin.enqueue(Q)
    warm(worker)
    first = worker.floor(Q)
    worker.claim(Q, 2)
    worker.raise_floors(Q, beyond=worker.floors["safe"])
    second = worker.floor(Q)
    expect(0 < first < second, "the floor did not move past the jobs that were claimed")
    worker.claim(Q, 2)
    worker.raise_floors(Q, beyond=worker.floors["safe"])
    expect(
        worker.floor(Q) == worker.floors["safe"], "an empty line's floor is not the safe instant"
    )


def jobs_due_later(stage: Stage) -> None:
    """A job due later is found when its time comes, though floors rose past its enqueue."""
    worker = stage.session()
    job_id = stage.admin.enqueue(Q, delay="50 milliseconds")
    for _ in range(3):
        worker.refresh(Q)
    stage.admin.run("select pg_sleep(0.06)")
    for _ in range(2):
        worker.refresh(Q)
    expect(worker.claim(Q) == [job_id], "the job was missed when it came due")


# -- the right functions pass ----------------------------------------------------------------------


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
@pytest.mark.parametrize("script", [late_commit, late_commit_then_refresh, prepared])
def test_a_job_that_commits_late_is_found(
    script: Callable[[Maker], Callable[[Stage], None]], maker: Maker, stage: Stage
) -> None:
    script(maker)(stage)


@pytest.mark.parametrize(
    "script",
    [
        rolled_back_savepoint,
        tick_in_a_rolled_back_savepoint,
        own_claim_rolled_back,
        other_claim_rolled_back,
        prepared_claim_rolled_back,
        still_queued,
        own_transaction_id,
        clock_steps_back,
        recheck,
        recheck_of_a_session_that_only_polls,
        recheck_is_planned_anew,
        more_queues_than_are_kept,
        switched_off,
        long_open_writer,
        pooled,
        kept_between_transactions,
        jobs_due_later,
    ],
    ids=lambda script: script.__name__,
)
def test_floors_are_exact(script: Callable[[Stage], None], stage: Stage) -> None:
    script(stage)


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_floors_raised_in_an_old_snapshot_are_exact(isolation: str, stage: Stage) -> None:
    old_snapshot(isolation)(stage)


PAUSE = "  perform pg_advisory_xact_lock_shared(1);\n"

TICK_CLOCK = "    v_tick_at := (extract(epoch from clock_timestamp()) * 1000000)::bigint;\n"

PAUSED_TICK = Change("_refresh_floors", TICK_CLOCK, TICK_CLOCK + PAUSE)

TRANSITION_TIME = """begin
  perform queue._require_writable();
  perform pg_current_xact_id();
  return clock_timestamp();
"""

PAUSED_WRITER = Change(
    "_transition_time",
    TRANSITION_TIME,
    TRANSITION_TIME.replace("  return", PAUSE + "  return"),
)


def test_a_new_session_has_floors_at_once(stage: Stage) -> None:
    """Where nobody writes: else its first claims would each walk what is dead."""
    jobs = [stage.admin.enqueue(Q) for _ in range(3)]
    for _ in range(100):
        worker = stage.session()
        worker.refresh(Q)
        if worker.floors["queues"]:
            assert worker.floors["safe"] == worker.floors["tick"]["at"]
            assert worker.claim(Q, 3) == jobs
            return
    pytest.fail("somebody wrote each time")


@pytest.mark.parametrize(
    ("change", "script"),
    [
        (PAUSED_TICK, writer_between_clock_and_id_of_a_tick),
        (PAUSED_WRITER, tick_between_clock_and_id_of_a_writer),
    ],
    ids=["tick", "writer"],
)
def test_the_order_of_clock_and_id_holds(
    change: Change, script: Callable[[Stage], None], own_stage: Stage
) -> None:
    """The right order, stretched by a pause as its wrong variants below are."""
    change.apply(own_stage.admin)
    script(own_stage)


# -- the wrong ones fail ---------------------------------------------------------------------------

ADVANCE = "    if v_state ? 'tick' then\n"

MUTANTS = [
    Mutant(
        "a tick is told by the snapshot's xmax",
        (
            Change(
                "_refresh_floors",
                "pg_current_xact_id()::text, 'at'",
                "pg_snapshot_xmax(pg_current_snapshot())::text, 'at'",
            ),
        ),
        late_commit(enqueue),
    ),
    Mutant(
        "a tick takes its id before its clock",
        (
            Change(
                "_refresh_floors",
                TICK_CLOCK,
                "    perform pg_current_xact_id();\n" + PAUSE + TICK_CLOCK,
            ),
        ),
        writer_between_clock_and_id_of_a_tick,
    ),
    Mutant(
        "a writer reads the clock before its id",
        (
            Change(
                "_transition_time",
                TRANSITION_TIME,
                "declare v_now timestamptz := clock_timestamp();\nbegin\n"
                + PAUSE
                + "  perform pg_current_xact_id();\n  return v_now;\n",
            ),
        ),
        tick_between_clock_and_id_of_a_writer,
    ),
    Mutant(
        "a tick is safe at once though an older writer is open",
        (
            Change(
                "_refresh_floors",
                "pg_current_xact_id() <= pg_snapshot_xmin(pg_current_snapshot())",
                "true",
            ),
        ),
        late_commit(enqueue),
    ),
    Mutant(
        "a tick is held to be safe while older writers are open",
        (
            Change(
                "_refresh_floors",
                "(v_state #>> '{tick,xid}')::xid8 <= pg_snapshot_xmin(pg_current_snapshot())",
                "true",
            ),
        ),
        late_commit(enqueue),
    ),
    Mutant(
        "safe is the new tick instead of the one before",
        (
            Change(
                "_refresh_floors",
                "jsonb_build_object('safe', v_state #> '{tick,at}')",
                "jsonb_build_object('safe', v_now)",
            ),
        ),
        late_commit(enqueue),
    ),
    Mutant(
        "a session ticks with an id it already has",
        (
            Change(
                "_refresh_floors",
                "    or pg_current_xact_id_if_assigned() is not null\n",
                "",
            ),
        ),
        own_transaction_id,
    ),
    Mutant(
        "a floor is not lowered to what is still queued",
        (Change("_raise_floors", "epoch from coalesce(\n", "epoch from greatest(\n"),),
        still_queued,
    ),
    Mutant(
        "a claim looks above its floor only",
        (Change("_pick", "available_at >=\n", "available_at >\n"),),
        still_queued,
    ),
    Mutant(
        "floors are raised from above the floor only",
        (Change("_raise_floors", "available_at >=\n", "available_at >\n"),),
        still_queued,
    ),
    Mutant(
        "next_due looks above the floor only",
        (Change("_next_queued", "available_at >=\n", "available_at >\n"),),
        still_queued,
    ),
    Mutant(
        "a job requeued keeps a date in the past",
        (
            Change(
                "_requeue",
                "greatest(p_available_at, p_now)",
                "p_available_at",
            ),
        ),
        late_commit(reprioritize),
    ),
    Mutant(
        "a retry is dated in the past",
        (Change("_requeue", "greatest(p_available_at, p_now)", "p_available_at"),),
        late_commit(retry_in_the_past),
    ),
    Mutant(
        "enqueue dates a job in the past",
        (
            Change(
                "enqueue",
                "greatest(coalesce(enqueue.available_at, v_now + enqueue.delay, v_now), v_now)",
                "coalesce(enqueue.available_at, v_now + enqueue.delay, v_now)",
            ),
        ),
        late_commit(enqueue_in_the_past),
    ),
    Mutant(
        "enqueue_many dates a job in the past",
        (
            Change(
                "enqueue_many",
                "greatest(coalesce(asked.available_at, v_now + asked.delay, v_now), v_now)",
                "coalesce(asked.available_at, v_now + asked.delay, v_now)",
            ),
        ),
        late_commit(enqueue_many_in_the_past),
    ),
    Mutant(
        "floors from the future are believed",
        (
            Change(
                "_refresh_floors",
                "  if v_now < (v_state ->> 'at')::bigint then\n",
                "  if false then\n",
            ),
        ),
        clock_steps_back,
    ),
    Mutant(
        "next_due believes floors from the future",
        (
            Change(
                "_next_queued",
                "  if p_now >= timestamptz 'epoch' + (v_state ->> 'at')::bigint"
                " * interval '1 microsecond'\n    and ",
                "  if ",
            ),
        ),
        clock_steps_back,
    ),
    Mutant(
        "floors are never rechecked",
        (Change("_refresh_floors", "v_now >= (v_state ->> 'recheck')::bigint", "false"),),
        recheck,
    ),
    Mutant(
        "a session that only polls never rechecks",
        (
            Change(
                "_next_queued",
                "    and p_now < timestamptz 'epoch' + (v_state ->> 'recheck')::bigint"
                " * interval '1 microsecond'\n",
                "",
            ),
            Change("next_due", "  perform queue._recheck_floors(next_due.queues);\n", ""),
        ),
        recheck_of_a_session_that_only_polls,
    ),
    Mutant(
        "a poll's recheck is due for ever",
        (Change("next_due", "  perform queue._recheck_floors(next_due.queues);\n", ""),),
        recheck_of_a_session_that_only_polls,
    ),
    Mutant(
        "a poll's recheck starts at the floor",
        (
            Change(
                "_recheck_floors",
                "array_fill(0::bigint, array[10])",
                "(v_state #>> array['queues', named.queue, 'floors'])::bigint[]",
            ),
        ),
        recheck_of_a_session_that_only_polls,
    ),
    Mutant(
        "a recheck is due for ever",
        (
            Change(
                "_refresh_floors",
                "'{queues}', '{}')\n        || jsonb_build_object('recheck', v_now + 60000000);",
                "'{queues}', '{}');",
            ),
        ),
        recheck_is_planned_anew,
    ),
    Mutant(
        "floors are kept for every queue ever named",
        (Change("_refresh_floors", "> 64 then", "> 64000 then"),),
        more_queues_than_are_kept,
    ),
    Mutant(
        "the newest queues are forgotten first",
        (
            Change(
                "_refresh_floors",
                "order by (entry.value ->> 'at')::bigint desc",
                "order by (entry.value ->> 'at')::bigint",
            ),
        ),
        more_queues_than_are_kept,
    ),
    Mutant(
        "the switch does nothing",
        (
            Change(
                "claim",
                "  if (select settings.claim_floor from queue.settings as settings) then\n",
                "  if true then\n",
            ),
        ),
        switched_off,
    ),
    Mutant(
        "floors end with the transaction",
        (Change("_refresh_floors", "v_state::text, false)", "v_state::text, true)"),),
        kept_between_transactions,
    ),
    Mutant(
        "floors are not raised",
        (Change("_refresh_floors", "  if v_state ? 'safe' then\n", "  if false then\n"),),
        kept_between_transactions,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_wrong_variant_is_caught(mutant: Mutant, database: Database) -> None:
    mutant.assert_caught(database)


# -- and at random ---------------------------------------------------------------------------------


def expected(stage: Stage, max_jobs: int) -> list[int]:
    """What a claim must return now: the first unlocked due jobs, read without any floor."""
    stage.admin.begin()
    rows = stage.admin.run(
        """select id from queue.jobs
        where status = 'queued' and queue = %s and available_at <= clock_timestamp()
        order by priority desc, available_at, created_at, id
        limit %s for update skip locked""",
        Q,
        max_jobs,
    )
    stage.admin.rollback()
    return [job_id for (job_id,) in rows]


def at_random(stage: Stage, seed: int, steps: int) -> None:
    """Writers that hold transactions open, workers that refresh at any moment: order is exact."""
    dice = random.Random(seed)
    workers = [stage.session() for _ in range(3)]
    writers = [stage.session() for _ in range(4)]
    open_writers: set[Session] = set()
    tokens: list[tuple[Any, ...]] = []
    for step in range(steps):
        what = dice.choices(
            ["refresh", "claim", "write", "begin", "commit", "rollback", "answer"],
            [8, 8, 8, 3, 3, 1, 5],
        )[0]
        worker, writer = dice.choice(workers), dice.choice(writers)
        if what == "refresh":
            worker.refresh(Q)
        elif what == "claim":
            number = dice.randint(1, 3)
            wanted = expected(stage, number)
            got = worker.claims(Q, number)
            told = f"seed {seed}, step {step}: claimed {got}, expected {wanted}"
            expect([job_id for job_id, _ in got] == wanted, told)
            tokens += got
        elif what == "write":
            job_id = writer.enqueue(
                Q, priority=dice.randint(4, 6), delay=dice.choice([None, "1 h"])
            )
            if dice.random() < 0.3:
                writer.run("select queue.run_now(%s)", job_id)
        elif what == "begin" and writer not in open_writers:
            writer.begin()
            open_writers.add(writer)
        elif what in ("commit", "rollback") and writer in open_writers:
            writer.run(what)
            open_writers.remove(writer)
        elif what == "answer" and tokens:
            token = tokens.pop(dice.randrange(len(tokens)))
            verb = dice.choice(
                ["snooze(%s, %s, interval '0')", "release(%s, %s)", "complete(%s, %s)"]
            )
            writer.run(f"select queue.{verb}", *token)
            if writer in open_writers and dice.random() < 0.5:
                writer.commit()
                open_writers.remove(writer)
    for writer in open_writers:
        writer.commit()


def test_claims_are_exact_at_random(stage: Stage) -> None:
    seed = int(os.environ.get("SEED", random.randrange(1_000_000)))
    print(f"SEED={seed}")
    at_random(stage, seed, 600)


def three_seeds(stage: Stage) -> None:
    for seed in range(3):
        at_random(stage, seed, 300)


def test_a_wrong_variant_is_caught_at_random(database: Database) -> None:
    """The random test has teeth, if not as sure a bite as the scripts."""
    too_soon = next(mutant for mutant in MUTANTS if "older writers are open" in mutant.rule)
    replace(too_soon, caught_by=three_seeds).assert_caught(database)
