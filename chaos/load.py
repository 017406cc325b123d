"""Clients that keep books: producers, a witness that answers too late, operators, a follower."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from typing import Any

import psycopg

from chaos.ledger import Ledger
from pyworker.client import Client, Event, Limits, NewJob, Outcome, connect, enqueue_sql
from pyworker.errors import ClaimLost, JobNotFound, RowlockError, Unavailable

QUEUES = ["urgent", "default"]

LEASE = timedelta(seconds=3)
HANGS_UP = 0.04
"""How often a producer goes away before the answer."""

_LIMITS = Limits(lock_timeout=timedelta(seconds=2), statement_timeout=timedelta(seconds=5))


class Actor(threading.Thread):
    """A thread with a connection of its own, which it makes anew whenever that is lost."""

    def __init__(self, name: str, url: str, ledger: Ledger, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.chance = random.Random(seed)
        self.crashed: str | None = None
        self._url = url
        self._over = threading.Event()
        self._client: Client | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._turn()
        except Exception as exc:
            # A check of its own failed, or a bug of ours: either way the run is no proof.
            self.crashed = f"{self.name}: {type(exc).__name__}: {exc}"
        finally:
            self._drop()

    def end(self) -> None:
        self._over.set()
        self.join(30)

    def pause(self, seconds: float) -> None:
        self._over.wait(seconds)

    def act(self) -> None:
        raise NotImplementedError

    def _turn(self) -> None:
        try:
            self.act()
        except (ClaimLost, JobNotFound):
            raise
        except RowlockError:
            self._drop()
            self.pause(0.2)

    def client(self) -> Client:
        if self._client is None:
            self._client = Client(connect(self._url, "chaos", worker=self.name, limits=_LIMITS))
        return self._client

    def hang_up(self, sql: str, values: list[Any]) -> None:
        """Sends a call and goes away without the answer, as a client that dies does."""
        conn = self.client().conn
        with contextlib.suppress(psycopg.Error):
            conn.pgconn.send_query(psycopg.ClientCursor(conn).mogrify(sql, values).encode())
            while conn.pgconn.flush():
                pass
        self._drop()

    def _drop(self) -> None:
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.conn.close()
            self._client = None


class Producer(Actor):
    """Enqueues a mix of jobs. What was answered is in the ledger, and what was asked before it."""

    def __init__(self, name: str, url: str, ledger: Ledger, seed: str, rate: float) -> None:
        super().__init__(name, url, ledger, seed)
        self._rate = rate
        self._count = 0
        self._has_hung_up = False

    def act(self) -> None:
        self.pause(self.chance.expovariate(self._rate / 2))
        count = 1 if self.chance.random() < 0.7 else self.chance.randint(2, 8)
        jobs = [self._job() for _ in range(count)]
        client = self.client()
        for job in jobs:
            self.ledger.write("asked", key=job.idempotency_key, kind=job.kind)
        if count == 1 and (not self._has_hung_up or self.chance.random() < HANGS_UP):
            self._has_hung_up = True
            self.hang_up(*_call(jobs[0]))
            self.ledger.write("unknown", keys=[jobs[0].idempotency_key], error="hung up")
            return
        answered = self._enqueue(client, jobs)
        if answered is None and self.chance.random() < 0.7:
            # Under the same keys: one job for each, whatever came of the first call.
            self._drop()
            self.pause(0.3)
            with contextlib.suppress(Unavailable):
                self._enqueue(self.client(), jobs)

    def _enqueue(self, client: Client, jobs: list[NewJob]) -> list[int] | None:
        keys = [job.idempotency_key for job in jobs]
        try:
            if len(jobs) == 1:
                given = {f.name: getattr(jobs[0], f.name) for f in fields(NewJob)}
                ids = [client.enqueue(**given).job_id]
            else:
                ids = [row.job_id for row in client.enqueue_many(jobs)]
        except Unavailable as exc:
            self.ledger.write("unknown", keys=keys, error=str(exc))
            return None
        for key, job_id in zip(keys, ids, strict=True):
            self.ledger.write("acknowledged", key=key, job_id=job_id)
        return ids

    def _job(self) -> NewJob:
        self._count += 1
        chance = self.chance
        seconds = round(chance.uniform(0.02, 0.8), 3)
        kinds: list[tuple[int, str, dict[str, Any]]] = [
            (40, "chaos.sleep", {"seconds": seconds}),
            (10, "chaos.async_sleep", {"seconds": seconds}),
            (12, "chaos.progress", {"seconds": 2 * seconds}),
            (15, "chaos.fail", {"times": chance.choice([1, 1, 2, 9]), "length": seconds * 20_000}),
            (8, "chaos.moody", {"seconds": seconds, "end": chance.choice(["", "fail", "cancel"])}),
            (5, "chaos.deaf", {"seconds": LEASE.total_seconds() + 2 * seconds}),
            (1, "chaos.kill", {"times": chance.choice([1, 99])}),
        ]
        (_, kind, payload) = chance.choices(kinds, weights=[weight for weight, _, _ in kinds])[0]
        if "length" in payload:
            payload["length"] = int(payload["length"])
        timed = kind in ("chaos.deaf", "chaos.sleep") and chance.random() < 0.1
        return NewJob(
            kind=kind,
            payload=payload,
            queue=chance.choice(QUEUES),
            priority=chance.choice([2, 5, 5, 5, 8]),
            delay=timedelta(seconds=chance.uniform(0, 4)) if chance.random() < 0.1 else None,
            max_attempts=2 if kind == "chaos.kill" else chance.choice([3, 5]),
            timeout=timedelta(seconds=2) if timed else None,
            idempotency_key=f"{self.name}-{self._count}",
        )


def _call(job: NewJob) -> tuple[str, list[Any]]:
    return enqueue_sql(**{f.name: getattr(job, f.name) for f in fields(NewJob)})


class Witness(Actor):
    """A worker by hand, often too late: it claims, lets the lease run out, and answers anyway.

    The first answer it gives is noted as it came; an unknown outcome is asked again under the same
    token, which must agree with what happened.
    """

    def __init__(self, name: str, url: str, ledger: Ledger, seed: str) -> None:
        super().__init__(name, url, ledger, seed)
        self._has_been_late = False

    def act(self) -> None:
        client = self.client()
        worker = f"{self.name}-{self.chance.getrandbits(32):08x}"
        claims = client.claim(worker, QUEUES, 4)
        for claim in claims:
            self.ledger.write("claimed", job_id=claim.job_id, fence=claim.fence, worker=worker)
        if not claims:
            self.pause(0.3)
            return
        leases = 0.1
        if not self._has_been_late:
            leases, self._has_been_late = 3.5, True
        elif self.chance.random() < 0.6:
            # Others may be at work on the job, or have ended it.
            leases = self.chance.uniform(1.2, 3.5)
        self.pause(leases * LEASE.total_seconds())
        for claim in claims:
            self._answer(claim.job_id, claim.fence)

    def _answer(self, job_id: int, fence: int) -> None:
        if self.chance.random() < 0.5:
            self._ask("progress", job_id, fence, lambda c: c.progress(job_id, fence, 50, "late"))
            self._ask("renew", job_id, fence, lambda c: c.renew([job_id], [fence])[0].verdict)
        verb = self.chance.choice(["complete", "complete", "fail", "release", "settle"])
        calls: dict[str, Callable[[Client], Any]] = {
            "complete": lambda c: c.complete(job_id, fence, {"fence": fence}).status,
            "fail": lambda c: c.fail(job_id, fence, "Late", "too late").status,
            "release": lambda c: c.release(job_id, fence, "late").status,
            "settle": lambda c: (
                c.settle(
                    [
                        Outcome(
                            job_id=job_id, fence=fence, outcome="complete", result={"fence": fence}
                        )
                    ]
                )[0].verdict
            ),
        }
        if verb == "complete" and self.chance.random() < 0.3:
            self.hang_up("select queue.complete(%s, %s, '{}')", [job_id, fence])
            self.ledger.write("unanswered", verb=verb, job_id=job_id, fence=fence, error="hung up")
        for _ in range(60):
            if self._ask(verb, job_id, fence, calls[verb]) not in (None, "busy"):
                return
            self.pause(0.5)
            if self._over.is_set():
                return

    def _ask(self, verb: str, job_id: int, fence: int, call: Callable[[Client], Any]) -> str | None:
        """What came of it; None when nobody knows."""
        try:
            answer = str(call(self.client()))
        except (ClaimLost, JobNotFound):
            answer = "lost"
        except Unavailable as exc:
            self.ledger.write("unanswered", verb=verb, job_id=job_id, fence=fence, error=str(exc))
            self._drop()
            return None
        self.ledger.write("answered", verb=verb, job_id=job_id, fence=fence, answer=answer)
        return answer


class Operator(Actor):
    """Cancels, retries and moves whatever it finds, for whatever reason."""

    def act(self) -> None:
        self.pause(self.chance.uniform(0.2, 1.0))
        client = self.client()
        status = self.chance.choice(["queued", "running", "failed", "cancelled"])
        found = client.list_jobs({"status": status}, max_jobs=20).rows
        if not found:
            return
        job = self.chance.choice(found)
        actions: dict[str, list[Callable[[], Any]]] = {
            "queued": [
                lambda: client.run_now(job.id, "chaos"),
                lambda: client.reprioritize(job.id, self.chance.choice([1, 9]), "chaos"),
                lambda: client.cancel(job.id, "chaos"),
            ],
            "running": [lambda: client.cancel(job.id, "chaos")],
            "failed": [lambda: client.retry(job.id, self.chance.choice([1, 2]), reason="chaos")],
            "cancelled": [lambda: client.retry(job.id, reason="chaos")],
        }
        try:
            self.chance.choice(actions[status])()
        except Unavailable:
            raise
        except RowlockError as exc:
            self.ledger.write("refused", job_id=job.id, error=str(exc))
        else:
            self.ledger.write("operated", job_id=job.id, status=status)


class Follower(Actor):
    """Reads every event once, from a cursor that survives whatever happens to its connection."""

    def __init__(self, name: str, url: str, ledger: Ledger, seed: str) -> None:
        super().__init__(name, url, ledger, seed)
        self.cursor: str | None = "start"
        self.events: list[Event] = []

    def act(self) -> None:
        if not self.read():
            self.pause(0.5)

    def read(self) -> int:
        page = self.client().read_events(self.cursor, 500)
        self.events += page.rows
        self.cursor = page.next_cursor
        return len(page.rows)
