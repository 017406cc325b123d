"""Chancy: jobs run in the worker's event loop, many at a time, which is the cheapest of its
executors (https://tkte.ch/chancy/chancy.executors.asyncex.html); it polls again as soon as jobs
are done (`eager_polling`, https://tkte.ch/chancy/chancy.html).
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from chancy import Chancy, Job, Queue, Worker
from chancy.plugins.leadership import Leadership
from chancy.plugins.pruner import Pruner
from chancy.plugins.recovery import Recovery

sys.path.append(str(next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())))

from bench.queues.peers.program import Handlers, serve

URL = os.environ["BENCH_URL"]

QUEUE = Queue(
    "default",
    executor=Chancy.Executor.Async,
    concurrency=1_000,
    eager_polling=True,
)

# Outcomes are written in batches, once a second by default (`Worker._maintain_updates`).
OUTCOMES_EVERY = 0.1

_LEFT = """
select exists(
  select from chancy_jobs
  where id between %s and %s and state in ('pending', 'running', 'retrying')
)
"""

_FAILED = "select count(*) from chancy_jobs where id between %s and %s and state <> 'succeeded'"

_ADD_FINISHED = """
insert into chancy_jobs
  (id, queue, func, kwargs, state, attempts, created_at, scheduled_at, started_at, completed_at)
select
  gen_random_uuid(), 'default', '__main__.nothing', '{"n": 0}', 'succeeded', 1, at, at, at, at
from generate_series(1, %s), (select now() - interval '1 hour' as at) as times
"""

_ADD_LATER = """
insert into chancy_jobs (id, queue, func, kwargs, priority, scheduled_at)
select
  gen_random_uuid(),
  'default',
  '__main__.nothing',
  '{"n": 0}',
  100,
  now() + interval '1 day' + n * interval '1 ms'
from generate_series(1, %s) as n
"""

handlers = Handlers()
log = logging.getLogger("bench")
# Not its metrics and workflows, which look at every job too: what makes a queue safe, no more.
chancy = Chancy(URL, log=log, no_default_plugins=True, plugins=[Leadership(), Pruner(), Recovery()])


async def nothing(*, n: int, pad: str = "") -> None:
    handlers.nothing(n)


async def note(*, n: int) -> None:
    handlers.note()


HANDLERS = {"nothing": nothing, "note": note}


async def install() -> None:
    async with chancy:
        await chancy.migrate()
        await chancy.declare(QUEUE)


class Driver:
    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._first: UUID | None = None
        self._last: UUID | None = None

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        self._note((await chancy.push(Job.from_func(HANDLERS[handler], kwargs=payload))).identifier)

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        jobs = [Job.from_func(nothing, kwargs=each) for each in payloads]
        async for batch in chancy.push_many(jobs):
            for reference in batch:
                self._note(reference.identifier)

    def _note(self, job: UUID) -> None:
        # They begin with the time.
        self._first = self._first or job
        self._last = job

    async def is_drained(self) -> bool:
        # The last is asked for first: it is done when nearly all are.
        for first in (self._last, self._first):
            if await self._fetch(_LEFT, first, self._last):
                return False
        if failed := await self._fetch(_FAILED, self._first, self._last):
            raise RuntimeError(f"{failed} jobs failed")
        self._first = None
        return True

    async def _fetch(self, query: str, *arguments: Any) -> Any:
        row = await (await self._connection.execute(query, arguments)).fetchone()
        return row[0]

    async def add_finished(self, number: int) -> None:
        await self._connection.execute(_ADD_FINISHED, [number])
        await self._connection.execute("vacuum (analyze) chancy_jobs")

    async def add_later(self, number: int) -> None:
        await self._connection.execute(_ADD_LATER, [number])
        await self._connection.execute("vacuum (analyze) chancy_jobs")


async def drive() -> None:
    async with chancy:
        await serve(Driver(await psycopg.AsyncConnection.connect(URL, autocommit=True)))


async def work() -> None:
    async with chancy:
        worker = Worker(chancy)
        worker.send_outgoing_interval = OUTCOMES_EVERY
        async with worker:
            await worker.wait_for_shutdown()
    handlers.write_record()


asyncio.run({"install": install, "drive": drive, "work": work}[sys.argv[1]]())
