"""`make bench-web`: what the dashboard's reads cost with 5 M jobs and 15 M events.

Every function that a screen calls, as it calls it, N times in one session with a warm cache; then
every screen through the application; both again, a few, with a thousand queues of a thousand jobs.
Prints a table each; speed is measured here, never asserted.
CPU is the server's, the mean: what a call costs where nothing else runs.
Seeding takes some minutes and 12 GB below .cache; what is there is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

from psycopg.types.json import Jsonb

from bench import web_screens, web_seed
from bench.figures import cpu_of, percentile
from pyworker.client import Connection, Limits, connect

COUNTERS = 5.0
ROWS = 100.0
"""Milliseconds that are aimed at: where counters are read, and where rows are."""


@dataclass(frozen=True)
class Case:
    """One call. `target` in milliseconds."""

    name: str
    query: LiteralString
    values: tuple[Any, ...] = ()
    target: float = ROWS


@dataclass(frozen=True)
class Cost:
    case: Case
    milliseconds: Sequence[float]
    cpu: float
    buffers: int
    rows: int

    @property
    def line(self) -> str:
        median = percentile(self.milliseconds, 0.5)
        p95 = percentile(self.milliseconds, 0.95)
        miss = f"over {self.case.target:g}" if p95 > self.case.target else ""
        return (
            f"| {self.case.name} | {median:.1f} | {p95:.1f} | {self.cpu:.1f} |"
            f" {self.buffers:,} | {self.rows} | {miss} |"
        )


# --------------------------------------------------------------------------------------------
# The calls
# --------------------------------------------------------------------------------------------

LIST_JOBS: LiteralString = "select * from queue.list_jobs(%s, %s, %s, %s)"

ORDERS: dict[str, dict[str, Any]] = {
    "newest": {},
    "queued": {"status": "queued"},
    "queued of one queue": {"status": "queued", "queue": "billing"},
    "ready": {"label": "ready"},
    "scheduled of one queue": {"label": "scheduled", "queue": "billing"},
    "running": {"status": "running"},
    "failed": {"status": "failed"},
}

FILTERS: dict[str, dict[str, Any]] = {
    "succeeded": {"status": "succeeded"},
    "scheduled": {"label": "scheduled"},
    "retrying": {"label": "retrying"},
    "cancelled": {"status": "cancelled"},
    "kind": {"kind": "orders.notify"},
    "queue and kind, succeeded": {"status": "succeeded", "queue": "sync", "kind": "sync.notify"},
    "worker": {"status": "running", "worker": "host-3:21"},
    "the last day": {"created_after": (datetime.now(UTC) - timedelta(days=1)).isoformat()},
    "key": {"idempotency_key": "order-4800000"},
    "payload": {"payload": {"user_id": 42}},
    "payload, failed": {"status": "failed", "payload": {"order": {"currency": "EUR"}}},
    "payload, nothing": {"payload": {"user_id": "nobody"}},
    "payload, failed, nothing": {"status": "failed", "payload": {"user_id": "nobody"}},
    "payload, queued, nothing": {"status": "queued", "payload": {"user_id": "nobody"}},
    "headers, nothing": {"headers": {"traceparent": "none"}},
    "no such kind": {"kind": "nothing"},
    "no such queue": {"queue": "nothing"},
    "no such queue, queued": {"status": "queued", "queue": "nothing"},
    "100 ids": {"ids": list(range(4_000_000, 4_000_100))},
}

CHARTS: dict[str, LiteralString] = {
    "throughput": "select * from queue.throughput(%s, null, %s, %s)",
    "latency": "select * from queue.latency(%s, null, %s, %s)",
}

RANGES = {
    "15m": (timedelta(minutes=15), timedelta(minutes=1)),
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "6h": (timedelta(hours=6), timedelta(minutes=5)),
    "24h": (timedelta(hours=24), timedelta(hours=1)),
    "24h by 20 minutes": (timedelta(hours=24), timedelta(minutes=20)),
    "7d": (timedelta(days=7), timedelta(hours=3)),
}


def pages(conn: Connection) -> Iterator[Case]:
    """The first, 10th and 40th page of each order, and from there back."""
    for name, query in ORDERS.items():
        cursors: list[str | None] = [None]
        back = None
        while len(cursors) < 40:
            row = conn.execute(LIST_JOBS, [Jsonb(query), cursors[-1], 50, False]).fetchone()
            assert row is not None
            back = row[-2]
            if row[-1] is None:
                break
            cursors.append(row[-1])
        for number in (1, 10, 40):
            if number <= len(cursors):
                yield Case(
                    f"list_jobs {name}, page {number}",
                    LIST_JOBS,
                    (Jsonb(query), cursors[number - 1], 50, False),
                )
        if back is not None:
            yield Case(
                f"list_jobs {name}, back from the last", LIST_JOBS, (Jsonb(query), back, 50, True)
            )


def cases(conn: Connection) -> Iterator[Case]:
    yield from pages(conn)
    for name, query in FILTERS.items():
        yield Case(f"list_jobs {name}", LIST_JOBS, (Jsonb(query), None, 50, False))
    row = conn.execute(
        LIST_JOBS, [Jsonb({"status": "queued", "payload": {"user_id": "nobody"}}), None, 50, False]
    ).fetchone()
    if row is not None and row[-1]:
        yield Case(
            "list_jobs payload, queued, going on",
            LIST_JOBS,
            (Jsonb({"status": "queued", "payload": {"user_id": "nobody"}}), row[-1], 50, False),
        )
    yield Case("list_jobs 200 a page", LIST_JOBS, (Jsonb({}), None, 200, False))

    count: LiteralString = "select * from queue.count_jobs(%s)"
    yield Case("count_jobs", count, (Jsonb({}),), COUNTERS)
    yield Case("count_jobs failed", count, (Jsonb({"status": "failed"}),), COUNTERS)
    yield Case(
        "count_jobs queue and kind",
        count,
        (Jsonb({"queue": "sync", "kind": "sync.notify"}),),
        COUNTERS,
    )
    yield Case("count_jobs payload", count, (Jsonb({"payload": {"user_id": 42}}),))
    yield Case("count_jobs ready", count, (Jsonb({"label": "ready"}),))

    yield Case("list_queues, names", "select * from queue.list_queues(0)")
    yield Case("list_queues, to 1,000", "select * from queue.list_queues()")
    yield Case("list_queues, to 10,000", "select * from queue.list_queues(10000)")
    yield Case("list_queues, one", "select * from queue.list_queues(queues => '{billing}')")
    yield Case("stats", "select * from queue.stats()")
    yield Case("health", "select * from queue.health()")
    yield Case("capabilities", "select * from queue.capabilities()", (), COUNTERS)
    yield Case("list_workers", "select * from queue.list_workers()")
    yield Case("metrics", "select * from queue.metrics()")
    yield Case("list_kinds", "select * from queue.list_kinds()", (), COUNTERS)
    yield Case(
        "list_kinds of one queue", "select * from queue.list_kinds(%s)", ("billing",), COUNTERS
    )
    yield Case("get_settings", "select * from queue.get_settings()", (), COUNTERS)
    yield Case("get_policy", "select * from queue.get_policy('billing')", (), COUNTERS)

    for name, (back, resolution) in RANGES.items():
        for function, call in CHARTS.items():
            for queue in (None, "billing"):
                yield Case(
                    f"{function} {name}" + (" of one queue" if queue else ""),
                    call,
                    (datetime.now(UTC) - back, resolution, queue),
                    COUNTERS,
                )

    groups: LiteralString = "select * from queue.failure_groups(%s, null, %s, %s)"
    yield Case("failure_groups", groups, (None, None, 50))
    yield Case(
        "failure_groups of a day, 5", groups, (None, datetime.now(UTC) - timedelta(days=1), 5)
    )
    yield Case("failure_groups of one queue", groups, ("billing", None, 50))

    row = conn.execute(LIST_JOBS, [Jsonb({"status": "failed"}), None, 1, False]).fetchone()
    assert row is not None
    failed = row[0]
    yield Case("get_job", "select * from queue.get_job(%s)", (failed,), COUNTERS)
    yield Case("job_attempts", "select * from queue.job_attempts(%s)", (failed,), COUNTERS)
    events: LiteralString = "select * from queue.list_events(%s, %s, %s, %s)"
    yield Case("list_events of a job", events, (failed, Jsonb({}), 0, 500), COUNTERS)
    yield Case("list_events of no job", events, (1, Jsonb({}), 0, 500), COUNTERS)
    yield Case("list_events newest", events, (None, Jsonb({}), None, 100))
    yield Case("list_events deep", events, (None, Jsonb({}), 2_000_000, 100))
    yield Case("list_events failed", events, (None, Jsonb({"event": "failed"}), None, 100))
    yield Case("list_events of one queue", events, (None, Jsonb({"queue": "sync"}), None, 100))
    yield Case("list_events of a worker", events, (None, Jsonb({"worker": "host-3:21"}), None, 100))
    yield Case("list_events nothing", events, (None, Jsonb({"actor": "nobody"}), None, 100))

    read: LiteralString = "select * from queue.read_events(%s, %s)"
    row = conn.execute(read, [None, 1]).fetchone()
    assert row is not None
    yield Case("read_events, nothing new", read, (row[-1], 200), COUNTERS)
    yield Case("read_events from the start", read, ("start", 1000))
    row = conn.execute(read, ["start", 10000]).fetchone()
    assert row is not None
    yield Case("read_events behind", read, (row[-1], 1000))

    bulk: LiteralString = "select * from queue.bulk(%s, %s, true, 1000)"
    yield Case("bulk retry, dry", bulk, ("retry", Jsonb({"queue": "billing"})))
    yield Case("bulk cancel, dry", bulk, ("cancel", Jsonb({"kind": "billing.process"})))
    yield Case("bulk cancel nothing, dry", bulk, ("cancel", Jsonb({"payload": {"no": 1}})))
    yield Case("bulk discard succeeded, dry", bulk, ("discard", Jsonb({"status": "succeeded"})))


def cases_of_many(conn: Connection) -> Iterator[Case]:
    """With a thousand queues."""
    yield Case("list_queues, names of 1,000", "select * from queue.list_queues(0)")
    yield Case("list_queues, 20 of 1,000", "select * from queue.list_queues(max_queues => 20)")
    yield Case("list_queues, all 1,000", "select * from queue.list_queues()")
    yield Case("stats, 1,000 queues", "select * from queue.stats()")
    yield Case("metrics, 1,000 queues", "select * from queue.metrics()")
    yield Case("count_jobs, 1,000 queues", "select * from queue.count_jobs()", (), COUNTERS)


def measure(conn: Connection, case: Case, rounds: int) -> Cost:
    spent: list[float] = []
    rows, cpu = 0, 0.0
    for number in range(rounds + 1):
        if number == 1:
            cpu = -cpu_of([conn.info.backend_pid])
        began = time.perf_counter()
        rows = len(conn.execute(case.query, case.values).fetchall())
        taken = (time.perf_counter() - began) * 1000
        if number > 0:  # the first warms the cache
            spent.append(taken)
        if number >= 5 and sum(spent) > 5000:
            break
    cpu += cpu_of([conn.info.backend_pid])
    row = conn.execute(
        f"explain (analyze, buffers, format json) {case.query}", case.values
    ).fetchone()
    assert row is not None
    plan = json.loads(row[0])[0]["Plan"] if isinstance(row[0], str) else row[0][0]["Plan"]
    return Cost(
        case, spent, cpu / len(spent), plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], rows
    )


# --------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.web_reads", description=__doc__)
    parser.add_argument("--pg", type=int, default=18, help="major version [default: 18]")
    parser.add_argument("--jobs", type=int, default=5_000_000, help="how many [default: 5000000]")
    parser.add_argument("--rounds", type=int, default=20, help="of each call [default: 20]")
    parser.add_argument("--fresh", action="store_true", help="seed again")
    parser.add_argument("--only", default="", help="calls whose name this regular expression finds")
    parser.add_argument(
        "--parts", nargs="*", default=["reads", "screens"], help="reads, screens, or both"
    )
    parser.add_argument(
        "--serve", action="store_true", help="keep the server up, print its address"
    )
    arguments = parser.parse_args()

    with web_seed.start(arguments.pg, arguments.jobs, arguments.fresh, say) as server:
        url, many = server.url_for("rowlock"), server.url_for("many")
        if arguments.serve:
            say(url)
            while True:
                time.sleep(3600)
        say(_machine(url))
        if "reads" in arguments.parts:
            reads(url, arguments.only, arguments.rounds, cases)
            reads(many, arguments.only, arguments.rounds, cases_of_many)
        if "screens" in arguments.parts:
            for place, screens in ((url, web_screens.screens), (many, web_screens.screens_of_many)):
                web_screens.measure(place, screens, arguments.only, arguments.rounds, say)
        say(_machine(url))


def reads(url: str, only: str, rounds: int, cases: Callable[[Connection], Iterator[Case]]) -> None:
    limits = Limits(statement_timeout=timedelta(minutes=1))
    with connect(url, "bench", limits=limits) as conn:
        conn.execute("set role queue_admin")
        say("\n| call | p50 ms | p95 ms | CPU ms | pages | rows | |")
        say("|---|---|---|---|---|---|---|")
        for case in cases(conn):
            if re.search(only, case.name):
                say(measure(conn, case, rounds).line)


def _machine(url: str) -> str:
    with connect(url, "bench") as conn:
        row = conn.execute(
            "select current_setting('server_version'),"
            " pg_size_pretty(pg_database_size(current_database())),"
            " (select reltuples::bigint from pg_class where oid = 'queue.jobs'::regclass)"
        ).fetchone()
    assert row is not None
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, PostgreSQL {row[0]}, {row[2]:,} jobs, {row[1]},"
        f" {os.cpu_count()} cores, Python {platform.python_version()}, load {load}"
    )


if __name__ == "__main__":
    main()
