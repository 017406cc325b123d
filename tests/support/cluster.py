"""Databases for tests: one server a run, one migrated template, a fresh copy where it matters."""

from __future__ import annotations

import functools
import itertools
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql

from pyworker import deploy, embedded
from tests.support import pgtap, servers
from tests.support.plpgsql_coverage import Profile

Connection = psycopg.Connection[tuple[Any, ...]]


@dataclass(frozen=True)
class Database:
    """A migrated database; `url` signs in as the superuser."""

    name: str
    url: str

    def connect(self, *, autocommit: bool = True, **options: Any) -> Connection:
        return psycopg.connect(self.url, autocommit=autocommit, **options)

    def url_as(self, role: str) -> str:
        """The URL for a login that is a member of group role `role` and has no other right."""
        login = f"rowlock_test_{role}"
        with self.connect() as conn:
            exists = conn.execute("select from pg_roles where rolname = %s", [login]).fetchone()
            if exists is None:
                conn.execute(
                    sql.SQL("create role {} login password {} in role {}").format(
                        sql.Identifier(login), sql.Literal(login), sql.Identifier(role)
                    )
                )
        return with_user(self.url, login, login)


class Cluster:
    """The server under test. Everything is made on first use, so a run of pure tests starts none.

    ROWLOCK_TEST_DATABASE_URL names a server to use instead of starting one; its login must be a
    superuser, and only databases named rowlock_test_* are made and dropped there.
    """

    def __init__(self, *, profile: bool = False) -> None:
        self.profile = Profile() if profile else None
        self._server: embedded.Server | None = None
        self._prefix = f"rowlock_test_{uuid.uuid4().hex[:8]}"
        self._numbers = itertools.count(1)
        self._alive: dict[str, Database] = {}

    # -- the server ------------------------------------------------------------------------------

    @functools.cached_property
    def url(self) -> str:
        given = os.environ.get("ROWLOCK_TEST_DATABASE_URL")
        if given:
            return given
        wanted = os.environ.get("PG")
        self._server = servers.start(
            int(wanted) if wanted else None, profile=self.profile is not None
        )
        return self._server.url

    @property
    def server(self) -> embedded.Server | None:
        """The server this run started, or None where it uses another's."""
        _ = self.url
        return self._server

    @functools.cached_property
    def description(self) -> str:
        with self._maintenance() as conn:
            version = conn.execute("show server_version").fetchone()
        assert version is not None
        extras = ", ".join(sorted(self.features - {"pgtap", "profiler"}))
        return f"PostgreSQL {version[0]}" + (f" with {extras}" if extras else "")

    @functools.cached_property
    def version(self) -> int:
        """The server's major version."""
        with self._maintenance() as conn:
            return conn.info.server_version // 10000

    @functools.cached_property
    def features(self) -> frozenset[str]:
        """What `-- requires:` may name and this server has."""
        with self._maintenance() as conn:
            available = {
                name
                for (name,) in conn.execute(
                    "select name from pg_available_extensions"
                    " where name in ('pgtap', 'plpgsql_check', 'pg_cron')"
                )
            }
            if "pgtap" not in available and pgtap.script() is not None:
                available.add("pgtap")
            cron = conn.execute("select current_setting('cron.database_name', true)").fetchone()
            preloaded = conn.execute("show shared_preload_libraries").fetchone()
        if cron != (servers.CRON_DATABASE,):
            available.discard("pg_cron")
        if preloaded is not None and "plpgsql_check" in preloaded[0]:
            available.add("profiler")
        return frozenset(available)

    # -- databases -------------------------------------------------------------------------------

    @functools.cached_property
    def template(self) -> str:
        """A migrated database with pgTAP and the test helpers; nobody stays connected to it."""
        name = f"{self._prefix}_template"
        with self._maintenance() as conn:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        self._alive[name] = database = Database(name, with_database(self.url, name))
        deploy.migrate(database.url)
        with database.connect() as conn:
            load_test_tools(conn, self.features)
            if self.profile is not None:
                self.profile.remember_functions(conn)
        return name

    def create(self, name: str | None = None) -> Database:
        """A fresh copy of the template."""
        template = self.template
        name = name or f"{self._prefix}_{next(self._numbers)}"
        with self._maintenance() as conn:
            conn.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        self._alive[name] = database = Database(name, with_database(self.url, name))
        return database

    def create_empty(self, name: str | None = None) -> Database:
        """A database without anything: for tests of migration itself."""
        name = name or f"{self._prefix}_{next(self._numbers)}"
        with self._maintenance() as conn:
            conn.execute(
                sql.SQL("create database {} template template0").format(sql.Identifier(name))
            )
        self._alive[name] = database = Database(name, with_database(self.url, name))
        return database

    def drop(self, database: Database) -> None:
        """Drops a database, whoever is connected; keeps what its functions ran for coverage."""
        self._alive.pop(database.name, None)
        if self.profile is not None:
            self.profile.gather(database.url)
        with self._maintenance() as conn:
            forgotten = conn.execute(
                "select gid from pg_prepared_xacts where database = %s", [database.name]
            ).fetchall()
            if forgotten:  # not even force ends these
                with database.connect() as inside:
                    for (gid,) in forgotten:
                        inside.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))
            conn.execute(
                sql.SQL("drop database if exists {} with (force)").format(
                    sql.Identifier(database.name)
                )
            )

    @functools.cached_property
    def shared(self) -> Database:
        """One copy for tests that leave nothing behind, such as pgTAP files that roll back."""
        return self.create()

    @functools.cached_property
    def cron(self) -> Database:
        """A copy, with pg_cron, in the database that pg_cron watches."""
        with self._maintenance() as conn:
            conn.execute(
                sql.SQL("drop database if exists {} with (force)").format(
                    sql.Identifier(servers.CRON_DATABASE)
                )
            )
        database = self.create(servers.CRON_DATABASE)
        with database.connect() as conn:
            conn.execute("create extension pg_cron")
        return database

    def close(self) -> None:
        """Ends the run: gathers what is left, stops the server or drops what it was lent."""
        try:
            for database in list(self._alive.values()):
                if self._server is None:
                    self.drop(database)
                elif self.profile is not None:
                    self.profile.gather(database.url)
        finally:
            if self._server is not None:
                self._server.close()

    @contextmanager
    def _maintenance(self) -> Iterator[Connection]:
        with psycopg.connect(self.url, autocommit=True) as conn:
            yield conn


def load_test_tools(conn: Connection, features: frozenset[str]) -> None:
    """Loads pgTAP, plpgsql_check and db/tests/support into a migrated database."""
    conn.execute("create schema tap")
    conn.execute("grant usage on schema tap to public")
    if "plpgsql_check" in features:
        conn.execute("create extension plpgsql_check schema tap")
    if "pgtap" in features:
        pgtap.load(conn)
    for path in sorted((servers.ROOT / "db" / "tests" / "support").glob("*.sql")):
        run_script(conn, path)


def run_script(conn: Connection, path: Path) -> None:
    """Runs a file of SQL as it stands."""
    conn.execute(path.read_bytes())


def with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path="/" + quote(name, safe="")))


def with_user(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    login = f"{quote(user, safe='')}:{quote(password, safe='')}"
    return urlunsplit(parts._replace(netloc=f"{login}@{place}"))
