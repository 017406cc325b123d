"""A live queue, dumped and restored into another cluster, where transaction ids start anew."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pyworker import deploy
from tests.support import servers
from tests.support.cluster import Cluster, Connection, Database

STATUSES = ("queued", "running", "succeeded", "failed", "cancelled")


@dataclass
class Restored:
    """The restored database, and what the old one knew last."""

    conn: Connection
    database: Database
    jobs: dict[int, str]
    events: set[int]
    cursor: str
    counted: list[tuple[str, int]]


@pytest.fixture
def restored(database: Database, own_cluster: Cluster, tmp_path: Path) -> Iterator[Restored]:
    wanted = os.environ.get("PG")
    bindir = servers.binaries(int(wanted) if wanted else None)
    if not (bindir / "pg_dump").exists():
        pytest.skip(f"these server binaries come without pg_dump: PG={wanted}")

    with database.connect() as old:
        # Ids that the new cluster will not have reached for long.
        old.execute(
            "do $$ begin for i in 1..20000 loop"
            " perform pg_current_xact_id(); commit; end loop; end $$"
        )
        for _ in range(3):
            for status in STATUSES:
                old.execute("select queue_tests.one_in(%s)", [status])
        cursor = one(old, "select next_cursor from queue.read_events() limit 1")
        old.execute("select queue.roll_up()")
        # Neither counted nor read yet when the dump is made.
        old.execute("select queue_tests.one_in('succeeded')")
        jobs: dict[int, str] = dict(old.execute("select id, status from queue.jobs").fetchall())
        events = {row[0] for row in old.execute("select id from queue.job_events")}
        counted = old.execute(
            "select event, count(*)::int from queue.job_events group by 1 order by 1"
        ).fetchall()
        xid = one(old, "select max(xid)::text::bigint from queue.job_events")
        for line in (
            "drop schema queue_tests cascade",
            "drop extension if exists plpgsql_check, pgtap cascade",
            "drop schema tap cascade",
        ):
            old.execute(line)

    dump = tmp_path / "queue.dump"
    subprocess.run([bindir / "pg_dump", "-Fc", "-f", dump, database.url], check=True)
    target = own_cluster.create_empty()
    with target.connect() as conn:
        conn.execute(deploy.roles_script())
    subprocess.run(
        [bindir / "pg_restore", "--exit-on-error", "--dbname", target.url, dump], check=True
    )
    with target.connect() as conn:
        assert one(conn, "select pg_current_xact_id()::text::bigint") < xid
        yield Restored(conn, target, jobs, events, str(cursor), counted)


def one(conn: Connection, query: str, *params: object) -> Any:
    row = conn.execute(query, params or None).fetchone()
    assert row is not None
    return row[0]


def follow(conn: Connection, cursor: str) -> Counter[int]:
    """All pages from a cursor on."""
    seen: Counter[int] = Counter()
    while True:
        rows = conn.execute(
            "select id, next_cursor from queue.read_events(%s, 7)", [cursor]
        ).fetchall()
        cursor = rows[0][1]
        if rows[0][0] is None:
            return seen
        seen.update(row[0] for row in rows)


def test_until_it_is_noticed_followers_are_told(restored: Restored) -> None:
    conn = restored.conn
    assert one(conn, "select status from queue.health() where check_name = 'cluster'") == "fail"
    for cursor in (restored.cursor, "start", None):
        with pytest.raises(psycopg.Error) as caught:
            conn.execute("select queue.read_events(%s)", [cursor])
        assert caught.value.sqlstate == "RL503"


def notice_by_migrate(restored: Restored) -> None:
    assert deploy.migrate(restored.database.url).adopted


def notice_by_tick(restored: Restored) -> None:
    """Workers that start at once, before anybody migrates."""
    restored.conn.execute("update queue.steps set due_at = clock_timestamp()")
    while one(restored.conn, "select more from queue.tick()"):
        pass


@pytest.mark.parametrize("notice", [notice_by_migrate, notice_by_tick], ids=["migrate", "tick"])
def test_the_queue_lives_on(restored: Restored, notice: object) -> None:
    conn = restored.conn
    assert callable(notice)
    notice(restored)
    assert one(conn, "select status from queue.health() where check_name = 'cluster'") == "ok"

    # Followers: the old cursor is refused, the start gives everything once.
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("select queue.read_events(%s)", [restored.cursor])
    assert caught.value.sqlstate == "RL409"
    now = str(one(conn, "select next_cursor from queue.read_events()"))
    assert follow(conn, "start") == Counter(restored.events)

    # A new job has a new id, and the same job for a known key.
    new = one(conn, "select job_id from queue.enqueue('new', queue => 'new')")
    assert new > max(restored.jobs)

    # Claims that the dump took along end as any whose worker is gone.
    assert one(conn, "select count(*) from queue.jobs where status = 'running'") == 3
    conn.execute(
        "update queue.jobs set lease_expires_at = now() - interval '1 second', max_attempts = 1"
        " where status = 'running'"
    )
    conn.execute("update queue.steps set due_at = clock_timestamp()")
    while one(conn, "select more from queue.tick()"):
        pass
    assert one(conn, "select count(*) from queue.jobs where error_type = 'LeaseExpired'") == 3

    # Claims and their floors: every queued job is handed out, over several refreshes.
    queued = {job for job, status in restored.jobs.items() if status == "queued"} | {new}
    claimed: list[int] = []
    for _ in range(len(queued)):
        conn.execute(
            "select set_config('rowlock.floors', jsonb_set(nullif("
            "current_setting('rowlock.floors', true), '')::jsonb, '{next}', '0')::text, false)"
        )
        claimed += [
            row[0] for row in conn.execute("select job_id from queue.claim('w', '{queued,new}', 1)")
        ]
    assert sorted(claimed) == sorted(queued)

    # What came since then, once each, from both cursors.
    later = {row[0] for row in conn.execute("select id from queue.job_events")} - restored.events
    assert len(later) == 1 + 3 + len(queued)
    assert follow(conn, now) == Counter(later)
    assert follow(conn, "start") == Counter(restored.events | later)
    assert conn.execute("select id from queue.list_events(max_events => 1)").fetchall() == [
        (max(later),)
    ]


def test_counters_count_each_event_once(restored: Restored) -> None:
    conn = restored.conn
    notice_by_migrate(restored)
    counters = (
        "select event, sum(events)::int from queue.rollups"
        " where grain = 'ever' group by 1 order by 1"
    )
    assert conn.execute(counters).fetchall() == restored.counted
    conn.execute("select queue.enqueue('new')")
    conn.execute("select queue.roll_up()")
    counted: dict[str, int] = dict(conn.execute(counters).fetchall())
    assert counted["enqueued"] == dict(restored.counted)["enqueued"] + 1
    assert not one(conn, "select queue._has_uncounted_events()")


def test_a_writer_that_is_open_meanwhile_is_not_taken_for_the_dump(restored: Restored) -> None:
    """Its events have ids of before, and transaction ids of this cluster: adoption waits a moment,
    says so, and comes again."""
    with restored.database.connect() as writer:
        writer.execute("begin")
        writer.execute("select queue.enqueue('open')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            restored.conn.execute("select queue._adopt_cluster()")
        restored.conn.execute("update queue.steps set due_at = clock_timestamp()")
        while one(restored.conn, "select more from queue.tick()"):
            pass
        assert one(restored.conn, "select failures from queue.steps where step = 'roll_up'") == 1
        assert one(restored.conn, "select failures from queue.steps where step = 'reap'") == 0
        writer.execute("commit")
    assert one(restored.conn, "select queue._adopt_cluster()") is True
    assert len(follow(restored.conn, "start")) == len(restored.events) + 1
