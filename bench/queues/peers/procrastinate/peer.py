"""Procrastinate: a worker fetches one job at a time, and finishes up to 30 of them meanwhile
(https://procrastinate.readthedocs.io/en/stable/howto/production/concurrency.html).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from procrastinate import App, PsycopgConnector

sys.path.append(str(next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())))

from bench.queues.peers.program import Handlers, serve

URL = os.environ["BENCH_URL"]

CONCURRENCY = 30

_LEFT = """
select exists(
  select from procrastinate_jobs where id between %s and %s and status in ('todo', 'doing')
)
"""

_FAILED = """
select count(*) from procrastinate_jobs where id between %s and %s and status <> 'succeeded'
"""

_ADD_FINISHED = """
with jobs as (
  insert into procrastinate_jobs (queue_name, task_name, args, status, attempts)
  select 'default', 'nothing', '{"n": 0}', 'succeeded', 1
  from generate_series(1, %s)
  returning id
)
insert into procrastinate_events (job_id, type, at)
select id, type::procrastinate_job_event_type, now() - interval '1 hour'
from jobs, unnest(array['deferred', 'started', 'succeeded']) as type
"""

_ADD_LATER = """
insert into procrastinate_jobs (queue_name, task_name, args, priority, scheduled_at)
select 'default', 'nothing', '{"n": 0}', 100, now() + interval '1 day' + n * interval '1 ms'
from generate_series(1, %s) as n
"""

handlers = Handlers()
# A connection listens, one fetches, the others finish.
app = App(connector=PsycopgConnector(conninfo=URL, min_size=10, max_size=10))


@app.task(name="nothing")
async def nothing(n: int, pad: str = "") -> None:
    handlers.nothing(n)


@app.task(name="note")
async def note(n: int) -> None:
    handlers.note()


async def install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


class Driver:
    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self._connection = connection
        self._first: int | None = None
        self._last = 0

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        self._note([await app.tasks[handler].defer_async(**payload)])

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        self._note(await nothing.batch_defer_async(*payloads))

    def _note(self, ids: Sequence[int]) -> None:
        self._first = self._first or min(ids)
        self._last = max(ids)

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
        await self._connection.execute("vacuum (analyze) procrastinate_jobs, procrastinate_events")

    async def add_later(self, number: int) -> None:
        await self._connection.execute(_ADD_LATER, [number])
        await self._connection.execute("vacuum (analyze) procrastinate_jobs, procrastinate_events")


async def drive() -> None:
    async with app.open_async():
        await serve(Driver(await psycopg.AsyncConnection.connect(URL, autocommit=True)))


async def work() -> None:
    async with app.open_async():
        await app.run_worker_async(concurrency=CONCURRENCY)
    handlers.write_record()


asyncio.run({"install": install, "drive": drive, "work": work}[sys.argv[1]]())
