"""Notices new work without asking for it, and does the maintenance that is due.

An idle worker stands by: it holds its queues' wake locks, so that whoever makes a job claimable
sends NOTIFY (queue.stand_by says how no wake-up is lost). Polling is the net below: the dispatcher
polls at a pace that depends on `cover`.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
from collections.abc import Callable
from time import monotonic
from typing import Literal

import psycopg

from pyworker.client import Client, Connection
from pyworker.errors import RowlockError, Unavailable
from pyworker.loop import Link, Loop
from pyworker.metrics import Metrics

Cover = Literal["covered", "uncovered", "polling"]

TICK_EVERY = 5.0
"""Seconds between maintenance calls while this process works."""

# Standing by again, now and then, is how an idle worker takes the place of one that died.
_STAND_BY_EVERY = 180.0
_UNCOVERED_RETRY = 0.5
# Busy for so long, a worker lets go of the wake locks. Less, and each job would cost two calls.
_STAND_DOWN_AFTER = 0.1


class Waker(Loop):
    """LISTENs, stands by and down, and ticks, on one connection."""

    def __init__(
        self,
        worker: str,
        queues: list[str],
        link: Link,
        metrics: Metrics,
        *,
        listen: bool | None = None,
        is_working: Callable[[], bool],
    ) -> None:
        super().__init__("waker", worker)
        self.cover: Cover = "polling"
        self.look: Callable[[], None] = lambda: None
        self._queues = queues
        self._link = link
        self._metrics = metrics
        self._listen = listen
        self._is_working = is_working

        self._own, self._others = socket.socketpair()
        self._own.setblocking(False)
        self._others.setblocking(False)
        # Set by the dispatcher, read here.
        self._is_idle = False
        self._busy_since: float | None = None
        self._wants_to_leave = False

        self._conn: Connection | None = None
        self._is_listening = False
        self._stands_by = False
        self._stand_by_at = 0.0
        self._tick_at = monotonic() + random.uniform(0, TICK_EVERY)
        self._has_left = False

    # -- told by the dispatcher

    def idle(self) -> None:
        """A claim came back empty."""
        self._busy_since = None
        if not self._is_idle:
            self._is_idle = True
            self.ring()

    def busy(self) -> None:
        """Every slot is taken, or work comes steadily."""
        if self._busy_since is None:
            self._busy_since = monotonic()
            self._is_idle = False
            if self._stands_by:
                self.ring()

    def doubt(self) -> None:
        """A poll found work that no wake-up told of: whoever held the wake locks may be gone."""
        self._stand_by_at = 0.0
        self.ring()

    def leave(self) -> None:
        """The worker takes no more jobs: others are to stand by in its place."""
        self._wants_to_leave = True
        self.ring()

    def ring(self) -> None:
        super().ring()
        with contextlib.suppress(BlockingIOError, OSError):
            self._others.send(b"!")

    # -- the loop

    def step(self) -> None:
        self._bell.clear()
        client = self._link.open()
        if client.conn is not self._conn:
            self._begin(client)
        self._hear()

        now = monotonic()
        if self._wants_to_leave:
            self._stand_down()
            self._has_left = True
        elif self._busy_since is not None and now - self._busy_since >= _STAND_DOWN_AFTER:
            self._stand_down()
        elif (
            self._is_listening
            and self._is_idle
            and (not self._stands_by or now >= self._stand_by_at)
        ):
            self._stand_by()

        if now >= self._tick_at and not self._has_left:
            self._tick()
        # Once more: what arrived beside the answer to a call makes no socket readable.
        self._hear()
        self._sleep()

    def failed(self, exc: Exception) -> None:
        if self._link.conn is None or self._link.conn is not self._conn:
            self._uncover()
        super().failed(exc)

    def close(self) -> None:
        self._link.drop()
        self._own.close()
        self._others.close()

    def _begin(self, client: Client) -> None:
        """A new connection: knows nothing of what the last one listened to or held."""
        assert isinstance(client.conn, Connection)
        self._uncover()
        listen = self._listen
        if listen is None:
            listen = not client.conn.pooled
            if not listen:
                self.log.warning(
                    "behind a connection pooler: no wake-ups, new jobs are noticed by polling only",
                    extra={"worker": self._worker},
                )
        if listen:
            self._link.call(lambda client: client.listen())
        self._is_listening = listen
        self._conn = client.conn
        # What came while nobody listened.
        self.look()

    def _uncover(self) -> None:
        self._conn = None
        self._is_listening = False
        self._stands_by = False
        if self.cover != "polling":
            self.cover = "polling"
            # The dispatcher may have settled down to a pace that wake-ups allow.
            self.look()

    def _stand_by(self) -> None:
        cover = self._link.call(lambda client: client.stand_by(self._queues))
        is_covered = cover == "covered"
        changed = not self._stands_by or self.cover != cover
        self._stands_by = True
        self.cover = "covered" if is_covered else "uncovered"
        self._stand_by_at = monotonic() + (
            _STAND_BY_EVERY * random.uniform(0.8, 1.0)
            if is_covered
            else _UNCOVERED_RETRY * random.uniform(0.5, 1.5)
        )
        if changed:
            self.log.debug("stand by: %s", cover, extra={"worker": self._worker})
            # Once more: a job may have come between the last look and the lock.
            self.look()

    def _stand_down(self) -> None:
        if not self._stands_by:
            return
        self._stands_by = False
        self.cover = "polling"
        held = self._link.call(lambda client: client.stand_down())
        self.log.debug("stand down: held %d", held, extra={"worker": self._worker})

    def _hear(self) -> None:
        """Takes what has been notified. Raises Unavailable when the connection is gone."""
        assert self._conn is not None
        try:
            heard = [notify.payload for notify in self._conn.notifies(timeout=0)]
        except psycopg.Error as exc:
            self._link.drop()
            raise Unavailable(f"the listening connection is gone: {exc}") from exc
        if not heard:
            return
        self._metrics.notifications += len(heard)
        queues = set(heard)
        self.log.debug("notified: %s", sorted(queues), extra={"worker": self._worker})
        if "" in queues:
            # Whoever held the wake locks let go of them.
            self._stand_by_at = 0.0
        if not queues.isdisjoint([*self._queues, ""]):
            self.look()
        # Somebody is at work somewhere: leases may run out soon.
        self._tick_at = min(self._tick_at, monotonic() + TICK_EVERY * random.uniform(0.5, 1.0))

    def _tick(self) -> None:
        """A maintenance step. How soon the next is wanted, the database says.

        A process at work ticks every few seconds. An idle one asks as rarely as the database
        allows: while nobody has a claim, nothing can need reaping.
        """
        self._tick_at = monotonic() + TICK_EVERY
        try:
            done = self._link.call(lambda client: client.tick())
        except RowlockError as exc:
            if self._link.conn is not self._conn:
                raise
            # Wake-ups do not depend on it.
            self.note(exc)
            return
        self._metrics.ticks += 1
        due_in = done.due_in.total_seconds() if done.due_in is not None else TICK_EVERY
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug(
                "tick: %s, next in %.1f s",
                f"{done.step} {done.processed}" if done.step else "nothing due",
                due_in,
                extra={"worker": self._worker},
            )
        if done.more:
            wait = 0.0
        elif self._is_working():
            # Never at once: a step that is due may be in another session's hands.
            wait = min(max(due_in, 1.0), TICK_EVERY) * random.uniform(0.8, 1.2)
        else:
            wait = max(due_in, TICK_EVERY) * random.uniform(1.2, 1.5)
        self._tick_at = monotonic() + wait
        if done.step == "reap" and done.processed:
            # This session's own wake locks keep its own requeueing silent.
            self.look()

    def _sleep(self) -> None:
        now = monotonic()
        until = [now + self.patience / 3]
        if not self._has_left:
            until.append(self._tick_at)
        if self._stands_by and self._busy_since is not None:
            until.append(self._busy_since + _STAND_DOWN_AFTER)
        elif self._stands_by and self._is_idle:
            until.append(self._stand_by_at)
        timeout = max(0.0, min(until) - now)
        if self._bell.is_set() or self._conn is None:
            return
        poll = select.poll()
        poll.register(self._conn.fileno(), select.POLLIN)
        poll.register(self._own, select.POLLIN)
        poll.poll(timeout * 1000)
        with contextlib.suppress(BlockingIOError):
            while self._own.recv(4096):
                pass
