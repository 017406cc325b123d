"""Scripted interleavings: several sessions of one test, a step at a time, and wrong variants.

A mutant is a function's file with one passage replaced. `Mutant.apply` puts it into a database of
its own; a test then asserts that the interleaving which guards the passage fails there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import Notify

from tests.support.cluster import Connection, Database
from tests.support.servers import ROOT

PATIENCE = 10.0
"""Seconds after which a step that should have happened is given up."""

FUNCTIONS = ROOT / "db" / "functions"


class Missed(AssertionError):  # noqa: N818 - it is what happened, and an assert
    """The interleaving caught a wrong answer."""


def expect(condition: bool, told: str) -> None:
    if not condition:
        raise Missed(told)


class Session:
    """One connection, its calls on the queue, and what it remembers."""

    def __init__(self, database: Database, pool: ThreadPoolExecutor, patience: float) -> None:
        self.conn: Connection = database.connect()
        self.patience = patience
        self._pool = pool

    def run(self, query: str, *params: Any) -> list[tuple[Any, ...]]:
        cursor = self.conn.execute(query, params or None)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: str, *params: Any) -> Any:
        return self.run(query, *params)[0][0]

    def later(self, query: str, *params: Any) -> Future[list[tuple[Any, ...]]]:
        """Starts a call that is going to block."""
        return self._pool.submit(self.run, query, *params)

    def begin(self, isolation: str = "read committed") -> None:
        self.run(f"begin isolation level {isolation}")

    def commit(self) -> None:
        self.run("commit")

    def rollback(self) -> None:
        self.run("rollback")

    @property
    def pid(self) -> int:
        return self.conn.info.backend_pid

    # -- the queue -------------------------------------------------------------------------------

    def enqueue(self, queue: str, **fields: Any) -> int:
        names = "".join(f", {name} => %s" for name in fields)
        row = self.run(
            f"select job_id from queue.enqueue('t', queue => %s{names})", queue, *fields.values()
        )
        return int(row[0][0])

    def claim(self, queue: str, max_jobs: int = 1) -> list[int]:
        return [job_id for job_id, _ in self.claims(queue, max_jobs)]

    def claims(self, queue: str, max_jobs: int = 1) -> list[tuple[Any, ...]]:
        return self.run(
            "select job_id, fence from queue.claim('w', array[%s], %s)", queue, max_jobs
        )

    # -- floors ----------------------------------------------------------------------------------

    @property
    def floors(self) -> dict[str, Any]:
        """What rowlock.floors holds, {} at first."""
        text = self.one("select current_setting('rowlock.floors', true)")
        state: dict[str, Any] = json.loads(text) if text else {}
        return state

    @floors.setter
    def floors(self, state: dict[str, Any]) -> None:
        self.run("select set_config('rowlock.floors', %s, false)", json.dumps(state))

    def make_refresh_due(self) -> None:
        state = self.floors
        if state:
            self.floors = state | {"next": 0}

    def refresh(self, *queues: str) -> None:
        """What a claim does first, a quarter of a second after the last time."""
        self.make_refresh_due()
        self.run("select queue._refresh_floors(%s)", list(queues))

    def raise_floors(self, queue: str, beyond: int = 0) -> None:
        """Refreshes until a tick later than `beyond` is safe: once or twice, if nobody else writes.

        Any transaction of the cluster holds floors back, an autovacuum's too.
        """
        deadline = time.monotonic() + self.patience
        self.refresh(queue)
        while self.floors.get("safe", 0) <= beyond:
            expect(time.monotonic() < deadline, "the floor does not move")
            self.refresh(queue)

    def floor(self, queue: str, priority: int = 5) -> int:
        state = self.floors
        expect(queue in state.get("queues", {}), f"no floors for {queue}")
        text = state["queues"][queue]["floors"]
        return int(text.strip("{}").split(",")[priority])

    # -- notifications ---------------------------------------------------------------------------

    def notifications(self, within: float = 0.0) -> list[Notify]:
        """What has arrived; waits up to `within` seconds for the first."""
        self.run("select")
        return list(self.conn.notifies(timeout=within, stop_after=1 if within else None))


class Stage:
    """The sessions of one interleaving."""

    def __init__(self, database: Database, patience: float = PATIENCE) -> None:
        self.database = database
        self.patience = patience
        self._pool = ThreadPoolExecutor(max_workers=8)
        self._sessions: list[Session] = []
        self.admin = self.session()

    def session(self) -> Session:
        session = Session(self.database, self._pool, self.patience)
        self._sessions.append(session)
        return session

    def wait_until_blocked(self, session: Session) -> None:
        """Returns once the session's running call waits for a lock."""
        self.wait_for(
            lambda: (
                self.admin.one(
                    "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s",
                    session.pid,
                )
                is True
            ),
            "the call did not block",
        )

    def wait_for(self, condition: Callable[[], bool], told: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(told)
            time.sleep(0.005)

    def close(self) -> None:
        for session in self._sessions:
            session.conn.close()
        self._pool.shutdown()


@contextmanager
def stage_on(database: Database, patience: float = PATIENCE) -> Iterator[Stage]:
    stage = Stage(database, patience)
    try:
        yield stage
    finally:
        stage.close()


def clean(database: Database) -> None:
    """As good as fresh for the next script, whatever the last one left."""
    with database.connect() as conn:
        conn.execute("set lock_timeout = '10 s'")
        conn.execute("truncate queue.jobs, queue.job_events, queue.policies")
        conn.execute(
            """update queue.settings
            set claim_floor = default, backoff_base = default, backoff_cap = default"""
        )


@dataclass(frozen=True)
class Change:
    """One passage of one function's file, and what stands in its place."""

    function: str
    old: str
    new: str

    def apply(self, session: Session) -> None:
        (path,) = FUNCTIONS.glob(f"*/{self.function}.sql")
        text = path.read_text()
        found = text.count(self.old)
        assert found == 1, f"{self.function} holds the passage {found} times: {self.old}"
        session.conn.execute(text.replace(self.old, self.new).encode())


@dataclass(frozen=True)
class Mutant:
    """A wrong variant and the interleaving that catches it."""

    rule: str
    changes: tuple[Change, ...]
    caught_by: Callable[[Stage], None]

    @property
    def id(self) -> str:
        return self.rule.replace(" ", "-")

    def assert_caught(self, database: Database) -> None:
        with stage_on(database, patience=1.0) as stage:
            for change in self.changes:
                change.apply(stage.admin)
            try:
                self.caught_by(stage)
            except Missed:
                return
        raise AssertionError(f"survived: {self.rule}")
