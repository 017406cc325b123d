"""A database as large as the dashboard must bear: 5 M jobs and 15 M events, made by the server.

Rows are written past the functions, as the functions would have left them: eight days of work of 20
queues and 40 kinds, and the counters that `roll_up` would have made of it. The data directory is
kept and used again; hours later the charts end with nothing, and `--fresh` makes it anew.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from pyworker import deploy, embedded

Say = Callable[[str], None]
Connection = psycopg.Connection[tuple[Any, ...]]

FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "bench"
STATEMENTS = Path(__file__).resolve().parent / "seed"

CHUNK = 100_000
"""Jobs whose events are written in one go, in the order of their time."""

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "shared_buffers": "1GB",
    "autovacuum": "off",
    "timezone": "UTC",
}
"""Nothing here is to survive a crash; and nobody vacuums while reads are measured."""


def start(major: int, jobs: int, fresh: bool, say: Say) -> embedded.Server:
    """The seeded server, database `rowlock`, deployed anew with the functions as they are now."""
    folder = FOLDER / f"web-{major}-{jobs}"
    marker = folder / "seeded"
    if folder.exists() and (fresh or not marker.exists()):
        if embedded.attach(folder) is not None:
            raise embedded.EmbeddedError(f"another process uses {folder}")
        shutil.rmtree(folder)
    server = embedded.start(folder, bindir=embedded.find_bindir(major), settings=SETTINGS)
    try:
        if not marker.exists():
            seed(server, jobs, say)
            marker.touch()
        deploy.migrate(server.url_for("rowlock"))
    except BaseException:
        server.close()
        raise
    return server


def seed(server: embedded.Server, jobs: int, say: Say) -> None:
    began = time.monotonic()

    def step(what: str) -> None:
        say(f"{time.monotonic() - began:5.0f} s  {what}")

    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute("drop database if exists rowlock")
        conn.execute("create database rowlock")
    deploy.migrate(server.url_for("rowlock"))

    with psycopg.connect(server.url_for("rowlock"), autocommit=True) as conn:
        conn.execute("set work_mem = '256MB'")
        conn.execute("set maintenance_work_mem = '1GB'")
        conn.execute("select setseed(0.5)")
        put(conn, "jobs", jobs)
        run(conn, "places")

        step("transaction ids")
        conn.execute("select set_config('seed.xid', pg_current_xact_id()::text, false)")
        run(conn, "burn")

        step("jobs")
        indexes = take_indexes(conn, "jobs")
        run(conn, "jobs")
        step("indexes of jobs")
        put_indexes(conn, indexes)
        run(conn, "large_jobs")

        step("events")
        indexes = take_indexes(conn, "job_events")
        run(conn, "event_days")
        for first in range(1, jobs + 1, CHUNK):
            put(conn, "first", first)
            put(conn, "last", first + CHUNK - 1)
            run(conn, "events")
        step("indexes of events")
        put_indexes(conn, indexes)

        step("vacuum")
        conn.execute("vacuum (analyze) queue.jobs")
        conn.execute("vacuum (analyze) queue.job_events")

        step("counters")
        run(conn, "counters")
        conn.execute("vacuum (analyze) queue.rollups")
        conn.execute(
            "update queue.steps set finished_at = clock_timestamp(),"
            " due_at = clock_timestamp() + interval '1 year', processed = 0"
        )
        conn.execute("checkpoint")
        step("seeded")


def run(conn: Connection, name: str) -> None:
    """bench/seed/<name>.sql"""
    conn.execute((STATEMENTS / f"{name}.sql").read_bytes())


def put(conn: Connection, name: str, value: int) -> None:
    """A value that the statements read as seed.<name>."""
    conn.execute("select set_config('seed.' || %s, %s, false)", [name, str(value)])


def take_indexes(conn: Connection, table: str) -> list[str]:
    """Drops what would slow down the writing; returns how to make it again."""
    found = conn.execute(
        """
        select class.relname, replace(pg_get_indexdef(class.oid), ' ON ONLY ', ' ON ')
        from pg_index as index
          join pg_class as class on class.oid = index.indexrelid
        where index.indrelid = ('queue.' || %s)::regclass
          and not index.indisprimary
        """,
        [table],
    ).fetchall()
    for name, _ in found:
        conn.execute(sql.SQL("drop index queue.{}").format(sql.Identifier(name)))
    return [definition for _, definition in found]


def put_indexes(conn: Connection, definitions: list[str]) -> None:
    for definition in definitions:
        conn.execute(definition.encode())
