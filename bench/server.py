"""The server that a bench measures on: its own, fsync and synchronous_commit on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from pyworker import embedded
from tests.support import cluster, servers

_SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "timezone": "UTC",
}


class Server:
    """A fresh server of a major version; what is made on it goes with it."""

    def __init__(self, version: int | None, settings: Mapping[str, str] | None = None) -> None:
        self._server = embedded.start(
            bindir=servers.binaries(version), settings=_SETTINGS | dict(settings or {})
        )
        self.url = self._server.url

    def run(self, query: str | sql.Composed) -> Any:
        with psycopg.connect(self.url, autocommit=True) as conn:
            cursor = conn.execute(query.encode() if isinstance(query, str) else query)
            return cursor.fetchone() if cursor.description else None

    @property
    def version(self) -> str:
        row = self.run("show server_version")
        return str(row[0]).split()[0]

    def create_template(self, name: str, install: Callable[[str], object]) -> None:
        """A database that `install` fills, given its URL, for `create` to copy."""
        self.run(sql.SQL("create database {}").format(sql.Identifier(name)))
        install(self.url_of(name))

    def create(self, name: str, template: str) -> str:
        self.run(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.url_of(name)

    def url_of(self, name: str) -> str:
        return cluster.with_database(self.url, name)

    def drop(self, name: str) -> None:
        self.run(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))

    def checkpoint(self) -> None:
        self.run("checkpoint")

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
