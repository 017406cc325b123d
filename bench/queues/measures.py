"""The work that is measured, the same for every queue."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Protocol, Self

import psycopg

from bench.figures import memory_of
from bench.queues.contract import Contender, NotDoneOnceError, PartlyDoneError, Queue, patience
from bench.queues.rowlock import Rowlock
from bench.server import Server

Figure = float | dict[str, float]

WHAT = {
    "A": "enqueue one by one, jobs/s",
    "B": "bulk enqueue over one connection, jobs/s",
    "C": "drain by one worker process, jobs/s",
    "D": "pick-up, commit to handler's start, ms",
    "E": "C after jobs passed under a held snapshot, times clean",
    "F": "C with 1 M finished jobs there, times clean",
    "G": "claim with 1 M jobs due later at top priority, times clean",
    "H": "statements a minute of an idle worker",
    "I": "drain by four worker processes, jobs/s",
    "J": "memory of a worker after so many jobs, MB",
    "K": "C with payloads of that size, jobs/s",
}


@dataclass(frozen=True)
class Sizes:
    """How much of each; seconds for what waits."""

    singles: int = 2_000
    bulk: int = 50_000
    pickups: int = 300
    passed: int = 100_000
    passed_long: int = 1_000_000
    finished: int = 1_000_000
    later: int = 1_000_000
    claims: int = 200
    large: int = 10_000
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


class Store(Protocol):
    """A server on which every measure gets databases of its own."""

    def create_template(self, name: str, install: Callable[[str], object]) -> None: ...
    def create(self, name: str, template: str) -> str: ...
    def drop(self, name: str) -> None: ...
    def checkpoint(self) -> None: ...


class Measures:
    """One queue on one server. Every measure has a database of its own, or several."""

    def __init__(self, contender: Contender, server: Store, sizes: Sizes, turns: int) -> None:
        self._contender = contender
        self._server = server
        self._sizes = sizes
        self._turns = turns
        self._number = min(sizes.bulk, int(contender.drains * sizes.bulk / Sizes.bulk) or 1)
        self._bulk_rate: float | None = None
        self._template = f"{contender.name}_template"
        server.create_template(self._template, contender.install)

    def measure(self, name: str) -> Figure | list[float]:
        """One round of a measure, but for H. A list is told together with other rounds'."""
        calls: dict[str, Callable[[], Figure | list[float]]] = {
            "A": self._enqueue_singly,
            "B": self._enqueue_in_bulk,
            "C": self._drain_clean,
            "D": self._pick_up,
            "E": self._drain_after_snapshot,
            "F": self._drain_beside_finished,
            "G": self._claim_beside_later,
            "I": self._drain_by_four,
            "J": self._worker_memory,
            "K": self._drain_large,
        }
        return calls[name]()

    @contextlib.contextmanager
    def _fresh(self) -> Iterator[tuple[Queue, str]]:
        name = f"{self._contender.name}_{random.randrange(10**9)}"
        url = self._server.create(name, self._template)
        try:
            self._server.checkpoint()
            queue = self._contender.open(url)
            try:
                yield queue, url
            finally:
                queue.close()
        finally:
            self._server.drop(name)

    # -- enqueue

    def _enqueue_singly(self) -> float:
        with self._fresh() as (queue, _):
            queue.enqueue()
            return self._sizes.singles / queue.enqueue_singly(self._sizes.singles)

    def _enqueue_in_bulk(self) -> float:
        """Once more only where the drain of this round was of fewer."""
        rate, self._bulk_rate = self._bulk_rate, None
        if rate is not None:
            return rate
        with self._fresh() as (queue, _):
            return self._sizes.bulk / queue.enqueue_bulk(self._sizes.bulk)

    # -- drain

    def _drain_clean(self) -> float:
        with self._fresh() as (queue, _):
            took = queue.enqueue_bulk(self._number)
            if self._number == self._sizes.bulk:
                self._bulk_rate = self._number / took
            return self._work_off(queue, self._number)

    def _drain_by_four(self) -> float:
        """Four times the jobs, since the first process is at work before the last is up."""
        with self._fresh() as (queue, _):
            return self._drain(queue, 4 * self._number, workers=4)

    def _drain_large(self) -> dict[str, float]:
        told: dict[str, float] = {}
        large = min(self._number, self._sizes.large)
        for name, size, number in (("1kB", 1_000, self._number), ("100kB", 100_000, large)):
            with self._fresh() as (queue, _):
                told[name] = self._drain(queue, number, size=size)
        return told

    def _drain(self, queue: Queue, number: int, *, size: int = 0, workers: int = 1) -> float:
        queue.enqueue_bulk(number, size)
        return self._work_off(queue, number, workers)

    def _work_off(self, queue: Queue, number: int, workers: int = 1) -> float:
        """Jobs a second from the first handler's start to the last job's end.

        The worker processes are started when the jobs are there.
        """
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.ExitStack() as stack:
                working = [
                    stack.enter_context(queue.worker(record=Path(folder))) for _ in range(workers)
                ]
                ended = queue.await_drained(number, patience(*working))
            began = read_records(Path(folder), [number])
        return number / (ended - began) * 1e9

    def _pass(self, queue: Queue, number: int, look: Callable[[], object]) -> list[int]:
        """Jobs come and go, as many at a time as are drained elsewhere; how many each time."""
        parts: list[int] = []
        while (left := number - sum(parts)) > 0:
            parts.append(min(self._number, left))
            queue.enqueue_bulk(parts[-1])
            queue.await_drained(parts[-1], look)
        return parts

    def _times_clean(self, queue: Queue) -> float:
        """C there, as a ratio to C in a fresh database: the median of turns, of half the jobs.

        Each turn is a ratio, since the machine's pace changes less within one than between them.
        """
        number = max(self._number // 2, 1)
        ratios: list[float] = []
        for _ in range(self._turns):
            with self._fresh() as (other, _):
                clean = self._drain(other, number)
            ratios.append(self._drain(queue, number) / clean)
        return statistics.median(ratios)

    def _drain_after_snapshot(self) -> dict[str, float]:
        """C after jobs passed while a snapshot was held, which is held still."""
        goals = {"100k": self._sizes.passed, "1M": self._sizes.passed_long}
        if self._contender.drains < Sizes.bulk:
            del goals["1M"]
        told: dict[str, float] = {}
        passed = 0
        with self._fresh() as (queue, url), psycopg.connect(url) as reader:
            reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            reader.execute("select count(*) from pg_class")
            for name, goal in goals.items():
                if not goal:
                    continue
                try:
                    self._pass_recorded(queue, goal - passed)
                    told[name] = self._times_clean(queue)
                except NotDoneOnceError as exc:
                    if not told:
                        raise
                    raise PartlyDoneError(told, f"{name}: {exc}") from exc
                passed = goal + self._turns * (self._number // 2)
        return told

    def _pass_recorded(self, queue: Queue, number: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with queue.worker(record=Path(folder)) as worker:
                parts = self._pass(queue, number, patience(worker, seconds=900))
            read_records(Path(folder), parts)

    def _drain_beside_finished(self) -> float:
        with self._fresh() as (queue, _):
            queue.add_finished(self._sizes.finished)
            return self._times_clean(queue)

    # -- latency

    @contextlib.contextmanager
    def _picking_up(self, queue: Queue) -> Iterator[Callable[[], float]]:
        """A worker, and a call that enqueues a job: the milliseconds until it is begun."""
        reading, writing = os.pipe()
        with open(reading) as notes, tempfile.TemporaryDirectory() as folder:
            with queue.worker(writing, Path(folder)) as worker:
                os.close(writing)

                def pick_up() -> float:
                    committed = queue.enqueue(noted=True)
                    look = patience(worker, seconds=60)
                    while not select.select([notes], [], [], 0.5)[0]:
                        look()
                    return (int(notes.readline()) - committed) / 1e6

                pick_up()  # waits for the process to start
                yield pick_up
            if select.select([notes], [], [], 0)[0] and notes.read(1):
                raise NotDoneOnceError("a job was begun once too often")

    def _pick_up(self) -> list[float]:
        """One job at a time, after a pause, by a session that the worker knows nothing of."""
        pause = random.Random(1)
        took: list[float] = []
        with self._fresh() as (queue, _), self._picking_up(queue) as pick_up:
            for _ in range(self._sizes.pickups):
                took.append(pick_up())
                time.sleep(pause.uniform(0.02, 0.1))
        return took

    def _claim_beside_later(self) -> float:
        """Claims take turns with those of a clean table: a busy machine slows both.

        Of a queue that has no such call it is a pick-up.
        """
        with (
            self._fresh() as (clean, _),
            self._fresh() as (queue, _),
            contextlib.ExitStack() as stack,
        ):
            claim, claim_clean = (
                each.time_claim
                if isinstance(each, Rowlock)
                else stack.enter_context(self._picking_up(each))
                for each in (queue, clean)
            )
            claim()
            claim_clean()
            queue.add_later(self._sizes.later)
            took = [(claim(), claim_clean()) for _ in range(self._sizes.claims)]
            return statistics.median(there for there, _ in took) / statistics.median(
                clear for _, clear in took
            )

    # -- memory

    def _worker_memory(self) -> dict[str, float]:
        """Of one process that does all, resident; at the end also with its part of what is shared.

        At the start a job has passed, so that all is loaded.
        """
        goals = {
            "start": 1,
            "100k": self._sizes.passed,
            "500k": self._sizes.passed_long // 2,
            "1M": self._sizes.passed_long,
        }
        told: dict[str, float] = {}
        passed = 0
        with self._fresh() as (queue, _), queue.worker() as worker:
            look = patience(worker, seconds=900)
            for name, goal in goals.items():
                self._pass(queue, goal - passed, look)
                passed = goal
                told[name] = memory_of(worker.pid, "Rss")
            told["1M PSS"] = memory_of(worker.pid, "Pss")
        return told


def read_records(folder: Path, numbers: Sequence[int]) -> int:
    """When the first handler began, in nanoseconds; NotDoneOnceError unless each n was done once.

    `numbers` has the jobs of each call that enqueued some.
    """
    records = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    told = [each for each in records if each["done"]]
    done = Counter(n for each in told for n in each["done"])
    missing = Counter(n for number in numbers for n in range(number))
    again = done - missing
    missing -= done
    if missing or again:
        raise NotDoneOnceError(
            f"by the handlers' records {missing.total()} jobs were not done,"
            f" {again.total()} done once too often"
        )
    return int(min(each["began"] for each in told))


def count_idle_statements(contender: Contender, version: int | None, sizes: Sizes) -> float:
    """A minute, of a worker at rest, on a server of its own that counts statements."""
    counting = {"shared_preload_libraries": "pg_stat_statements", "autovacuum": "off"}
    with Server(version, counting | {"pg_stat_statements.track": "top"}) as server:
        server.run("create extension pg_stat_statements")
        server.create_template("idle", contender.install)
        idle = contender.open(server.create("idle_worker", "idle"))
        try:
            with (
                tempfile.TemporaryDirectory() as folder,
                idle.worker(record=Path(folder)) as worker,
            ):
                # A job that passes shows that the worker is there.
                idle.enqueue_bulk(1)
                idle.await_drained(1, patience(worker))
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
