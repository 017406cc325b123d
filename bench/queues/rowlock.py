"""Rowlock, as an application uses it: its client, and `rowlock worker`."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, ClassVar

from bench import claim
from bench.queues import process
from bench.queues.contract import NotDoneOnceError
from pyworker import deploy
from pyworker.client import MAX_BATCH, Client, Limits, NewJob, connect

SLOTS = 1000
"""Many are cheap: a claim takes as many jobs as there are free slots, a thousand at most."""

PATIENCE = 300.0
"""Seconds after which a drain has failed."""

_LIMITS = Limits(statement_timeout=timedelta(minutes=5))

_JOBS = """
select count(*), count(*) filter (where status = 'succeeded' and attempt = 1)
from queue.jobs where id between %s and %s
"""

_EVENTS = """
select
  count(*),
  count(distinct job_id) filter (where event = 'claimed'),
  count(distinct job_id) filter (where event = 'succeeded'),
  extract(epoch from max(at) filter (where event = 'succeeded')
    - min(at) filter (where event = 'claimed'))::float
from queue.job_events where job_id between %s and %s
"""


class Rowlock:
    name: ClassVar[str] = "rowlock"

    def __init__(self, url: str) -> None:
        self._url = url
        self._conn = connect(url, "bench", limits=_LIMITS)
        self._client = Client(self._conn)
        self._claimer = Client(connect(url, "bench-claims"))
        self._first, self._last = 0, 0

    @staticmethod
    def install(url: str) -> None:
        deploy.migrate(url)

    def enqueue(self, *, noted: bool = False) -> None:
        self._client.enqueue("bench.note" if noted else "bench.nothing")

    def enqueue_bulk(self, number: int) -> None:
        made = [
            each.job_id
            for start in range(0, number, MAX_BATCH)
            for each in self._client.enqueue_many(
                [NewJob(kind="bench.nothing")] * min(MAX_BATCH, number - start)
            )
        ]
        self._first, self._last = min(made), max(made)

    def worker(self, notes: int | None = None) -> AbstractContextManager[Any]:
        command = [sys.executable, "-m", "pyworker.cli", "worker"]
        return process.running(
            [*command, "--app", "bench.queues.app:app", "--threads", str(SLOTS)],
            {"ROWLOCK_DATABASE_URL": self._url, "ROWLOCK_BENCH_NOTES": str(notes or -1)},
            [] if notes is None else [notes],
        )

    def await_drained(self, number: int) -> float:
        span = (self._first, self._last)
        until = time.monotonic() + PATIENCE
        # The last to be claimed is asked for first: waiting costs the server next to nothing.
        while not self._is_done(self._last) or self._ended(span)[1] < number:
            if time.monotonic() > until:
                raise NotDoneOnceError(
                    f"{self._ended(span)[1]} of {number} jobs in {PATIENCE:.0f} s"
                )
            time.sleep(0.05)

        jobs, done = self._ended(span)
        row = self._conn.execute(_EVENTS, span).fetchone()
        assert row is not None
        events, claimed, succeeded, seconds = row
        # Each was enqueued, claimed and completed, and there is no event besides.
        told = (jobs, done, claimed, succeeded, events)
        if told != (number, number, number, number, 3 * number):
            raise NotDoneOnceError(
                f"of {number} jobs {jobs} are there, {done} succeeded at the first attempt;"
                f" {claimed} were claimed, {succeeded} completed, in {events} events"
            )
        return float(seconds)

    def _is_done(self, job_id: int) -> bool:
        row = self._conn.execute(
            "select finished_at is not null from queue.jobs where id = %s", [job_id]
        ).fetchone()
        return row is not None and bool(row[0])

    def _ended(self, span: tuple[int, int]) -> tuple[int, int]:
        row = self._conn.execute(_JOBS, span).fetchone()
        assert row is not None
        return row[0], row[1]

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
        began = time.perf_counter()
        (found,) = self._claimer.claim("bench")
        took = (time.perf_counter() - began) * 1000
        self._claimer.complete(found.job_id, found.fence)
        return took

    def close(self) -> None:
        self._client.conn.close()
        self._claimer.conn.close()
