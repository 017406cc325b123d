"""pg_cron for real, on the one server that has it: Debian's 15, with pg_cron 1.4."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cluster import Connection, Database

pytestmark = pytest.mark.requires("pg_cron")

A_MINUTE = 75
"""Seconds within which a minutely job has begun, and reaped."""


@pytest.fixture
def conn(cron_database: Database) -> Iterator[Connection]:
    with cron_database.connect() as conn:
        yield conn
        # The loop that is under way would go on for the rest of its minute.
        conn.execute("select queue.uninstall_cron()")
        while conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
            " and query like '%queue.tick_loop%'"
        ).fetchall():
            pass
        conn.execute("delete from queue.jobs")


def lose(conn: Connection, jobs: int, queue: str) -> list[int]:
    """Claims whose worker is gone, their leases run out."""
    conn.execute(
        "select queue.enqueue('k', queue => %s) from generate_series(1, %s)", [queue, jobs]
    )
    lost = [
        row[0]
        for row in conn.execute(
            "select job_id from queue.claim('gone', array[%s], %s)", [queue, jobs]
        )
    ]
    conn.execute(
        "update queue.jobs set lease_expires_at = now() - interval '1 second' where id = any (%s)",
        [lost],
    )
    return lost


def still_running(conn: Connection, jobs: list[int]) -> int:
    row = conn.execute(
        "select count(*) from queue.jobs where status = 'running' and id = any (%s)", [jobs]
    ).fetchone()
    assert row is not None
    return int(row[0])


def wait_until_reaped(conn: Connection, jobs: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while still_running(conn, jobs):
        assert time.monotonic() < deadline, "nobody reaps"
        time.sleep(0.2)


def test_cron_reaps_without_a_worker_and_doubles_nothing_beside_workers(
    conn: Connection, cron_database: Database
) -> None:
    assert conn.execute("select * from queue.install_cron()").fetchall() == [
        ("rowlock tick", "* * * * *"),
        ("rowlock clean-up", "17 3 * * *"),
    ]
    first = lose(conn, 1, "first")
    wait_until_reaped(conn, first, A_MINUTE)
    assert conn.execute(
        "select count(*) > 0 from cron.job_run_details where command = 'call queue.tick_loop(58)'"
    ).fetchone() == (True,)

    # The loop goes on within its minute, if that has some seconds left: else the next one does.
    second = lose(conn, 1, "second")
    wait_until_reaped(conn, second, 20)

    # Workers tick beside it.
    third = lose(conn, 300, "third")

    def tick() -> None:
        with cron_database.connect() as worker:
            while still_running(worker, third):
                worker.execute("select queue.tick()")

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(tick) for _ in range(4)]:
            done.result(timeout=30)
    jobs = first + second + third
    assert conn.execute(
        """select count(*), count(distinct job_id), bool_and(attempt = 1 and fence = 1)
           from queue.job_events where event = 'lease_expired' and job_id = any (%s)""",
        [jobs],
    ).fetchone() == (len(jobs), len(jobs), True)
    assert conn.execute("select step from queue.steps where failures > 0").fetchall() == []

    assert conn.execute("select queue.uninstall_cron()").fetchone() == (2,)
    assert conn.execute("select count(*) from cron.job").fetchone() == (0,)
