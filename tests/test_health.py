"""What health and list_workers see of other sessions, with and without the right to look."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.cluster import Connection, Database
from tests.support.interleave import FUNCTIONS, Session, Stage, stage_on


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        yield stage


@pytest.fixture
def viewer(stage: Stage) -> Iterator[Connection]:
    """A login that may view and nothing else."""
    with psycopg.connect(stage.database.url_as("queue_viewer"), autocommit=True) as conn:
        yield conn


@pytest.fixture
def without_all_stats(stage: Stage) -> Iterator[None]:
    """As where the queue was deployed by somebody who could not grant pg_read_all_stats."""
    stage.admin.run("revoke pg_read_all_stats from queue_owner")
    yield
    stage.admin.run("grant pg_read_all_stats to queue_owner")


def old_snapshots(conn: Connection, session: Session) -> tuple[str, str, str]:
    """Status, detail and hint while only that session counts: its pid is in the detail."""
    row = conn.execute(
        "select status, detail, hint from queue.health() where check_name = 'old_snapshots'"
    ).fetchone()
    assert row is not None
    status, detail, hint = row
    assert detail.startswith(f"pid {session.pid}, "), detail
    return status, detail, hint


def open_writer(stage: Stage) -> Session:
    writer = stage.session()
    writer.run("set application_name = 'a long report'")
    writer.begin("repeatable read")
    writer.enqueue("q")
    return writer


def test_roles_grant_the_owner_a_look_at_other_sessions(viewer: Connection) -> None:
    assert viewer.execute(
        "select pg_has_role('queue_owner', 'pg_read_all_stats', 'usage')"
    ).fetchone() == (True,)


def test_a_viewer_sees_who_holds_a_transaction(stage: Stage, viewer: Connection) -> None:
    writer = open_writer(stage)
    status, detail, hint = old_snapshots(viewer, writer)
    assert status == "ok"
    assert "idle in transaction, a long report holds a transaction since 00:00:0" in detail
    assert detail.endswith("and has written: floors stand still")
    assert "pg_terminate_backend" in hint
    assert "grant" not in hint


def test_an_old_one_is_told(stage: Stage, viewer: Connection) -> None:
    """Five minutes pass quickly here."""
    text = (FUNCTIONS / "observer" / "health.sql").read_text()
    passage = "from holding) < v_now - interval '5 minutes'"
    assert text.count(passage) == 1
    stage.admin.run(text.replace(passage, "from holding) < v_now - interval '1 millisecond'"))
    writer = open_writer(stage)
    stage.admin.run("select pg_sleep(0.01)")
    assert old_snapshots(viewer, writer)[0] == "warn"


@pytest.mark.usefixtures("without_all_stats")
def test_without_the_right_it_says_so(stage: Stage, viewer: Connection) -> None:
    """A session of another user does not say since when; its age in transactions it does."""
    writer = open_writer(stage)
    status, detail, hint = old_snapshots(viewer, writer)
    assert status == "ok"
    assert "a long report holds a transaction of " in detail
    assert " transactions ago, and has written" in detail
    assert hint.startswith("To see since when: grant pg_read_all_stats to queue_owner.")


@pytest.mark.usefixtures("without_all_stats")
def test_workers_are_seen_without_the_right(stage: Stage, viewer: Connection) -> None:
    for role in ("keeper", "settler"):
        stage.session().run(f"set application_name = 'rowlock:host-1-0a0b0c0d:{role}'")
    stage.admin.enqueue("q")
    stage.admin.run("select queue.claim('host-1-0a0b0c0d', '{q}')")
    assert viewer.execute(
        "select worker, sessions, started_at, running, state from queue.list_workers()"
    ).fetchall() == [("host-1-0a0b0c0d", 2, None, 1, "live")]


def test_a_prepared_transaction_is_shown(stage: Stage, viewer: Connection) -> None:
    if stage.admin.one("show max_prepared_transactions") == "0":
        pytest.skip("this server has max_prepared_transactions = 0")
    writer = stage.session()
    writer.begin()
    writer.enqueue("q")
    writer.run("prepare transaction 'rowlock health'")
    try:
        row = viewer.execute(
            "select status, detail from queue.health() where check_name = 'prepared_transactions'"
        ).fetchone()
        assert row is not None
        assert row[0] == "ok"
        assert row[1].startswith("1 prepared, the oldest since 2")
    finally:
        writer.run("rollback prepared 'rowlock health'")
