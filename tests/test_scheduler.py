"""Upkeep from several sessions at once: nothing that hangs, dies or holds a lock stops it.

Each interleaving is also run against a wrong variant of the function it guards, and must catch it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.support.cluster import Cluster, Database
from tests.support.interleave import (
    FUNCTIONS,
    Change,
    Missed,
    Mutant,
    Session,
    Stage,
    expect,
    stage_on,
)

Q = "q"


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        yield stage


def expired(stage: Stage, jobs: int = 1) -> list[int]:
    """Jobs that are running, their leases run out."""
    for _ in range(jobs):
        stage.admin.enqueue(Q)
    claimed = stage.admin.claim(Q, jobs)
    stage.admin.run(
        "update queue.jobs set lease_expires_at = now() - interval '1 hour' where id = any (%s)",
        claimed,
    )
    return claimed


def due(stage: Stage, **ago: str) -> None:
    """These steps are due for so long; the others are not."""
    stage.admin.run("update queue.steps set due_at = clock_timestamp() + interval '1 hour'")
    for step, interval in ago.items():
        stage.admin.run(
            "update queue.steps set due_at = clock_timestamp() - %s::interval where step = %s",
            interval,
            step,
        )


def tick(session: Session) -> tuple[Any, ...]:
    session.run("set statement_timeout = '3s'")
    try:
        return session.run("select step, processed, more from queue.tick()")[0]
    except psycopg.errors.QueryCanceled as error:
        raise Missed("a tick waits for another") from error


def status(stage: Stage, job_id: int) -> str:
    return str(stage.admin.one("select status from queue.jobs where id = %s", job_id))


# -- tick ------------------------------------------------------------------------------------------


def hang_in_reap(stage: Stage) -> None:
    """A session ticks and hangs before its commit: for three intervals others trust it."""
    hung, other = stage.session(), stage.session()
    due(stage, reap="1 second")
    hung.begin()
    expect(tick(hung)[0] == "reap", "nobody reaps")
    (job_id,) = expired(stage)
    expect(tick(other) == (None, None, False), "two sessions are at one step")
    expect(status(stage, job_id) == "running", "a step was done twice")

    hung.rollback()
    due(stage, reap="16 seconds")
    hung.begin()
    hung.run("select from queue.steps where step = 'reap' for no key update")
    expect(tick(other)[:2] == ("reap", 1), "reaping waits for a session that hangs")
    expect(status(stage, job_id) == "queued", "the job is still running")
    hung.rollback()


def hang_in_prune(stage: Stage) -> None:
    """A session that hangs in another step has nothing to do with reaping."""
    hung, other = stage.session(), stage.session()
    due(stage, prune="1 hour", reap="1 second")
    hung.begin()
    hung.run("select from queue.steps where step = 'prune' for no key update")
    (job_id,) = expired(stage)
    expect(tick(other)[:2] == ("reap", 1), "a hung prune stops the reaper")
    expect(status(stage, job_id) == "queued", "the job is still running")
    expect(tick(other)[0] is None, "somebody waits for a step that hangs")
    hung.rollback()


def step_cancelled_each_time(stage: Stage) -> None:
    """A step that runs into the time limit each time leaves no trace; reaping must go on."""
    stage.admin.run(
        """create function pg_temp.slow() returns trigger language plpgsql as
           'begin perform pg_sleep(30); return null; end';
        create trigger slow before insert on queue.rollups
        for each statement execute function pg_temp.slow()"""
    )
    ticker = stage.session()
    due(stage, roll_up="1 hour", reap="0 seconds")
    (job_id,) = expired(stage)
    for _ in range(4):
        stage.admin.run(
            "update queue.steps set due_at = due_at - interval '6 seconds' where step = 'reap'"
        )
        ticker.run("set statement_timeout = '300ms'")
        try:
            ticker.run("select queue.tick()")
        except psycopg.errors.QueryCanceled:
            continue
        if status(stage, job_id) == "queued":
            return
    expect(False, "a step that is cancelled each time stops the reaper")


@pytest.mark.parametrize(
    "script",
    [hang_in_reap, hang_in_prune, step_cancelled_each_time],
    ids=lambda script: str(script.__name__),
)
def test_reaping_goes_on(stage: Stage, script: Any) -> None:
    script(stage)


def test_reaping_goes_on_when_the_ticking_session_is_ended_twice(stage: Stage) -> None:
    """Both in the midst of the step; what they did is undone, and the third does it."""
    stage.admin.run(
        """create function pg_temp.slow() returns trigger language plpgsql as
           'begin
              if current_setting(''application_name'') = ''doomed'' then
                perform pg_sleep(30);
              end if;
              return new;
            end';
        create trigger slow after update on queue.jobs
        for each row when (old.status = 'running') execute function pg_temp.slow()"""
    )
    (job_id,) = expired(stage)
    for _ in range(2):
        due(stage, reap="1 second")
        doomed = stage.session()
        doomed.run("set application_name = 'doomed'")
        ticking = doomed.later("select queue.tick()")
        waits = "select wait_event = 'PgSleep' from pg_stat_activity where pid = %s"
        stage.wait_for(partial(stage.admin.one, waits, doomed.pid), "the step has not begun")
        stage.admin.run("select pg_terminate_backend(%s, 10000)", doomed.pid)
        with pytest.raises(psycopg.OperationalError):
            ticking.result(timeout=10)
        assert status(stage, job_id) == "running"

    assert tick(stage.session())[:2] == ("reap", 1)
    assert status(stage, job_id) == "queued"
    assert stage.admin.run(
        "select event, attempt, fence from queue.job_events where job_id = %s order by id", job_id
    ) == [("enqueued", 0, 0), ("claimed", 1, 1), ("lease_expired", 1, 1)]


def test_many_at_once_double_nothing(stage: Stage) -> None:
    """Every step has work; six sessions tick until nothing is left; each thing is done once."""
    lost = expired(stage, 200)
    stage.admin.run(
        """insert into queue.jobs (
             created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind
           )
           select now() - interval '1 year', now(), now() - interval '1 year', 'succeeded', 5, 1, 1,
             'old'
           from generate_series(1, 3500)"""
    )
    stage.admin.run('select queue.set_settings(\'{"tick_interval": "1 second"}\')')
    due(stage, reap="1 hour", roll_up="1 hour", prune="1 hour", rotate_events="1 hour")

    def ticks(session: Session) -> int:
        deleted = 0
        began = time.monotonic()
        while time.monotonic() < began + 2.5 or (
            time.monotonic() < began + 30
            and session.one("select exists (select from queue.jobs where kind = 'old')")
        ):
            step, processed, more = tick(session)
            if step == "prune":
                deleted += processed
            if not more:
                time.sleep(0.02)
        return deleted

    sessions = [stage.session() for _ in range(6)]
    with ThreadPoolExecutor(len(sessions)) as pool:
        deleted = sum(pool.map(ticks, sessions))

    assert deleted == 3500
    assert stage.admin.run("select count(*) from queue.jobs where kind = 'old'") == [(0,)]
    assert stage.admin.run(
        """select count(*), count(distinct job_id), bool_and(attempt = 1 and fence = 1)
           from queue.job_events where event = 'lease_expired'"""
    ) == [(len(lost), len(lost), True)]
    stage.admin.run("select queue.roll_up()")
    assert stage.admin.run(
        """select event, sum(events)::int from queue.rollups where grain = 'ever'
           group by 1 order by 1"""
    ) == [("claimed", 200), ("enqueued", 200), ("lease_expired", 200), ("pruned", 3500)]
    assert stage.admin.run("select step from queue.steps where failures > 0") == []


def test_how_long_until_the_next_step(stage: Stage) -> None:
    """An idle process may sleep half a minute; while anything runs a tick is wanted in time."""
    worker = stage.session()
    stage.admin.enqueue(Q)
    ((job_id, fence),) = worker.claims(Q)
    while tick(worker)[2]:
        pass
    assert worker.one("select due_in <= interval '5 seconds' from queue.tick()")
    worker.run("select queue.complete(%s, %s)", job_id, fence)
    assert worker.one("select due_in <= interval '5 seconds' from queue.tick()")
    due(stage, roll_up="0 seconds")
    assert tick(worker) == ("roll_up", 1, False)
    assert worker.one("select due_in >= interval '30 seconds' from queue.tick()")


def test_the_loop_commits_each_step_and_ends_in_time(stage: Stage) -> None:
    """A job reaped in the midst of the loop is seen by others at once."""
    stage.admin.run('select queue.set_settings(\'{"tick_interval": "1 second"}\')')
    looping = stage.session()
    began = time.monotonic()
    loop = looping.later("call queue.tick_loop(8)")
    (job_id,) = expired(stage)
    stage.wait_for(lambda: status(stage, job_id) == "queued", "the loop does not reap")
    assert not loop.done()
    loop.result(timeout=10)
    assert 2 < time.monotonic() - began < 8


# -- prune -----------------------------------------------------------------------------------------


def hung_prune(stage: Stage) -> None:
    """The walk's place is a matter of speed: nobody waits for whoever has it."""
    stage.admin.run(
        """insert into queue.jobs (
             created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind
           )
           select now() - interval '1 year', now(), now() - interval '1 year', 'succeeded', 5, 1, 1,
             'old'"""
    )
    hung, other = stage.session(), stage.session()
    hung.begin()
    hung.run("select from queue.steps where step = 'prune' for no key update")
    other.run("set statement_timeout = '2s'")
    try:
        deleted = other.one("select deleted from queue.prune()")
    except psycopg.errors.QueryCanceled:
        deleted = None
    expect(deleted == 1, "prune waits for a session that hangs")
    hung.rollback()


def retried_meanwhile(stage: Stage) -> None:
    """A job that an operator has retried since it was looked at is no finished one."""
    stage.admin.enqueue(Q)
    ((job_id, fence),) = stage.admin.claims(Q)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    stage.admin.run(
        """update queue.jobs set created_at = created_at - interval '1 year',
             finished_at = finished_at - interval '1 year' where id = %s""",
        job_id,
    )
    # Locked jobs come back changed: prune reads them while the retry is under way.
    operator, pruner = stage.session(), stage.session()
    operator.begin()
    operator.run("select queue.retry(%s)", job_id)
    expect(pruner.one("select deleted from queue.prune()") == 0, "a locked job was deleted")
    operator.commit()
    expect(pruner.one("select deleted from queue.prune()") == 0, "a queued job was deleted")


def finished_again(stage: Stage, guard: str = "") -> None:
    """A job that between the look and the lock was retried, ran and failed anew is a young one.

    prune is made to wait there; `guard` is left out of it, to see the job deleted.
    """
    text = (FUNCTIONS / "scheduler" / "prune.sql").read_text()
    for passage, other in (
        ("  v_ctids := array(", "  perform pg_advisory_xact_lock(4711);\n\n  v_ctids := array("),
        (guard, ""),
    ):
        assert passage == "" or text.count(passage) == 1
        text = text.replace(passage, other) if passage else text
    stage.admin.run(text)

    stage.admin.enqueue(Q)
    ((job_id, fence),) = stage.admin.claims(Q)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    stage.admin.run(
        """update queue.jobs set created_at = created_at - interval '1 year',
             finished_at = finished_at - interval '1 year' where id = %s""",
        job_id,
    )
    blocker, pruner = stage.session(), stage.session()
    blocker.run("select pg_advisory_lock(4711)")
    call = pruner.later("select deleted from queue.prune()")
    stage.wait_until_blocked(pruner)
    stage.admin.run("select queue.retry(%s)", job_id)
    ((job_id, fence),) = stage.admin.claims(Q)
    stage.admin.run("select queue.fail(%s, %s, 'E', fatal => true)", job_id, fence)
    blocker.run("select pg_advisory_unlock(4711)")
    expect(call.result(timeout=10) == [(0,)], "a job that has just failed was deleted")


def test_a_job_that_failed_again_is_not_pruned(stage: Stage) -> None:
    finished_again(stage)


def test_prune_looks_again_when_it_has_the_lock(stage: Stage) -> None:
    with pytest.raises(Missed):
        finished_again(stage, "\n          and job.finished_at <= v_now - interval '1 minute'")


def test_prune_waits_for_nobody(stage: Stage) -> None:
    hung_prune(stage)


def test_a_retried_job_is_not_pruned(stage: Stage) -> None:
    retried_meanwhile(stage)


# -- rotate_events ---------------------------------------------------------------------------------


def old_days(stage: Stage, days: int = 3) -> None:
    """Partitions that lie behind the retention, each with an event."""
    for ago in range(40, 40 + days):
        stage.admin.run(
            f"""do $$
            declare
              v_day date := (clock_timestamp() at time zone 'utc')::date - {ago};
              v_name text := 'job_events_' || to_char(v_day, 'YYYYMMDD');
            begin
              execute format(
                'create table queue.%I partition of queue.job_events for values from (%L) to (%L)',
                v_name, v_day || ' 00:00:00+00', v_day + 1 || ' 00:00:00+00'
              );
              execute format('alter table queue.%I owner to queue_owner', v_name);
              insert into queue.job_events
                (at, job_id, attempt, fence, event, to_status, queue, kind)
              values (v_day + interval '12 hours', 1, 0, 0, 'enqueued', 'queued', 'q', 'old');
            end $$"""
        )


def longest_enqueue(stage: Stage, session: Session, call: Any) -> float:
    """The longest that an enqueue took while a call was running, in seconds."""
    longest = 0.0
    while not call.done():
        began = time.monotonic()
        session.enqueue(Q)
        longest = max(longest, time.monotonic() - began)
        time.sleep(0.001)
    return longest


READERS = {
    "of everything": "select count(*) from queue.job_events",
    "of the whole only": "lock table only queue.job_events in access share mode",
}


def reader_in_the_way(stage: Stage, look: str) -> None:
    """A report keeps the events open: rotation is put off, and no enqueue feels it."""
    reader, producer, rotator = stage.session(), stage.session(), stage.session()
    old_days(stage)
    producer.enqueue(Q)
    reader.begin()
    reader.run(look)
    call = rotator.later("select created, dropped, note from queue.rotate_events()")
    longest = longest_enqueue(stage, producer, call)
    created, dropped, note = call.result(timeout=30)[0]
    expect((created, dropped) == (0, 0), "something was dropped under a reader")
    expect("could not be dropped" in note, f"the note says {note}")
    expect(longest < 0.8, f"an enqueue waited {longest:.1f} s for the rotation")

    reader.rollback()
    expect(
        rotator.run("select created, dropped, note from queue.rotate_events()") == [(0, 3, None)],
        "the next call does not make up for it",
    )


def everything_in_the_way(stage: Stage) -> None:
    reader_in_the_way(stage, READERS["of everything"])


def the_whole_in_the_way(stage: Stage) -> None:
    reader_in_the_way(stage, READERS["of the whole only"])


@pytest.mark.parametrize("look", READERS.values(), ids=READERS)
def test_a_reader_puts_the_drop_off_and_no_enqueue_waits(stage: Stage, look: str) -> None:
    reader_in_the_way(stage, look)


def days_held_one_by_one(stage: Stage) -> None:
    """Each day has a reader of its own: all waiting is done before writers are shut out."""
    reader, producer, rotator = stage.session(), stage.session(), stage.session()
    old_days(stage, 20)
    producer.enqueue(Q)
    reader.begin()
    # All but the oldest, which is dropped at once.
    for (name,) in stage.admin.run(
        "select name from queue._event_days() where ends_at < now() - interval '31 days'"
        " order by name offset 1"
    ):
        reader.run(f"lock table queue.{name} in access share mode")
    call = rotator.later("select dropped from queue.rotate_events()")
    longest = longest_enqueue(stage, producer, call)
    call.result(timeout=30)
    expect(longest < 0.8, f"an enqueue waited {longest:.1f} s for the rotation")
    reader.rollback()


def test_days_in_use_do_not_add_up(stage: Stage) -> None:
    days_held_one_by_one(stage)


def test_a_reader_puts_new_days_off_and_no_enqueue_waits(stage: Stage) -> None:
    """Attaching a day locks the default partition, which readers of everything have open."""
    reader, producer, rotator = stage.session(), stage.session(), stage.session()
    for (name,) in stage.admin.run(
        "select name from queue._event_days() order by name desc limit 3"
    ):
        stage.admin.run(f"drop table queue.{name}")
    producer.enqueue(Q)
    reader.begin()
    reader.run("select count(*) from queue.job_events")
    call = rotator.later("select created, note from queue.rotate_events()")
    longest = longest_enqueue(stage, producer, call)
    created, note = call.result(timeout=30)[0]
    assert created == 0
    assert "could not be attached" in note
    assert longest < 0.8
    reader.rollback()
    assert rotator.run("select created, note from queue.rotate_events()") == [(3, None)]


def test_a_writer_puts_the_drop_off_and_others_write_on(stage: Stage) -> None:
    """A producer's long transaction has written an event."""
    writer, producer, rotator = stage.session(), stage.session(), stage.session()
    old_days(stage)
    writer.begin()
    writer.enqueue(Q)
    call = rotator.later("select dropped from queue.rotate_events()")
    assert longest_enqueue(stage, producer, call) < 0.8
    assert call.result(timeout=30) == [(0,)]
    writer.commit()
    assert rotator.one("select dropped from queue.rotate_events()") == 3


def test_a_default_partition_in_use_is_left_for_the_next_call(stage: Stage) -> None:
    other, rotator = stage.session(), stage.session()
    stage.admin.run(
        """insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
           values (now() - interval '1 year', 1, 0, 0, 'enqueued', 'queued', 'q', 'old')"""
    )
    other.begin()
    other.run("lock table queue.job_events_default in exclusive mode")
    assert rotator.run("select created, dropped, note from queue.rotate_events()") == [
        (0, 0, "the default partition could not be cleared: it is in use")
    ]
    other.rollback()
    assert rotator.run("select created, dropped, note from queue.rotate_events()") == [(0, 0, None)]
    assert stage.admin.run("select from queue.job_events_default") == []


def test_two_rotations_at_once_make_each_day_once(stage: Stage) -> None:
    for (name,) in stage.admin.run(
        "select name from queue._event_days() order by name desc limit 5"
    ):
        stage.admin.run(f"drop table queue.{name}")
    sessions = [stage.session() for _ in range(3)]
    answers = [one.later("select created, note from queue.rotate_events()") for one in sessions]
    assert sum(answer.result(timeout=30)[0][0] for answer in answers) <= 5
    stage.admin.run("select queue.rotate_events()")
    assert stage.admin.one("select count(*) from queue._event_days()") == 16


# -- wrong variants --------------------------------------------------------------------------------

MUTANTS = [
    Mutant(
        "a reap overdue by three intervals is done by whoever comes",
        (Change("tick", "v_now - 3 * due.every", "v_now - 3000 * due.every"),),
        hang_in_reap,
    ),
    Mutant(
        "a step has one caller",
        (Change("tick", "for no key update skip locked;", ";"),),
        hang_in_reap,
    ),
    Mutant(
        "a late reap goes before all",
        (Change("tick", "due.step = 'reap' and due.due_at <= v_now - due.every desc, ", ""),),
        step_cancelled_each_time,
    ),
    Mutant(
        "prune does not wait for its place",
        (
            Change(
                "prune",
                "perform from queue.steps as step where step.step = 'prune' "
                "for no key update skip locked;\n  if found then",
                "if true then",
            ),
        ),
        hung_prune,
    ),
    Mutant(
        "rotation waits 100 ms",
        (Change("rotate_events", "set lock_timeout = '100ms'", "set lock_timeout = '2s'"),),
        the_whole_in_the_way,
    ),
    Mutant(
        "days are locked before the whole",
        (
            Change(
                "rotate_events",
                """v_old_days := v_old_days || v_name;
      exception
        when lock_not_available or undefined_table then
          v_notes := v_notes || format('%s could not be dropped: it is in use', v_name);
          exit;
""",
                """execute format('drop table queue.%I', v_name);
      exception
        when lock_not_available or undefined_table then
          v_notes := v_notes || format('%s could not be dropped: it is in use', v_name);
""",
            ),
        ),
        days_held_one_by_one,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.id))
def test_a_wrong_variant_is_caught(cluster: Cluster, mutant: Mutant) -> None:
    database = cluster.create()
    try:
        mutant.assert_caught(database)
    finally:
        cluster.drop(database)
