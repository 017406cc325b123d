"""What goes wrong, and when: a schedule from the seed alone, carried out by the main thread."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from chaos.fleet import Fleet
from chaos.load import LEASE
from pyworker import embedded

EVERY: dict[str, float] = {
    "kill a worker": 7.0,
    "stop a worker": 13.0,
    "end a worker": 23.0,
    "terminate backends": 2.5,
    "crash the server": 38.0,
    "hold a snapshot": 30.0,
    "lock a row": 9.0,
}
"""Mean seconds between faults of a kind."""

STOPPED_FOR = 3.5 * LEASE.total_seconds()
"""Past the lease and past the next look of the reaper, so that somebody else gets the jobs."""


@dataclass(frozen=True)
class Fault:
    at: float
    what: str
    number: float
    """From 0 to 1: which worker, how long."""


def schedule(seed: int, seconds: float) -> list[Fault]:
    """Each kind at least once, whatever the length; none in the first and last moments."""
    chance = random.Random(f"{seed} faults")
    faults = []
    for what, every in EVERY.items():
        at = chance.uniform(0.2, 0.8) * min(every, 0.8 * seconds)
        while at < 0.95 * seconds:
            faults.append(Fault(round(3 + at, 2), what, round(chance.random(), 3)))
            at += every * chance.uniform(0.6, 1.4)
    return sorted(faults, key=lambda fault: fault.at)


class Faults:
    """Carries out faults and remembers when the service could not have worked."""

    def __init__(self, server: embedded.Server, url: str, fleet: Fleet) -> None:
        self.counts: Counter[str] = Counter()
        self.outages: list[tuple[float, float]] = []
        """When the server was away."""
        self.locks: list[tuple[float, float, int]] = []
        """When a job's row was held by somebody."""
        self.stops: list[tuple[float, float, int]] = []
        """When a worker's process was stopped, and which."""
        self._server = server
        self._url = url
        self._fleet = fleet
        self._stopped: list[tuple[float, int]] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()

    def cause(self, fault: Fault) -> None:
        self.counts[fault.what] += 1
        getattr(self, "_" + fault.what.replace(" ", "_"))(fault.number)

    def look(self) -> None:
        """Lets go on what has been stopped for long enough."""
        now = time.time()
        for began, pid in list(self._stopped):
            if now >= began + STOPPED_FOR:
                self._stopped.remove((began, pid))
                self._go_on(began, pid)

    def end(self) -> None:
        """No more faults: what is held is let go, what is stopped goes on."""
        self._over.set()
        for thread in self._threads:
            thread.join(30)
        for began, pid in self._stopped:
            self._go_on(began, pid)
        self._stopped.clear()

    # -- processes

    def _kill_a_worker(self, number: float) -> None:
        alive = [worker for worker in self._fleet.workers if worker.is_alive]
        if alive:
            alive[int(number * len(alive))].kill()

    def _end_a_worker(self, number: float) -> None:
        running = [w for w in self._fleet.workers if w.is_alive and not w.is_stopped]
        if running:
            running[int(number * len(running))].ask_to_end()

    def _stop_a_worker(self, number: float) -> None:
        running = [w for w in self._fleet.workers if w.is_alive and not w.is_stopped]
        if len(running) > 1:
            worker = running[int(number * len(running))]
            worker.stop()
            self._stopped.append((time.time(), worker.pid))

    def _go_on(self, began: float, pid: int) -> None:
        for worker in self._fleet.workers:
            if worker.pid == pid and worker.is_alive:
                worker.go_on()
                self.stops.append((began, time.time(), pid))

    # -- the server

    def _terminate_backends(self, number: float) -> None:
        with contextlib.suppress(psycopg.Error), self._connect() as conn:
            ended = conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name like 'rowlock:%%'"
                " and pid <> pg_backend_pid() order by random() limit %s",
                [1 + int(number * 4)],
            ).fetchall()
            self.counts["backends terminated"] += len(ended)

    def _crash_the_server(self, number: float) -> None:
        began = time.time()
        self._server.crash()
        time.sleep(0.5 + 2 * number)
        self._server.start()
        self.outages.append((began, time.time()))

    # -- sessions of users

    def _hold_a_snapshot(self, number: float) -> None:
        self._in_background(self._keep_snapshot, 5 + 15 * number)

    def _keep_snapshot(self, seconds: float) -> None:
        with contextlib.suppress(psycopg.Error), self._connect() as conn:
            conn.execute("begin isolation level repeatable read")
            conn.execute("select count(*) from queue.jobs")
            self._over.wait(seconds)

    def _lock_a_row(self, number: float) -> None:
        self._in_background(self._keep_row, 1 + 6 * number)

    def _keep_row(self, seconds: float) -> None:
        with contextlib.suppress(psycopg.Error), self._connect() as conn:
            conn.execute("begin")
            row = conn.execute(
                "select id from queue.jobs where status in ('queued', 'running')"
                " order by random() limit 1 for update skip locked"
            ).fetchone()
            if row is not None:
                began = time.time()
                self._over.wait(seconds)
                self.locks.append((began, time.time(), row[0]))

    def _in_background(self, hold: Callable[[float], None], seconds: float) -> None:
        thread = threading.Thread(target=hold, args=[seconds], daemon=True)
        thread.start()
        self._threads.append(thread)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True, connect_timeout=5)
