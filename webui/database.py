"""One connection a thread, one transaction a request, and in it the role of whoever asks.

The dashboard's login is a member of queue_web, which may only check sessions and tokens. What a
request may do is decided by the database: its transaction runs under `set local role`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from pyworker.client import Client, Connection, Limits, connect
from pyworker.errors import Unavailable, translate
from webui.config import Config

WEB_ROLE = "queue_web"
GROUP_ROLES = {
    "producer": "queue_producer",
    "worker": "queue_worker",
    "viewer": "queue_viewer",
    "operator": "queue_operator",
    "admin": "queue_admin",
}


class Database:
    """The dashboard's connections: as many as the server has threads, made when first needed."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._limits = Limits(statement_timeout=config.statement_timeout)
        self._local = threading.local()

    @contextmanager
    def as_web(self, actor: str | None = None) -> Iterator[Client]:
        """A transaction that may check passwords, sessions and tokens, and nothing else."""
        with self._transaction(WEB_ROLE, actor) as client:
            yield client

    @contextmanager
    def as_role(self, role: str, actor: str) -> Iterator[Client]:
        """A transaction with the rights of an account's role; `actor` goes into its events."""
        with self._transaction(GROUP_ROLES[role], actor) as client:
            yield client

    @contextmanager
    def _transaction(self, group_role: str, actor: str | None) -> Iterator[Client]:
        conn = self._connection()
        client = Client(conn)
        try:
            with conn.transaction():
                client.act_as(group_role, actor)
                yield client
        except psycopg.Error as exc:
            raise translate(exc) from exc
        finally:
            if conn.closed or conn.broken:
                self._forget()

    def _connection(self) -> Connection:
        conn: Connection | None = getattr(self._local, "conn", None)
        if conn is not None and not conn.closed and not conn.broken and _is_alive(conn):
            return conn
        self._forget()
        conn = connect(self._config.database_url, "web", limits=self._limits, connect_timeout=2)
        self._local.conn = conn
        return conn

    def close(self) -> None:
        """Closes this thread's connection."""
        self._forget()

    def _forget(self) -> None:
        conn: Connection | None = getattr(self._local, "conn", None)
        self._local.conn = None
        if conn is not None:
            with suppress(psycopg.Error):
                conn.close()


def _is_alive(conn: Connection) -> bool:
    """A restart of the server leaves connections that fail at their next use: find out before."""
    try:
        conn.execute("")
    except psycopg.Error:
        return False
    return True


def is_down(exc: Exception) -> bool:
    """Whether the database could not be reached, rather than refused or took too long."""
    cause = exc.__cause__
    if not isinstance(exc, Unavailable) or not isinstance(cause, psycopg.Error):
        return False
    # Without a SQLSTATE nobody answered. 57014 is a query that took too long; the rest of class 57
    # is a server going down or coming up.
    state = cause.sqlstate
    return state is None or (state[:2] in {"08", "57"} and state != "57014")
