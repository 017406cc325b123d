"""Celery on Redis: tasks run in the worker's own process (`solo`: "blocking, inline, fast",
https://docs.celeryq.dev/en/stable/internals/reference/celery.concurrency.solo.html), no results,
many messages fetched ahead (https://docs.celeryq.dev/en/stable/userguide/optimizing.html).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis
from celery import Celery

sys.path.append(str(next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())))

from bench.queues.peers.program import Handlers, serve

URL = os.environ["BENCH_URL"]

handlers = Handlers()
app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    # Acknowledged when done, at the same price as before: a worker that dies loses no job.
    task_acks_late=True,
    worker_prefetch_multiplier=128,
    worker_disable_rate_limits=True,
)


@app.task(name="nothing")
def nothing(n: int, pad: str = "") -> None:
    handlers.nothing(n)


@app.task(name="note")
def note(n: int) -> None:
    handlers.note()


class Driver:
    def __init__(self) -> None:
        self._redis = redis.Redis.from_url(URL)

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        app.tasks[handler].apply_async(kwargs=payload)

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        # Faster than a group, and than the same without its pipelines
        # (https://docs.celeryq.dev/projects/kombu/en/main/reference/kombu.html, Producer.batch).
        with app.producer_or_acquire() as producer, producer.batch():
            for each in payloads:
                nothing.apply_async(kwargs=each, producer=producer)

    async def is_drained(self) -> bool:
        # For a moment a message is in neither place: taken, not yet noted as unacknowledged.
        if self._is_anything_left():
            return False
        await asyncio.sleep(0.01)
        return not self._is_anything_left()

    def _is_anything_left(self) -> bool:
        with self._redis.pipeline() as pipeline:
            return any(pipeline.llen("celery").hlen("unacked").execute())


def work() -> None:
    options = ["--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    try:
        app.worker_main(["worker", "--loglevel=WARNING", *options])
    finally:
        handlers.write_record()


match sys.argv[1]:
    case "drive":
        asyncio.run(serve(Driver()))
    case "work":
        work()
