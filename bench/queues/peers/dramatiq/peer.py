"""Dramatiq on Redis: one process of 16 threads, twice its default
(https://dramatiq.io/guide.html#workers), that fetches a thousand messages ahead and looks for more
at least every 10 ms (https://dramatiq.io/reference.html#environment-variables).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker

sys.path.append(str(next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())))

from bench.queues.peers.program import Handlers, serve

URL = os.environ["BENCH_URL"]

THREADS = 16
SETTINGS = {"dramatiq_queue_prefetch": "1000", "dramatiq_worker_timeout": "10"}

handlers = Handlers()
broker = RedisBroker(url=URL)
dramatiq.set_broker(broker)


class Record(dramatiq.Middleware):
    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        handlers.write_record()


broker.add_middleware(Record())


@dramatiq.actor
def nothing(n: int, pad: str = "") -> None:
    handlers.nothing(n)


@dramatiq.actor
def note(n: int) -> None:
    handlers.note()


class Driver:
    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(URL)

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        broker.get_actor(handler).send(**payload)

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        # A group does the same, and slower.
        for each in payloads:
            nothing.send(**each)

    async def is_drained(self) -> bool:
        # A message stays until it is acknowledged; one that failed waits for another try, or died.
        queues = ("default", "default.DQ", "default.XQ")
        with self._redis.pipeline() as pipeline:
            for each in queues:
                pipeline.hlen(f"dramatiq:{each}.msgs")
            left, *failed = pipeline.execute()
        if any(failed):
            raise RuntimeError(f"{sum(failed)} jobs failed")
        return not left


def work() -> None:
    command = [sys.executable, "-m", "dramatiq", Path(__file__).stem]
    command += ["--path", str(Path(__file__).parent)]
    command += ["--processes", "1", "--threads", str(THREADS)]
    os.execve(command[0], command, os.environ | SETTINGS)


if __name__ == "__main__":
    match sys.argv[1]:
        case "drive":
            asyncio.run(serve(Driver()))
        case "work":
            work()
