"""PgQueuer, at the settings that https://janbjorge.github.io/pgqueuer/guides/performance-tuning/
asks for: its autovacuum settings, one asyncpg connection for a worker, large batches of short jobs.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, Job, PgQueuer, Queries

sys.path.append(str(next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())))

from bench.queues.peers.program import Handlers, serve

# 10 to 200 are slower and 1,000 is not faster, nor are two or five managers in the process, as in
# its own benchmark (https://github.com/janbjorge/pgqueuer/blob/main/tools/benchmark.py).
BATCH = 500

_LEFT = """
select exists(
  select from pgqueuer where id between $1 and $2 and status in ('queued', 'picked')
)
"""

_FAILED = """
select count(*) from pgqueuer_log
where job_id between $1 and $2 and status in ('exception', 'failed', 'canceled', 'deleted')
"""

_ADD_FINISHED = """
insert into pgqueuer_log (created, job_id, status, priority, entrypoint, aggregated)
select now() - interval '1 hour', job_id, status::pgqueuer_status, 0, 'nothing', true
from
  (select nextval('pgqueuer_id_seq') as job_id from generate_series(1, $1::bigint)) as jobs,
  unnest(array['queued', 'picked', 'successful']) as status
"""

_ADD_LATER = """
insert into pgqueuer (priority, status, entrypoint, payload, execute_after)
select 100, 'queued', 'nothing', '{"n": 0}', now() + interval '1 day' + n * interval '1 ms'
from generate_series(1, $1::bigint) as n
"""


async def connect() -> asyncpg.Connection:
    return await asyncpg.connect(os.environ["BENCH_URL"])


async def install() -> None:
    queries = Queries(AsyncpgDriver(await connect()))
    await queries.install()
    await queries.optimize_autovacuum()


class Driver:
    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self._queries = Queries(AsyncpgDriver(connection))
        self._first: int | None = None
        self._last = 0

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        self._note(await self._queries.enqueue(handler, json.dumps(payload).encode()))

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        self._note(
            await self._queries.enqueue(
                ["nothing"] * len(payloads),
                [json.dumps(each).encode() for each in payloads],
                [0] * len(payloads),
            )
        )

    def _note(self, ids: Sequence[int]) -> None:
        self._first = self._first or min(ids)
        self._last = max(ids)

    async def is_drained(self) -> bool:
        # What is done is deleted. The last is asked for first: it is gone when nearly all are.
        for first in (self._last, self._first):
            if await self._connection.fetchval(_LEFT, first, self._last):
                return False
        if failed := await self._connection.fetchval(_FAILED, self._first, self._last):
            raise RuntimeError(f"{failed} jobs failed")
        self._first = None
        return True

    async def add_finished(self, number: int) -> None:
        await self._connection.execute(_ADD_FINISHED, number)
        await self._connection.execute("vacuum (analyze) pgqueuer_log")

    async def add_later(self, number: int) -> None:
        await self._connection.execute(_ADD_LATER, number)
        await self._connection.execute("vacuum (analyze) pgqueuer")


async def drive() -> None:
    await serve(Driver(await connect()))


async def work() -> None:
    handlers = Handlers()
    worker = PgQueuer(AsyncpgDriver(await connect()))

    @worker.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        handlers.nothing(json.loads(job.payload)["n"])

    @worker.entrypoint("note")
    async def note(job: Job) -> None:
        handlers.note()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.shutdown.set)
    await worker.run(batch_size=BATCH)
    handlers.write_record()


uvloop.run({"install": install, "drive": drive, "work": work}[sys.argv[1]]())
