"""The peers: a folder each with what is pinned and the one program that uses it (`peer.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kind:
    """What the bench must know of a peer; its name is its folder's, with hyphens."""

    language: Literal["node", "python"]
    needs: Literal["postgresql", "redis"]
    settings: str
    """In a line, for one process on 2 cores."""
    documented: str
    """Where its documentation asks for them."""
    drains: int = 50_000
    besides: str = ""
    """Which of E to K it can, with FULL=1: J it cannot, its worker keeps a list of what it did."""


KINDS = {
    "graphile_worker": Kind(
        "node",
        "postgresql",
        "24 jobs at once, a local queue of 500, completions batched",
        "https://worker.graphile.org/docs/performance",
        besides="EGHIK",
    ),
    "pg_boss": Kind(
        "node",
        "postgresql",
        "two workers with batches of 1,000, no pause after a full one, woken by LISTEN",
        "https://github.com/timgit/pg-boss/blob/12.37.0/docs/api/workers.md",
        besides="EFGHIK",
    ),
    "bullmq": Kind(
        "node",
        "redis",
        "100 jobs at once, removed when done",
        "https://docs.bullmq.io/guide/parallelism-and-concurrency",
        besides="GIK",
    ),
    "pgqueuer": Kind(
        "python",
        "postgresql",
        "asyncpg, uvloop, batches of 500, its autovacuum settings",
        "https://janbjorge.github.io/pgqueuer/guides/performance-tuning/",
        besides="EFGHIK",
    ),
    "procrastinate": Kind(
        "python",
        "postgresql",
        "30 jobs at once, in an event loop",
        "https://procrastinate.readthedocs.io/en/stable/howto/production/concurrency.html",
        drains=5_000,
        besides="EFGHIK",
    ),
    "chancy": Kind(
        "python",
        "postgresql",
        "1,000 jobs at once, in an event loop, eager polling, no metrics and workflows",
        "https://tkte.ch/chancy/chancy.executors.asyncex.html",
        besides="EFGHIK",
    ),
    "celery": Kind(
        "python",
        "redis",
        "the solo pool, 128 fetched ahead, acknowledged when done, no results",
        "https://docs.celeryq.dev/en/stable/userguide/optimizing.html",
        drains=5_000,
        besides="IK",
    ),
    "dramatiq": Kind(
        "python",
        "redis",
        "one process of 16 threads, 1,000 fetched ahead, a look every 10 ms",
        "https://dramatiq.io/guide.html#workers",
        besides="IK",
    ),
}
