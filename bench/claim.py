"""What a claim costs when there are millions of jobs: `make bench-claim [PG=15|18]`.

One server of its own, fsync and synchronous_commit on. Every case has a database of its own, in
which the functions' plans were cached while it was empty and nothing was ever analyzed. Claims are
measured in turn with claims of the clean case (50,000 jobs queued), so that a busy machine slows
both: the ratio is what counts. Prints a Markdown table and, as its last line, a JSON object.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import psycopg

from bench.server import Server
from pyworker import deploy

Connection = psycopg.Connection[tuple[Any, ...]]

CLAIM = "select job_id, fence from queue.claim('bench')"
NEXT_DUE = "select queue.next_due()"
COMPLETE = "select queue.complete(%s, %s)"

SAMPLES = 400
LIMIT = 12.0
"""Seconds after which a slow case has shown enough."""

PASSED = 200_000


@dataclass(frozen=True)
class Row:
    """One line of the table. Times are milliseconds as the client sees them, commit included."""

    case: str
    p50: float
    p99: float
    ratio: float
    buffers: int
    server: float
    next_due: float
    complete: float


# -- databases -------------------------------------------------------------------------------------

TEMPLATE = "template_rowlock"


def connect(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True)


def worker(url: str) -> Connection:
    """A session that has asked for work, in vain and with luck, while the table was small."""
    conn = connect(url)
    for _ in range(6):
        conn.execute("select queue.enqueue('t')")
        for token in conn.execute(CLAIM).fetchall():
            conn.execute(COMPLETE, token)
        conn.execute(CLAIM)
        conn.execute(NEXT_DUE)
    return conn


def forget_floors(conn: Connection) -> None:
    """After `load`, which dates rows as no function would: before what a session has seen."""
    conn.execute("reset rowlock.floors")


def load(url: str, number: int, **columns: str) -> None:
    """Rows as the functions would have left them; `columns` are expressions over n."""
    values = {
        "queue": "'default'",
        "kind": "'t'",
        "max_attempts": "5",
        "created_at": "now() - interval '1 hour' + n * interval '1 us'",
        "available_at": "now() - interval '1 hour' + n * interval '1 us'",
    } | columns
    with connect(url) as conn:
        conn.execute("set synchronous_commit = off")
        conn.execute(
            f"insert into queue.jobs ({', '.join(values)})"
            f" select {', '.join(values.values())} from generate_series(1, {number}) as n".encode()
        )


def pass_through(conn: Connection, number: int) -> None:
    """Jobs that come and go, by the functions themselves."""
    jobs = json.dumps([{"kind": "t"}] * 1000)
    conn.execute("set synchronous_commit = off")
    for _ in range(number // 1000):
        conn.execute("select count(*) from queue.enqueue_many(%s)", [jobs])
        conn.execute(
            """select count(*) from queue.settle((
                select json_agg(json_build_object(
                    'job_id', job_id, 'fence', fence, 'outcome', 'complete'))
                from queue.claim('bench', max_jobs => 1000)
            ))"""
        )
    conn.execute("set synchronous_commit = on")


# -- measuring -------------------------------------------------------------------------------------


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = call()
    return (time.perf_counter() - began) * 1000, answer


def explained(conn: Connection) -> tuple[int, float]:
    """Pages that a claim looks at, and its time inside the server, without commit."""
    row = conn.execute("explain (analyze, buffers, timing off, format json) " + CLAIM).fetchone()
    assert row is not None
    plan = row[0][0]
    pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    return pages, plan["Execution Time"]


def measure(case: str, conn: Connection, clean: Connection) -> Row:
    times: list[float] = []
    clean_times: list[float] = []
    dues: list[float] = []
    completes: list[float] = []
    until = time.monotonic() + LIMIT
    while len(times) < SAMPLES and (time.monotonic() < until or len(times) < 20):
        took, tokens = timed(lambda: conn.execute(CLAIM).fetchall())
        took_clean, clean_tokens = timed(lambda: clean.execute(CLAIM).fetchall())
        times.append(took)
        clean_times.append(took_clean)
        dues.append(timed(lambda: conn.execute(NEXT_DUE).fetchone())[0])
        assert tokens, f"{case}: nothing left to claim"
        completes.append(timed(partial(conn.execute, COMPLETE, tokens[0]))[0])
        clean.execute(COMPLETE, clean_tokens[0])
    inside = [explained(conn) for _ in range(11)]
    return Row(
        case=case,
        p50=statistics.median(times),
        p99=statistics.quantiles(times, n=100)[98],
        ratio=statistics.median(times) / statistics.median(clean_times),
        buffers=int(statistics.median(pages for pages, _ in inside)),
        server=statistics.median(took for _, took in inside),
        next_due=statistics.median(dues),
        complete=statistics.median(completes),
    )


FINISHED = {
    "status": "'succeeded'",
    "attempt": "1",
    "fence": "1",
    "started_at": "now() - interval '1 hour'",
    "finished_at": "now() - interval '1 hour'",
}

CASES: list[tuple[str, int, dict[str, str]]] = [
    ("1 M queued, plans cached on an empty table", 1_000_000, {}),
    (
        "1 M due later at top priority",
        1_000_000,
        {"priority": "9", "available_at": "now() + interval '1 day' + n * interval '1 ms'"},
    ),
    ("1 M finished", 1_000_000, FINISHED),
    ("3 M queued, at all priorities", 3_000_000, {"priority": "n % 10"}),
    ("1 M queued in 1,000 queues", 1_000_000, {"queue": "'q' || n % 1000"}),
]


def run(version: int | None) -> tuple[str, list[Row], float]:
    """The server's version, the table's rows, and a new session's first claim under a snapshot."""
    # Nothing was ever analyzed, and nothing is.
    bench = Server(version, {"autovacuum": "off"})
    rows: list[Row] = []

    def told(row: Row) -> Row:
        rows.append(row)
        print(f"  {row.case}: {row.p50:.2f} ms", file=sys.stderr, flush=True)
        return row

    try:
        bench.create_template(TEMPLATE, deploy.migrate)
        clean_url = bench.create("clean", TEMPLATE)
        clean = worker(clean_url)
        load(clean_url, 50_000)
        forget_floors(clean)
        told(measure("clean: 50,000 queued", worker(clean_url), clean))

        for number, (case, amount, columns) in enumerate(CASES):
            name = f"case_{number}"
            url = bench.create(name, TEMPLATE)
            conn = worker(url)
            load(url, amount, **columns)
            load(url, 2_000)
            forget_floors(conn)
            bench.checkpoint()
            told(measure(case, conn, clean))
            conn.close()
            bench.drop(name)

        url = bench.create("snapshot", TEMPLATE)
        conn, reader = worker(url), connect(url)
        reader.execute("begin isolation level repeatable read; select count(*) from queue.jobs")
        pass_through(conn, PASSED)
        load(url, 3_000, available_at="clock_timestamp()", created_at="clock_timestamp()")
        bench.checkpoint()
        told(measure(f"snapshot held over {PASSED:,} jobs, floor on", conn, clean))
        fresh = connect(url)
        first, _ = timed(lambda: fresh.execute(CLAIM).fetchall())
        conn.execute("update queue.settings set claim_floor = false")
        told(measure(f"snapshot held over {PASSED:,} jobs, floor off", conn, clean))
        conn.execute("update queue.settings set claim_floor = true")
        reader.execute("commit")
        return bench.version, rows, first
    finally:
        bench.close()


def table(rows: list[Row]) -> str:
    lines = [
        "| case | claim p50 ms | p99 ms | times clean | pages | in the server ms | next_due ms"
        " | complete ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.case} | {row.p50:.2f} | {row.p99:.2f} | {row.ratio:.2f} | {row.buffers}"
            f" | {row.server:.2f} | {row.next_due:.2f} | {row.complete:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a claim costs with millions of jobs")
    parser.add_argument("--pg", type=int, default=None, metavar="15|18")
    wanted = parser.parse_args().pg
    began = time.monotonic()
    version, rows, first = run(wanted)
    print(
        f"PostgreSQL {version}, {os.cpu_count()} cores ({platform.machine()}),"
        f" {dt.datetime.now(dt.UTC):%Y-%m-%d}, {time.monotonic() - began:.0f} s\n"
    )
    print(table(rows))
    print(f"\nA new session's first claim under the held snapshot: {first:.0f} ms\n")
    told = {"postgresql": version, "first": first, "rows": [asdict(row) for row in rows]}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
