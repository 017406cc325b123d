"""What the worker's background loops are made of: a thread that outlives its errors, and a
connection that is opened anew when it fails.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

import psycopg

from pyworker.client import Client, Connection
from pyworker.errors import RowlockError, Unavailable
from pyworker.logs import Throttle, logger

T = TypeVar("T")

# A session on a server that became read-only never gets better by itself: failover is over when
# connecting again finds the new primary.
_CONNECT_AGAIN = (None, "25006", "RL503")


class Backoff:
    """Growing, jittered waits between tries."""

    def __init__(self, base: float = 0.1, cap: float = 5.0) -> None:
        self._base = base
        self._cap = cap
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next(self) -> float:
        self._failures += 1
        longest = min(self._cap, self._base * 2.0 ** min(self._failures, 20))
        return random.uniform(0.5, 1.0) * longest


class Link:
    """One connection for one role. Each role has its own, so that none waits for another."""

    def __init__(
        self, role: str, connect: Callable[[str, Callable[[Connection], None]], Connection]
    ) -> None:
        self.role = role
        self.connects = 0
        self.calls = 0
        self.answered_at: float | None = None
        """When a call last ended without an error, by the monotonic clock."""
        self.conn: Connection | None = None
        self._connect = connect
        self._client: Client | None = None
        self._call_since: float | None = None

    def open(self) -> Client:
        """The client, connected anew when there is none. Raises Unavailable, NotAllowed."""
        if self._client is None:
            try:
                self._client = Client(self._connect(self.role, self._opened))
            except BaseException:
                self.conn = None
                raise
            finally:
                self._call_since = None
            self.connects += 1
        return self._client

    def _opened(self, conn: Connection) -> None:
        """From here on the watch can hang it up, its set-up included."""
        self.conn = conn
        self._call_since = monotonic()

    def call(self, question: Callable[[Client], T]) -> T:
        """Asks; drops the connection when it turns out to be of no more use."""
        client = self.open()
        self._call_since = monotonic()
        self.calls += 1
        try:
            answer = question(client)
        except (RowlockError, psycopg.Error) as exc:
            hopeless = isinstance(exc, Unavailable) and exc.sqlstate in _CONNECT_AGAIN
            if hopeless or client.conn.closed or client.conn.broken:
                self.drop()
            raise
        finally:
            self._call_since = None
        self.answered_at = monotonic()
        return answer

    def drop(self) -> None:
        client, self._client = self._client, None
        self.conn = None
        if client is not None:
            with contextlib.suppress(psycopg.Error, OSError):
                client.conn.close()

    def hang_up(self, after: float) -> bool:
        """Ends a call that takes longer than `after` seconds: its peer is half-dead.

        The server's own time limits cannot help when it is the server, or the way to it, that
        stands still. Called from another thread; the waiting one gets Unavailable.
        """
        since, conn = self._call_since, self.conn
        if since is None or conn is None or monotonic() - since < after:
            return False
        with (
            contextlib.suppress(psycopg.Error, OSError),
            socket.socket(fileno=os.dup(conn.fileno())) as own,
        ):
            own.shutdown(socket.SHUT_RDWR)
        return True


class Loop:
    """A thread that calls `step()` until told to finish. Any error of a step is survived."""

    # How long a step may take or wait before the loop counts as dead, in seconds.
    patience = 45.0

    def __init__(self, name: str, worker: str) -> None:
        self.name = name
        self.log = logger(f"rowlock.{name}")
        self.beat = monotonic()
        self.errors = 0
        self.failing_since: float | None = None
        self.last_error: str | None = None
        self._worker = worker
        self._bell = threading.Event()
        self._finish = threading.Event()
        self._backoff = Backoff()
        self._throttle = Throttle()
        self._thread = threading.Thread(target=self._run, name=f"rowlock-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ring(self) -> None:
        """Something changed: look again."""
        self._bell.set()

    def finish(self) -> None:
        """Asks the loop to end after its present step."""
        self._finish.set()
        self.ring()

    def join(self, timeout: float) -> bool:
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and monotonic() - self.beat < self.patience

    def step(self) -> None:
        """One round, its waiting included."""
        raise NotImplementedError

    def close(self) -> None:
        """The last thing the thread does."""

    def _wait(self, seconds: float) -> None:
        """Until somebody rings, at most so long."""
        if seconds > 0:
            self._bell.wait(min(seconds, self.patience / 3))

    def _run(self) -> None:
        while not self._finish.is_set():
            self.beat = monotonic()
            try:
                self.step()
            except Exception as exc:
                self.failed(exc)
                # Being told to finish cuts the wait short; a bell does not, or work that cannot be
                # done would be tried without a pause.
                self._finish.wait(self._backoff.next())
            else:
                self.recovered()
        with contextlib.suppress(Exception):
            self.close()

    def failed(self, exc: Exception) -> None:
        """A step did not come to its end."""
        if self.failing_since is None:
            self.failing_since = monotonic()
        self.note(exc)

    def note(self, exc: Exception) -> None:
        """Counts an error and logs it, at a bounded rate."""
        self.errors += 1
        self.last_error = f"{type(exc).__name__}: {exc}"
        held_back = self._throttle.admit(type(exc).__name__)
        if held_back is None:
            return
        expected = isinstance(exc, RowlockError)
        hint = exc.hint if isinstance(exc, RowlockError) else None
        self.log.warning(
            "%s: %s%s%s",
            self.name,
            self.last_error,
            f" ({hint})" if hint else "",
            f" [{held_back} more like it]" if held_back else "",
            exc_info=None if expected else exc,
            extra={"worker": self._worker},
        )

    def recovered(self) -> None:
        if self.failing_since is None:
            return
        self.log.info(
            "%s: works again after %.1f s",
            self.name,
            monotonic() - self.failing_since,
            extra={"worker": self._worker},
        )
        self.failing_since = None
        self._backoff.reset()
