"""A database as large as the dashboard must bear: 5 M jobs and 15 M events, made by the server.

Rows are written past the functions, as the functions would have left them: eight days of work of 20
queues and 40 kinds, and the counters that `roll_up` would have made of it; beside it a database of
a thousand queues. The data directory is kept and used again, its counters moved up to now, until a
migration or a statement here has changed; `--fresh` makes it anew in any case.
"""

from __future__ import annotations

import hashlib
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
MIGRATIONS = Path(__file__).resolve().parent.parent / "db" / "migrations"

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
    """The seeded server, databases `rowlock` and `many`, with the functions as they are now."""
    folder = FOLDER / f"web-{major}-{jobs}"
    marker = folder / "seeded"
    digest = _digest()
    is_seeded = not fresh and marker.exists() and marker.read_text() == digest
    if folder.exists() and not is_seeded:
        if embedded.attach(folder) is not None:
            raise embedded.EmbeddedError(f"another process uses {folder}")
        shutil.rmtree(folder)
    server = embedded.start(folder, bindir=embedded.find_bindir(major), settings=SETTINGS)
    try:
        if not is_seeded:
            seed(server, jobs, say)
            seed_many(server, say)
            marker.write_text(digest)
        for name in ("rowlock", "many"):
            deploy.migrate(server.url_for(name))
        with psycopg.connect(server.url_for("rowlock"), autocommit=True) as conn:
            run(conn, "recent")
            conn.execute("vacuum (analyze) queue.rollups")
    except BaseException:
        server.close()
        raise
    return server


def _digest() -> str:
    """Of what makes the data."""
    made = hashlib.sha256()
    for path in [*sorted(MIGRATIONS.glob("*.sql")), *sorted(STATEMENTS.glob("*.sql"))]:
        if path.stem != "recent":
            made.update(path.read_bytes())
    return made.hexdigest()


def create(server: embedded.Server, name: str) -> Connection:
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(sql.SQL("drop database if exists {}").format(sql.Identifier(name)))
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    deploy.migrate(server.url_for(name))
    return psycopg.connect(server.url_for(name), autocommit=True)


def seed_many(server: embedded.Server, say: Say) -> None:
    """A thousand queues of a thousand jobs."""
    say("a thousand queues")
    with create(server, "many") as conn:
        indexes = take_indexes(conn, "jobs")
        run(conn, "many_queues")
        put_indexes(conn, indexes)
        conn.execute("vacuum (analyze)")
        conn.execute("checkpoint")


def seed(server: embedded.Server, jobs: int, say: Say) -> None:
    began = time.monotonic()

    def step(what: str) -> None:
        say(f"{time.monotonic() - began:5.0f} s  {what}")

    with create(server, "rowlock") as conn:
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
