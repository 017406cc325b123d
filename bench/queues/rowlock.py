"""Rowlock, as an application uses it: its client, and `rowlock worker`."""

from __future__ import annotations

import importlib.metadata
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench import claim
from bench.queues import process
from bench.queues.contract import Contender, NotDoneOnceError
from pyworker import deploy
from pyworker.client import MAX_BATCH, Client, Limits, NewJob, connect

SLOTS = 1000
"""Many are cheap: a claim takes as many jobs as there are free slots, a thousand at most."""

_CALL_SIZE = 8 << 20
"""Bytes of payload in one call, about."""

_LIMITS = Limits(statement_timeout=timedelta(minutes=5))

_UNDONE = """
select exists (select from queue.jobs where id between %s and %s and finished_at is null)
"""

_JOBS = """
select count(*), count(*) filter (where status = 'succeeded' and attempt = 1)
from queue.jobs where id between %s and %s
"""

_EVENTS = """
select
  count(*),
  count(distinct job_id) filter (where event = 'claimed'),
  count(distinct job_id) filter (where event = 'succeeded')
from queue.job_events where job_id between %s and %s
"""


class Rowlock:
    def __init__(self, url: str) -> None:
        self._url = url
        self._conn = connect(url, "bench", limits=_LIMITS)
        self._client = Client(self._conn)
        self._claimer = Client(connect(url, "bench-claims"))
        self._first, self._last = 0, 0

    def enqueue_singly(self, number: int) -> float:
        began = time.perf_counter()
        for each in range(number):
            self._client.enqueue("bench.nothing", {"n": each})
        return time.perf_counter() - began

    def enqueue(self, *, noted: bool = False) -> int:
        self._client.enqueue("bench.note" if noted else "bench.nothing", {"n": 0})
        return time.monotonic_ns()

    def enqueue_bulk(self, number: int, size: int = 0) -> float:
        padding = {"pad": "x" * size} if size else {}
        batch = min(MAX_BATCH, max(_CALL_SIZE // max(size, 1), 1))
        made: list[int] = []
        began = time.perf_counter()
        for start in range(0, number, batch):
            jobs = [
                NewJob(kind="bench.nothing", payload={"n": each, **padding})
                for each in range(start, min(start + batch, number))
            ]
            made += [each.job_id for each in self._client.enqueue_many(jobs)]
        took = time.perf_counter() - began
        self._first, self._last = min(made), max(made)
        return took

    def worker(
        self, notes: int | None = None, record: Path | None = None
    ) -> AbstractContextManager[Any]:
        command = [sys.executable, "-m", "pyworker.cli", "worker"]
        environment = {"ROWLOCK_DATABASE_URL": self._url, "BENCH_NOTES": str(notes or -1)}
        return process.running(
            [*command, "--app", "bench.queues.app:app", "--threads", str(SLOTS)],
            environment | ({"BENCH_RECORD": str(record)} if record else {}),
            [] if notes is None else [notes],
        )

    def await_drained(self, number: int, look: Callable[[], object]) -> int:
        span = (self._first, self._last)
        # The last to be claimed is asked for first: waiting costs the server next to nothing.
        while self._is_undone(self._last, self._last) or self._is_undone(*span):
            look()
            time.sleep(0.01)
        ended = time.monotonic_ns()

        jobs, done = self._conn.execute(_JOBS, span).fetchone() or (0, 0)
        events, claimed, succeeded = self._conn.execute(_EVENTS, span).fetchone() or (0, 0, 0)
        # Each was enqueued, claimed and completed, and there is no event besides.
        told = (jobs, done, claimed, succeeded, events)
        if told != (number, number, number, number, 3 * number):
            raise NotDoneOnceError(
                f"of {number} jobs {jobs} are there, {done} succeeded at the first attempt;"
                f" {claimed} were claimed, {succeeded} completed, in {events} events"
            )
        return ended

    def _is_undone(self, first: int, last: int) -> bool:
        row = self._conn.execute(_UNDONE, [first, last]).fetchone()
        return row is None or bool(row[0])

    def add_finished(self, number: int) -> None:
        claim.load(self._url, number, **claim.FINISHED)
        self._settle_down()

    def add_later(self, number: int) -> None:
        later = "now() + interval '1 day' + n * interval '1 ms'"
        claim.load(self._url, number, priority="9", available_at=later)
        self._settle_down()

    def _settle_down(self) -> None:
        """What autovacuum would do meanwhile, and a checkpoint: not while others are measured."""
        self._conn.execute("vacuum (analyze) queue.jobs")
        self._conn.execute("checkpoint")

    def time_claim(self) -> float:
        """Milliseconds that the claim of a job due now takes; the job is then completed."""
        self.enqueue()
        began = time.perf_counter()
        (found,) = self._claimer.claim("bench")
        took = (time.perf_counter() - began) * 1000
        self._claimer.complete(found.job_id, found.fence)
        return took

    def close(self) -> None:
        self._client.conn.close()
        self._claimer.conn.close()


ROWLOCK = Contender(
    name="rowlock",
    open=Rowlock,
    install=deploy.migrate,
    prepare=lambda: importlib.metadata.version("rowlock"),
    besides="EFGHIJK",
)
