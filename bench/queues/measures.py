"""The work that is measured, the same for every queue."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import psycopg

from bench.figures import percentile
from bench.queues.contract import NotDoneOnceError, Queue
from bench.server import Server

Figure = float | dict[str, float]

WHAT = {
    "A": "enqueue one by one, jobs/s",
    "B": "bulk enqueue over one connection, jobs/s",
    "C": "drain by one worker process, jobs/s",
    "D": "pick-up, commit to handler's start, ms",
    "E": "C after jobs passed under a held snapshot, times clean",
    "F": "C with finished jobs there, times clean",
    "G": "claim with jobs due later at top priority, times clean",
    "H": "statements a minute of an idle worker",
}


@dataclass(frozen=True)
class Sizes:
    """How much of each; seconds for what waits."""

    singles: int = 2_000
    bulk: int = 50_000
    pickups: int = 300
    passed: int = 100_000
    finished: int = 1_000_000
    later: int = 1_000_000
    claims: int = 200
    settling: float = 45.0
    idle: float = 60.0

    def scaled(self, factor: float) -> Self:
        return replace(
            self,
            **{
                each.name: type(value)(max(value * factor, least))
                for each in fields(self)
                for value in [getattr(self, each.name)]
                for least in [100 if value > 1000 else 10 if isinstance(value, int) else 1]
            },
        )


class Measures:
    """One queue on one server. Every measure has a database of its own, or several."""

    def __init__(self, queue: type[Queue], server: Server, sizes: Sizes, turns: int) -> None:
        self._queue = queue
        self._server = server
        self._sizes = sizes
        self._turns = turns
        self._template = f"{queue.name}_template"
        server.create_template(self._template, queue.install)

    def measure(self, name: str) -> Figure:
        """One round of a measure, but for H."""
        calls: dict[str, Callable[[], Figure]] = {
            "A": self._enqueue_singly,
            "B": self._enqueue_in_bulk,
            "C": self._drain_clean,
            "D": self._pick_up,
            "E": self._drain_after_snapshot,
            "F": self._drain_beside_finished,
            "G": self._claim_beside_later,
        }
        return calls[name]()

    @contextlib.contextmanager
    def _fresh(self) -> Iterator[tuple[Queue, str]]:
        name = f"{self._queue.name}_{random.randrange(10**9)}"
        url = self._server.create(name, self._template)
        self._server.checkpoint()
        queue = self._queue(url)
        try:
            yield queue, url
        finally:
            queue.close()
            self._server.drop(name)

    # -- enqueue

    def _enqueue_singly(self) -> float:
        with self._fresh() as (queue, _):
            queue.enqueue()
            return _rate(self._sizes.singles, lambda: _repeat(queue.enqueue, self._sizes.singles))

    def _enqueue_in_bulk(self) -> float:
        with self._fresh() as (queue, _):
            return _rate(self._sizes.bulk, lambda: queue.enqueue_bulk(self._sizes.bulk))

    # -- drain

    def _drain_clean(self) -> float:
        with self._fresh() as (queue, _):
            return self._drain(queue, self._sizes.bulk)

    def _drain(self, queue: Queue, number: int) -> float:
        """Jobs a second of a worker process started when the jobs are there."""
        queue.enqueue_bulk(number)
        with queue.worker():
            return number / queue.await_drained(number)

    def _times_clean(self, queue: Queue) -> float:
        """C there, as a ratio to C in a fresh database: in turns, of half the jobs."""
        number = self._sizes.bulk // 2
        clean, there = [], []
        for _ in range(self._turns):
            with self._fresh() as (other, _):
                clean.append(self._drain(other, number))
            there.append(self._drain(queue, number))
        return statistics.median(there) / statistics.median(clean)

    def _drain_after_snapshot(self) -> float:
        """C after jobs passed while a snapshot was held, which is held still."""
        with self._fresh() as (queue, url), psycopg.connect(url) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("select count(*) from pg_class")
            self._drain(queue, self._sizes.passed)
            return self._times_clean(queue)

    def _drain_beside_finished(self) -> float:
        with self._fresh() as (queue, _):
            queue.add_finished(self._sizes.finished)
            return self._times_clean(queue)

    # -- latency

    def _pick_up(self) -> dict[str, float]:
        """One job at a time, after a pause, by a session that the worker knows nothing of."""
        pause = random.Random(1)
        took: list[float] = []
        reading, writing = os.pipe()
        with self._fresh() as (queue, _), queue.worker(writing):
            os.close(writing)
            with open(reading) as notes:
                # The first waits for the process to start.
                for _ in range(self._sizes.pickups + 1):
                    queue.enqueue(noted=True)
                    committed = time.monotonic_ns()
                    line = notes.readline()
                    if not line:
                        raise NotDoneOnceError("the worker ended")
                    took.append((int(line) - committed) / 1e6)
                    time.sleep(pause.uniform(0.02, 0.1))
        del took[0]
        return {f"p{part}": percentile(took, part / 100) for part in (50, 95, 99)}

    def _claim_beside_later(self) -> float:
        """Claims take turns with those of a clean table: a busy machine slows both."""
        with self._fresh() as (clean, _), self._fresh() as (queue, _):
            for each in (clean, queue):
                each.enqueue()
                each.time_claim()
            queue.add_later(self._sizes.later)
            for each in (clean, queue):
                each.enqueue_bulk(self._sizes.claims)
            took = [(queue.time_claim(), clean.time_claim()) for _ in range(self._sizes.claims)]
            return statistics.median(one for one, _ in took) / statistics.median(
                one for _, one in took
            )


def count_idle_statements(queue: type[Queue], version: int | None, sizes: Sizes) -> float:
    """A minute, of a worker at rest, on a server of its own that counts statements."""
    counting = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}
    with Server(version, counting | {"pg_stat_statements.track": "top"}) as server:
        server.run("create extension pg_stat_statements")
        server.create_template("idle", queue.install)
        idle = queue(server.create("idle_worker", "idle"))
        try:
            with idle.worker():
                # A job that passes shows that the worker is there.
                idle.enqueue_bulk(1)
                idle.await_drained(1)
                time.sleep(sizes.settling)
                before = _statements(server)
                time.sleep(sizes.idle)
                return (_statements(server) - before) * 60 / sizes.idle
        finally:
            idle.close()


def _statements(server: Server) -> int:
    row: Any = server.run(
        "select coalesce(sum(calls), 0)::bigint from pg_stat_statements"
        " join pg_database on pg_database.oid = dbid where datname = 'idle_worker'"
    )
    return int(row[0])


def _rate(number: int, call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return number / (time.perf_counter() - began)


def _repeat(call: Callable[[], object], number: int) -> None:
    for _ in range(number):
        call()
