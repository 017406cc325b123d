"""Where the time of a job goes: `make bench-profile [PG=15|18]`.

One server of its own, fsync on. First every transition by itself, in one session and in batches:
CPU of its backend, pages and write-ahead log for each job. Then a drain by a real worker: CPU of
each process for each job, and what the server's functions took. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg

from bench import figures
from bench.queues.rowlock import Rowlock
from bench.server import Server
from pyworker import deploy
from pyworker.client import Claim, Client, NewJob, Outcome, connect

JOBS = 50_000
ROUNDS = 7

_SETTINGS = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "top",
}

_COUNTERS = """
select
  coalesce(sum(statement.calls), 0)::bigint,
  coalesce(sum(statement.shared_blks_hit + statement.shared_blks_read), 0)::bigint,
  coalesce(sum(statement.wal_bytes), 0)::bigint
from pg_stat_statements as statement
  join pg_database as place on place.oid = statement.dbid
where place.datname = %s
"""

_FUNCTIONS = """
select funcname, calls, total_time * 1000, self_time * 1000
from pg_stat_user_functions
where schemaname = 'queue'
order by self_time desc
"""

_BACKENDS = """
select (regexp_match(application_name, '[^:]*$'))[1], array_agg(pid)
from pg_stat_activity
where datname = %s and application_name like 'rowlock:%%:%%'
group by 1
"""


Measure = Callable[[str, int, Callable[[], object]], None]
"""Runs a call on so many jobs, and keeps what it cost under its name."""


@dataclass(frozen=True)
class Cost:
    """For one job."""

    cpu: float
    pages: float
    wal: float


class Session:
    """A client's session, and what its calls cost the server."""

    def __init__(self, server: Server, name: str) -> None:
        self._admin = psycopg.connect(server.url, autocommit=True)
        self._name = name
        self.client = Client(connect(server.url_of(name), "bench"))
        self.client.conn.execute("set synchronous_commit = off")

    def counters(self) -> tuple[int, int, int]:
        row: Any = self._admin.execute(_COUNTERS, [self._name]).fetchone()
        return row[0], row[1], row[2]

    @contextmanager
    def costs(self, jobs: int, told: list[Cost]) -> Iterator[None]:
        pid = self.client.conn.info.backend_pid
        cpu, (_, pages, wal) = figures.cpu_of([pid]), self.counters()
        yield
        _, pages_after, wal_after = self.counters()
        told.append(
            Cost(
                (figures.cpu_of([pid]) - cpu) * 1000 / jobs,
                (pages_after - pages) / jobs,
                (wal_after - wal) / jobs,
            )
        )

    def close(self) -> None:
        self.client.conn.close()
        self._admin.close()


def transitions(server: Server) -> list[tuple[str, Cost]]:
    """Every call, in turns, so that a busy machine slows all alike."""
    server.create("transitions", "template_rowlock")
    session = Session(server, "transitions")
    told: dict[str, list[Cost]] = {}

    def measure(call: str, jobs: int, run: Callable[[], object]) -> None:
        with session.costs(jobs, told.setdefault(call, [])):
            run()

    try:
        # The first round is not counted: it fills the caches.
        for _ in range(ROUNDS + 1):
            _round(session.client, measure)
    finally:
        session.close()
        server.drop("transitions")
    return [(call, _median(costs[1:])) for call, costs in told.items()]


def _round(client: Client, measure: Measure) -> None:
    def enqueue() -> None:
        for _ in range(500):
            client.enqueue("bench")

    def enqueue_many() -> None:
        for _ in range(2):
            client.enqueue_many([NewJob(kind="bench")] * 1000)

    measure("enqueue", 500, enqueue)
    measure("enqueue_many, 1,000 a call", 2000, enqueue_many)
    for batch, number in ((1, 500), (100, 1000), (500, 1000)):
        _claims(client, measure, batch, number)


def _claims(
    client: Client,
    measure: Measure,
    batch: int,
    number: int,
) -> None:
    """So many jobs, claimed, renewed and ended in calls of one size."""
    held: list[Claim] = []

    def claim() -> None:
        while len(held) < number:
            held.extend(client.claim("bench", max_jobs=batch))

    def renew() -> None:
        for some in batched(held, batch):
            client.renew([each.job_id for each in some], [each.fence for each in some])

    def settle() -> None:
        for some in batched(held, batch):
            client.settle(
                Outcome(job_id=each.job_id, fence=each.fence, outcome="complete") for each in some
            )

    def complete() -> None:
        for each in held:
            client.complete(each.job_id, each.fence)

    measure(f"claim, {batch} a call", number, claim)
    measure(f"renew, {batch} a call", number, renew)
    if batch == 1:
        measure("complete", number, complete)
    else:
        measure(f"settle, {batch} a call", number, settle)


def batched(claims: Sequence[Claim], size: int) -> Iterator[Sequence[Claim]]:
    for start in range(0, len(claims), size):
        yield claims[start : start + size]


def _median(costs: Sequence[Cost]) -> Cost:
    parts = zip(*map(astuple, costs), strict=True)
    return Cost(*map(statistics.median, parts))


def drain(server: Server, report: Callable[[str, dict[str, float]], list[str]]) -> list[str]:
    """A worker's drain; `report` is given the database and the CPU of each process, ms."""
    url = server.create("drain", "template_rowlock")
    queue = Rowlock(url)
    spent: dict[str, float] = {}
    try:
        queue.enqueue_bulk(JOBS)
        server.run("select pg_stat_statements_reset()")
        with (
            psycopg.connect(server.url, autocommit=True) as admin,
            queue.worker() as worker,
        ):

            def look() -> None:
                spent["rowlock worker"] = figures.cpu_of([worker.pid])
                for name, pids in admin.execute(_BACKENDS, ["drain"]).fetchall():
                    spent[f"backend of {name}"] = figures.cpu_of(pids)

            queue.await_drained(JOBS, look)
            look()
        return report(url, spent)
    finally:
        queue.close()
        server.drop("drain")


def processes(server: Server) -> list[str]:
    def report(_: str, spent: dict[str, float]) -> list[str]:
        with psycopg.connect(server.url) as conn:
            counters: Any = conn.execute(_COUNTERS, ["drain"]).fetchone()
        return _processes(spent, counters)

    return drain(server, report)


def functions(server: Server) -> list[str]:
    """Takes a clock reading a call, so it is a drain of its own."""

    def report(url: str, _: dict[str, float]) -> list[str]:
        with psycopg.connect(url) as conn:
            return _functions(conn.execute(_FUNCTIONS).fetchall())

    server.run("alter system set track_functions = 'all'")
    server.run("select pg_reload_conf()")
    return drain(server, report)


def _processes(spent: dict[str, float], counters: Sequence[int]) -> list[str]:
    statements, pages, wal = counters
    lines = ["| a drain, for each job | CPU us |", "|---|---|"]
    for name, milliseconds in sorted(spent.items(), key=lambda each: -each[1]):
        lines.append(f"| {name} | {milliseconds * 1000 / JOBS:.1f} |")
    return [
        *lines,
        "",
        f"{statements / JOBS:.3f} statements, {pages / JOBS:.1f} pages and"
        f" {wal / JOBS:.0f} bytes of log for each job.",
    ]


def _functions(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    lines = [
        "| function | calls per 1,000 jobs | us a job | of these its own |",
        "|---|---|---|---|",
    ]
    for name, calls, total, own in rows:
        if own / JOBS >= 0.05:
            lines.append(
                f"| {name} | {calls * 1000 / JOBS:,.1f} | {total / JOBS:.1f} | {own / JOBS:.1f} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--pg", type=int, default=None, metavar="15|18")
    version = parser.parse_args().pg

    with Server(version, _SETTINGS) as server:
        server.create_template("template_rowlock", deploy.migrate)
        server.run("create extension pg_stat_statements")
        print(
            f"PostgreSQL {server.version}, {os.cpu_count()} cores ({platform.machine()}), Python"
            f" {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC,"
            f" load {os.getloadavg()[0]:.1f}\n"
        )
        print("| call, for each job | CPU us | pages | log bytes |\n|---|---|---|---|")
        for call, cost in transitions(server):
            print(f"| {call} | {cost.cpu:.1f} | {cost.pages:.1f} | {cost.wal:.0f} |")
        print("", *processes(server), "", *functions(server), sep="\n")


if __name__ == "__main__":
    main()
