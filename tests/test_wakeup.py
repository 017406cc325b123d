"""No wake-up is lost (db/functions/internal/_wake.sql, worker/stand_by.sql, stand_down.sql).

An idle worker listens, claims, stands by, claims once more and waits. Each script places a job at
the worst moment and asserts what the design promises: a worker that is covered is notified, one
that is not is told so and polls briskly, and nobody is notified where nobody idles.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.support.cluster import Cluster, Database
from tests.support.interleave import (
    Change,
    Missed,
    Mutant,
    Session,
    Stage,
    clean,
    expect,
    stage_on,
)
from tests.test_floor import MAKERS, Maker, Q, enqueue, enqueue_many, release

SILENCE = 0.1
"""Seconds to listen for what must not come; what must come is waited for much longer."""


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Database]:
    database = cluster.create()
    yield database
    cluster.drop(database)


@pytest.fixture
def stage(shared: Database) -> Iterator[Stage]:
    with stage_on(shared) as stage:
        yield stage
    clean(shared)


# -- what an idle worker does ----------------------------------------------------------------------


def listen(worker: Session) -> None:
    worker.run("listen rowlock")


def stand_by(worker: Session, *queues: str) -> str:
    return str(worker.one("select queue.stand_by(%s)", list(queues)))


def stand_down(worker: Session) -> int:
    return int(worker.one("select queue.stand_down()"))


def is_told(worker: Session, payload: str = Q) -> None:
    told = worker.notifications(within=worker.patience)
    expect({notify.payload for notify in told} == {payload}, f"told {told}, not {payload!r}")


def is_not_told(worker: Session) -> None:
    told = worker.notifications(within=SILENCE)
    expect(told == [], f"told {told}, though there was no need")


def idle(worker: Session, queue: str = Q) -> str:
    """Up to the wait. Whatever the verdict, nothing was there to be claimed."""
    listen(worker)
    expect(worker.claim(queue) == [], "the worker is not idle")
    verdict = stand_by(worker, queue)
    expect(worker.claim(queue) == [], "the worker is not idle")
    return verdict


def holds(stage: Stage, worker: Session) -> bool:
    return bool(
        stage.admin.one(
            """select exists (
                select from pg_locks
                where locktype = 'advisory' and pid = %s and mode = 'ExclusiveLock' and granted
            )""",
            worker.pid,
        )
    )


# -- interleavings ---------------------------------------------------------------------------------


def a_job_for_an_idle_worker(maker: Maker) -> Callable[[Stage], None]:
    def script(stage: Stage) -> None:
        act = maker(stage)
        worker, writer = stage.session(), stage.session()
        expect(idle(worker) == "covered", "an idle worker alone is not covered")
        act(writer)
        is_told(worker)
        stage.wait_for(lambda: worker.claim(Q) != [], "the job is not claimable")

    return script


def a_job_while_nobody_idles(stage: Stage) -> None:
    listener, one, two = stage.session(), stage.session(), stage.session()
    listen(listener)
    one.enqueue(Q)
    one.begin()
    one.enqueue(Q)
    # Producers do not take each other for idle workers.
    two.run("set lock_timeout = '1 s'")
    two.enqueue(Q)
    one.commit()
    two.run("select queue.enqueue_many(%s)", json.dumps([{"kind": "t", "queue": Q}]))
    is_not_told(listener)


def a_producer_open_since_before(stage: Stage) -> None:
    """Its job is not to be seen yet and will come without a word: the worker must know."""
    worker, producer = stage.session(), stage.session()
    producer.begin()
    job_id = producer.enqueue(Q)
    verdict = idle(worker)
    producer.commit()
    if verdict == "covered":
        is_told(worker)
    expect(verdict == "uncovered", f"a producer is open, and the worker was told {verdict}")
    expect(worker.claim(Q) == [job_id], "brisk polling found nothing")
    expect(stand_by(worker, Q) == "covered", "the producer is gone, the worker still uncovered")
    producer.enqueue(Q)
    is_told(worker)


def a_producer_prepared_since_before(stage: Stage) -> None:
    """With nobody idle an enqueue can be prepared; prepared, it is in the way as an open one."""
    worker, producer = stage.session(), stage.session()
    name = stage.database.name
    producer.begin()
    job_id = producer.enqueue(Q)
    producer.run(f"prepare transaction '{name}'")
    verdict = idle(worker)
    stage.admin.run(f"commit prepared '{name}'")
    expect(verdict == "uncovered", f"a producer is prepared, and the worker was told {verdict}")
    expect(worker.claim(Q) == [job_id], "brisk polling found nothing")


def a_producer_rolled_back(stage: Stage) -> None:
    """The word goes out at the commit, and never for a job that never was."""
    worker, producer = stage.session(), stage.session()
    idle(worker)
    producer.begin()
    producer.enqueue(Q)
    is_not_told(worker)
    producer.rollback()
    is_not_told(worker)
    producer.begin()
    producer.run("savepoint a")
    producer.enqueue(Q)
    producer.run("rollback to a")
    producer.commit()
    is_not_told(worker)
    producer.begin()
    producer.enqueue(Q)
    producer.commit()
    is_told(worker)


def a_job_between_claim_and_lock(stage: Stage) -> None:
    """Enqueued in silence after the worker looked and before it stood by: the second claim."""
    worker = stage.session()
    listen(worker)
    expect(worker.claim(Q) == [], "the worker is not idle")
    job_id = stage.admin.enqueue(Q)
    expect(stand_by(worker, Q) == "covered", "not covered")
    expect(worker.claim(Q) == [job_id], "the second claim found nothing")


def without_a_second_claim(stage: Stage) -> None:
    """The wrong worker: it waits for a word on a job that came before it stood by."""
    worker = stage.session()
    listen(worker)
    worker.claim(Q)
    stage.admin.enqueue(Q)
    expect(stand_by(worker, Q) == "covered", "not covered")
    told = worker.notifications(within=SILENCE)
    expect(told != [], "lost")


def standing_by_unheard(stage: Stage) -> None:
    """Who does not listen, or only from its next commit on, must not stand by."""
    worker = stage.session()
    for prelude in ("select", "begin; listen rowlock"):
        worker.run(prelude)
        try:
            verdict = stand_by(worker, Q)
        except psycopg.Error as refused:
            expect(refused.sqlstate == "RL400", f"refused by {refused.sqlstate}")
        else:
            raise Missed(f"a session that hears nothing was told {verdict}")
    worker.rollback()
    listen(worker)
    expect(stand_by(worker, Q) == "covered", "not covered")


def several_idle_workers(stage: Stage) -> None:
    """One holds the lock for all; when it finds work, another takes over."""
    first, second, third = (stage.session() for _ in range(3))
    for worker in (first, second, third):
        expect(idle(worker) == "covered", "not covered")
    expect(holds(stage, first) and not holds(stage, second), "not the first holds the lock")
    stage.admin.enqueue(Q)
    for worker in (first, second, third):
        is_told(worker)
    expect(len(first.claim(Q)) == 1, "nothing to claim")
    expect(stand_down(first) == 1, "the holder held nothing")
    for worker in (second, third):
        is_told(worker, "")
        expect(stand_by(worker, Q) == "covered", "not covered")
    expect(holds(stage, second), "nobody took over")
    stage.admin.enqueue(Q)
    is_told(second)
    is_told(third)


def a_job_while_the_holder_stands_down(stage: Stage) -> None:
    """Between its unlocking and another's locking a job comes in silence, and is found."""
    first, second, producer = (stage.session() for _ in range(3))
    idle(first)
    idle(second)
    first.begin()
    expect(stand_down(first) == 1, "the holder held nothing")
    early = producer.enqueue(Q)
    producer.begin()
    late = producer.enqueue(Q)
    is_not_told(second)
    first.commit()
    is_told(second, "")
    expect(second.claim(Q, 10) == [early], "the job that came in silence was missed")
    expect(stand_by(second, Q) == "uncovered", "a producer is open, the worker covered")
    producer.commit()
    expect(second.claim(Q, 10) == [late], "brisk polling found nothing")


def a_holder_that_dies(stage: Stage) -> None:
    """Nobody says so. The next slow poll finds the job, and standing by again takes over."""
    first, second = stage.session(), stage.session()
    idle(first)
    idle(second)
    pid = first.pid
    first.conn.close()
    stage.wait_for(
        lambda: stage.admin.one("select count(*) from pg_stat_activity where pid = %s", pid) == 0,
        "the holder did not die",
    )
    stage.admin.enqueue(Q)
    is_not_told(second)
    expect(
        second.one("select queue.next_due(array[%s]) = interval '0'", Q) is True,
        "a poll does not see the job",
    )
    expect(stand_by(second, Q) == "covered" and holds(stage, second), "nobody took over")


def standing_by_twice(stage: Stage) -> None:
    """Session locks stack; standing by does not, so that standing down once lets go."""
    first, second = stage.session(), stage.session()
    idle(first)
    for _ in range(3):
        expect(stand_by(first, Q) == "covered", "not covered")
    expect(stand_down(first) == 1, "not one lock was held")
    expect(stand_down(first) == 0, "a lock was still held")
    expect(idle(second) == "covered" and holds(stage, second), "the lock was not let go")


def standing_by_for_more_queues(stage: Stage) -> None:
    worker = stage.session()
    idle(worker)
    queues = [Q, *(f"q{number}" for number in range(31))]
    expect(stand_by(worker, *queues) == "covered", "not covered")
    for queue in queues:
        stage.admin.enqueue(queue)
        is_told(worker, queue)
    buckets = stage.admin.one(
        "select count(distinct queue._wake_bucket(name)) from unnest(%s::text[]) as name", queues
    )
    expect(stand_down(worker) == buckets, "not one lock a bucket")


def two_queues_in_one_bucket(stage: Stage) -> None:
    """A collision costs a needless word, never a lost one."""
    other = stage.admin.one(
        """select 'o' || number from generate_series(1, 10000) as number
        where queue._wake_bucket('o' || number) = queue._wake_bucket(%s) limit 1""",
        Q,
    )
    one, two = stage.session(), stage.session()
    expect(idle(one, Q) == "covered" and idle(two, other) == "covered", "not covered")
    stage.admin.enqueue(other)
    is_told(two, other)
    is_told(one, other)
    stand_down(one)
    is_told(two, "")
    expect(two.claim(other) != [], "nothing to claim")
    stand_by(two, other)
    stage.admin.enqueue(other)
    is_told(two, other)
    stand_down(two)
    is_told(two, "")
    producer = stage.session()
    producer.begin()
    producer.enqueue(Q)
    expect(stand_by(two, other) == "uncovered", "a producer is in the way of the bucket")


def two_phase_producers(stage: Stage) -> None:
    """NOTIFY cannot be prepared: rowlock.notify = off enqueues in silence, a poll finds the job."""
    worker, producer = stage.session(), stage.session()
    name = stage.database.name
    idle(worker)
    producer.run("set rowlock.notify = off")
    producer.begin()
    job_id = producer.enqueue(Q)
    try:
        producer.run(f"prepare transaction '{name}'")
    except psycopg.Error as refused:
        raise Missed(f"it cannot be prepared: {refused}") from refused
    stage.admin.run(f"commit prepared '{name}'")
    is_not_told(worker)
    expect(
        worker.one("select queue.next_due(array[%s]) = interval '0'", Q) is True,
        "a poll does not see the job",
    )
    expect(worker.claim(Q) == [job_id], "the poll found nothing")
    for value in ("OFF", "false", "no", "0"):
        producer.run("select set_config('rowlock.notify', %s, false)", value)
        producer.enqueue(Q)
        is_not_told(worker)
    # Back to the default, by whatever name.
    for value in ("on", ""):
        producer.run("select set_config('rowlock.notify', %s, false)", value)
        producer.enqueue(Q)
        is_told(worker)


def jobs_due_later(stage: Stage) -> None:
    """Due within the longest poll: told, since sleepers must look again. Later: polls see it."""
    worker = stage.session()
    idle(worker)
    stage.admin.enqueue(Q, delay="14 seconds")
    is_told(worker)
    stage.admin.enqueue(Q, delay="16 seconds")
    stage.admin.enqueue(Q, delay="1 hour")
    is_not_told(worker)
    expect(
        worker.one("select queue.next_due(array[%s]) between '13 s' and '14 s'", Q) is True,
        "next_due does not say when the first job is due",
    )


def a_queue_resumed(stage: Stage) -> None:
    worker = stage.session()
    stage.admin.enqueue(Q)
    stage.admin.run("select queue.pause(%s)", Q)
    idle(worker)
    stage.admin.run("select queue.resume(%s)", Q)
    is_told(worker)
    expect(len(worker.claim(Q)) == 1, "nothing to claim")


def a_batch_for_several_queues(stage: Stage) -> None:
    """One word a queue, for those alone in which somebody idles; due ones count, later ones not."""
    worker, other = stage.session(), stage.session()
    idle(worker)
    listen(other)
    batch = [{"kind": "t", "queue": Q}] * 3
    batch += [{"kind": "t", "queue": Q, "delay": "1 hour"}, {"kind": "t", "queue": "elsewhere"}]
    stage.admin.run("select queue.enqueue_many(%s)", json.dumps(batch))
    is_told(worker)
    is_told(other)
    is_not_told(worker)
    stage.admin.run(
        "select queue.enqueue_many(%s)",
        json.dumps([{"kind": "t", "queue": Q, "delay": "1 hour"}]),
    )
    is_not_told(worker)


SCRIPTS: list[Callable[[Stage], None]] = [
    a_job_while_nobody_idles,
    a_producer_open_since_before,
    a_producer_prepared_since_before,
    a_producer_rolled_back,
    a_job_between_claim_and_lock,
    standing_by_unheard,
    several_idle_workers,
    a_job_while_the_holder_stands_down,
    a_holder_that_dies,
    standing_by_twice,
    standing_by_for_more_queues,
    two_queues_in_one_bucket,
    two_phase_producers,
    jobs_due_later,
    a_queue_resumed,
    a_batch_for_several_queues,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_no_wake_up_is_lost(script: Callable[[Stage], None], stage: Stage) -> None:
    script(stage)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_whatever_makes_a_job_claimable_wakes(maker: Maker, stage: Stage) -> None:
    a_job_for_an_idle_worker(maker)(stage)


def test_a_worker_that_does_not_claim_again_loses_a_job(stage: Stage) -> None:
    """Why the second claim: the same script, without it."""
    with pytest.raises(Missed, match="lost"):
        without_a_second_claim(stage)


def test_two_phase_producers_must_say_so(stage: Stage) -> None:
    """Without rowlock.notify = off the transaction cannot be prepared while a worker idles."""
    worker, producer = stage.session(), stage.session()
    idle(worker)
    producer.begin()
    producer.enqueue(Q)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        producer.run("prepare transaction 'rowlock_wakeup'")


# -- the wrong ones fail ---------------------------------------------------------------------------

TRY = "pg_try_advisory_xact_lock_shared(queue._wake_space(), queue._wake_bucket(p_queue))"

OWN = """    except
    select held.bucket from queue._wake_holders() as held where held.pid = pg_backend_pid()
"""

WAKE_REQUEUED = "  perform queue._wake(v_job.queue, v_job.available_at, p_now);\n"


def mutant(rule: str, caught_by: Callable[[Stage], None], function: str, *change: str) -> Mutant:
    old, new = change
    return Mutant(rule, (Change(function, old, new),), caught_by)


MUTANTS = [
    mutant(
        "a notification is skipped when the lock is unavailable",
        a_job_for_an_idle_worker(enqueue),
        "_wake",
        f"    and not {TRY}\n",
        f"    and {TRY}\n",
    ),
    mutant(
        "every enqueue notifies",
        a_job_while_nobody_idles,
        "_wake",
        f"    and not {TRY}\n",
        "",
    ),
    mutant(
        "the shared lock is let go before the commit",
        a_producer_open_since_before,
        "_wake",
        f"not {TRY}",
        "not coalesce(pg_try_advisory_lock_shared(queue._wake_space(), queue._wake_bucket(p_queue))"
        " and pg_advisory_unlock_shared(queue._wake_space(), queue._wake_bucket(p_queue)), false)",
    ),
    mutant(
        "producers lock each other out",
        a_job_while_nobody_idles,
        "_wake",
        "pg_try_advisory_xact_lock_shared",
        "pg_try_advisory_xact_lock",
    ),
    mutant(
        "only jobs due now are told of",
        jobs_due_later,
        "_wake",
        "p_now + interval '15 seconds'",
        "p_now",
    ),
    mutant(
        "jobs due in a year are told of",
        jobs_due_later,
        "_wake",
        "p_now + interval '15 seconds'",
        "p_now + interval '1 year'",
    ),
    mutant(
        "rowlock.notify is not heeded",
        two_phase_producers,
        "_wake",
        "    and coalesce(current_setting('rowlock.notify', true), '') !~* '^(off|false|no|0)$'\n",
        "",
    ),
    mutant(
        "a producer's shared lock is taken for an idle worker's",
        a_producer_open_since_before,
        "_wake_holders",
        "    and lock.mode = 'ExclusiveLock'\n",
        "",
    ),
    mutant(
        "a session that does not listen may stand by",
        standing_by_unheard,
        "stand_by",
        "  if not exists (select from pg_listening_channels() as channel"
        " where channel = 'rowlock') then\n",
        "  if false then\n",
    ),
    mutant(
        "an idle worker is covered by itself alone",
        several_idle_workers,
        "stand_by",
        "      and not exists (select from queue._wake_holders() as held"
        " where held.bucket = v_bucket)\n",
        "",
    ),
    mutant(
        "standing by stacks",
        standing_by_twice,
        "stand_by",
        OWN,
        "",
    ),
    mutant(
        "standing by never fails",
        a_producer_open_since_before,
        "stand_by",
        "'uncovered'",
        "'covered'",
    ),
    mutant(
        "who stands down tells nobody",
        several_idle_workers,
        "stand_down",
        "    perform pg_notify('rowlock', '');\n",
        "    null;\n",
    ),
    mutant(
        "who stands down keeps its locks",
        standing_by_twice,
        "stand_down",
        "    perform pg_advisory_unlock(queue._wake_space(), v_bucket);\n",
        "",
    ),
    mutant(
        "a requeued job wakes nobody",
        a_job_for_an_idle_worker(release),
        "_requeue",
        WAKE_REQUEUED,
        "",
    ),
    mutant(
        "a batch wakes nobody",
        a_job_for_an_idle_worker(enqueue_many),
        "enqueue_many",
        "  perform queue._wake(line.key, line.value::timestamptz, v_now)\n",
        "  perform line.key\n",
    ),
    mutant(
        "a resumed queue wakes nobody",
        a_queue_resumed,
        "resume",
        "    perform queue._wake(resume.queue, v_now, v_now);\n",
        "",
    ),
    mutant(
        "all queues share one lock",
        a_batch_for_several_queues,
        "_wake_bucket",
        "hashtext(p_queue) & 63",
        "0 * length(p_queue)",
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_wrong_variant_is_caught(mutant: Mutant, database: Database) -> None:
    mutant.assert_caught(database)


def test_wake_locks_meet_nobody_elses(stage: Stage) -> None:
    """An advisory lock of the application, on any key, is no wake lock."""
    worker, application = stage.session(), stage.session()
    bucket: Any = stage.admin.one("select queue._wake_bucket(%s)", Q)
    application.run("select pg_advisory_lock(%s)", bucket)
    application.run("select pg_advisory_lock(0, %s)", bucket)
    assert idle(worker) == "covered"
    assert holds(stage, worker)
