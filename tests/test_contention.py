"""Many sessions at once, at random: no deadlock of ours, no job twice, nothing but RL errors.

Seeded: SEED=... replays the calls of each thread, though not how the threads interleave.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from tests.support.cluster import Connection, Database

THREADS = 6


@pytest.fixture
def seed() -> int:
    seed = int(os.environ.get("SEED", random.randrange(1_000_000)))
    print(f"SEED={seed}")
    return seed


def at_once(work: Callable[[int], Counter[str]]) -> Counter[str]:
    """What all threads counted."""
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(work, range(THREADS)), Counter())


# -- deadlocks -------------------------------------------------------------------------------------


class Caller:
    """One session that calls whatever it likes on few jobs and few keys."""

    def __init__(
        self, conn: Connection, seed: int, clock: Iterator[int], tokens: deque[tuple[int, int]]
    ) -> None:
        self._conn = conn
        self._clock = clock
        self._tokens = tokens  # anybody's: claims are answered by whoever comes
        self._dice = random.Random(seed)

    def step(self) -> None:
        dice = self._dice
        calls = "enqueue enqueue_many enqueue_many claim claim settle settle answer renew progress"
        calls += " operate operate bulk reap prune expire"
        getattr(self, dice.choice(calls.split()))()

    def _run(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        return self._conn.execute(query, params).fetchall()

    def _some_tokens(self) -> list[tuple[int, int]]:
        """Latest and wrong ones, in any order."""
        dice = self._dice
        latest = list(self._tokens)
        tokens = dice.sample(latest, min(len(latest), dice.randint(2, 12)))
        tokens += [(dice.randint(1, 40), dice.randint(1, 3)) for _ in range(dice.randint(1, 4))]
        dice.shuffle(tokens)
        return tokens

    def enqueue(self) -> None:
        key = self._dice.choice([None, "a", "b", "c"])
        self._run("select queue.enqueue('t', idempotency_key => %s)", key)

    def enqueue_many(self) -> None:
        # New keys all the time, and the same ones for all threads at about the same time.
        time = next(self._clock) // THREADS
        keys = [f"{time}{letter}" for letter in self._dice.sample("abcdefghijklmnop", 12)]
        jobs = [{"kind": "t", "idempotency_key": key} for key in keys]
        self._run("select queue.enqueue_many(%s)", json.dumps(jobs))

    def claim(self) -> None:
        rows = self._run(
            "select job_id, fence from queue.claim('w', max_jobs => %s)", self._dice.randint(1, 8)
        )
        self._tokens.extend((job_id, fence) for job_id, fence in rows)

    def settle(self) -> None:
        verbs = ["complete", "complete", "fail", "snooze", "release", "accept_cancel"]
        outcomes = [
            {"job_id": job_id, "fence": fence, "outcome": self._dice.choice(verbs)}
            | {"error_type": "E", "retry_in": "0 s", "delay": "0 s"}
            for job_id, fence in self._some_tokens()
        ]
        self._run("select queue.settle(%s)", json.dumps(outcomes))

    def answer(self) -> None:
        verb = self._dice.choice(
            ["complete(%s, %s)", "fail(%s, %s, 'E', retry_in => '0')", "release(%s, %s)"]
        )
        self._run(f"select queue.{verb}", *self._some_tokens()[0])

    def renew(self) -> None:
        tokens = self._some_tokens()
        self._run(
            "select queue.renew(%s, %s)", [job for job, _ in tokens], [fence for _, fence in tokens]
        )

    def progress(self) -> None:
        self._run("select queue.progress(%s, %s, 50)", *self._some_tokens()[0])

    def operate(self) -> None:
        verb = self._dice.choice(
            ["cancel(%s)", "retry(%s)", "run_now(%s)", "reprioritize(%s, 7)", "discard(%s)"]
        )
        self._run(f"select queue.{verb}", self._dice.randint(1, 40))

    def bulk(self) -> None:
        action = self._dice.choice(["retry", "cancel", "discard"])
        self._run("select queue.bulk(%s, '{}', dry_run => false, max_jobs => 10)", action)

    def reap(self) -> None:
        self._run("select queue.reap()")

    def prune(self) -> None:
        self._run("select queue.prune()")

    def expire(self) -> None:
        self._run(
            """update queue.jobs set lease_expires_at = now() - interval '1 s'
            where id in (
                select id from queue.jobs where status = 'running' limit 2
                for no key update skip locked
            ) returning id"""
        )


def test_calls_at_random_do_not_deadlock(database: Database, seed: int) -> None:
    with database.connect() as admin:
        admin.execute("update queue.settings set backoff_base = '1 ms', backoff_cap = '1 ms'")

    clock = itertools.count()
    tokens: deque[tuple[int, int]] = deque(maxlen=16)

    def work(thread: int) -> Counter[str]:
        told: Counter[str] = Counter()
        with database.connect() as conn:
            conn.execute("set deadlock_timeout = '10 ms'")
            caller = Caller(conn, seed * THREADS + thread, clock, tokens)
            for _ in range(400):
                try:
                    caller.step()
                    told["fine"] += 1
                except psycopg.Error as error:
                    told[str(error.sqlstate)] += 1
        return told

    told = at_once(work)
    print(dict(told))
    assert set(told) <= {"fine", "RL404", "RL409"}, told
    assert told["fine"] > 800, "hardly a call did anything: this proves nothing"
    assert told["RL409"] > 0, "no stale answer was refused: this proves nothing"

    with database.connect() as admin:
        twice = admin.execute(
            """select job_id, fence, count(*) from queue.job_events
            where event = 'claimed' group by 1, 2 having count(*) > 1"""
        ).fetchall()
        ended_twice = admin.execute(
            """select job_id, fence, count(*) from queue.job_events
            where from_status = 'running' and to_status <> 'running'
            group by 1, 2 having count(*) > 1"""
        ).fetchall()
    assert twice == [], "a (job, fence) pair was handed out twice"
    assert ended_twice == [], "a claim ended twice"


# -- isolation levels ------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_claims_are_exact_at_every_isolation_level(isolation: str, database: Database) -> None:
    """Outside of READ COMMITTED a claim may fail (40001) and be repeated; no job goes twice."""
    jobs = 120
    with database.connect() as admin:
        batch = json.dumps([{"kind": "t"}] * jobs)
        admin.execute("select queue.enqueue_many(%s)", [batch])

    claimed: list[int] = []

    def work(_: int) -> Counter[str]:
        told: Counter[str] = Counter()
        with database.connect() as conn:
            conn.execute(f"set default_transaction_isolation = '{isolation}'".encode())
            idle = 0
            while idle < 5:
                try:
                    with conn.transaction():
                        # A snapshot that is older than the claim, outside of READ COMMITTED.
                        conn.execute("select count(*) from queue.policies")
                        rows = conn.execute("select job_id from queue.claim('w')").fetchall()
                except psycopg.errors.SerializationFailure:
                    told["40001"] += 1
                    continue
                claimed.extend(job_id for (job_id,) in rows)
                idle = 0 if rows else idle + 1
        return told

    print(dict(at_once(work)))
    with database.connect() as admin:
        handed_out = admin.execute(
            "select job_id from queue.job_events where event = 'claimed'"
        ).fetchall()
    assert len(handed_out) == len(set(handed_out)) == jobs
    assert sorted(claimed) == sorted(job_id for (job_id,) in handed_out)
