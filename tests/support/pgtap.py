"""pgTAP files as pytest tests: a file is one item, its asserts are counted and reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

SEARCH_PATH = "tap, public"
FILE_TIMEOUT = "120s"
_REQUIRES = re.compile(r"^--\s*requires:\s*(.+?)\s*$", re.MULTILINE)
_ASSERT = re.compile(r"^(not )?ok\b\s*(\d+)?\s*(?:-\s*)?((?:\\#|[^#])*?)\s*(?:#\s*(\S+)\s*(.*))?$")
_PLAN = re.compile(r"^1\.\.(\d+)(?:\s*#\s*skip\b\s*(.*))?$", re.IGNORECASE)


# -- loading pgTAP into a server -------------------------------------------------------------------


def script() -> Path | None:
    """pgTAP's extension script, from whichever Debian package of it is installed.

    It is plain SQL and PL/pgSQL, so it loads into servers for which there is no package.
    """
    scripts = Path("/usr/share/postgresql").glob("*/extension/pgtap--*.sql")
    whole = [path for path in scripts if re.fullmatch(r"pgtap--[\d.]+\.sql", path.name)]
    return max(whole, key=_version, default=None)


def _version(path: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", path.name)))


def load(conn: psycopg.Connection[Any]) -> None:
    """Puts pgTAP into schema `tap`."""
    row = conn.execute("select from pg_available_extensions where name = 'pgtap'").fetchone()
    if row is not None:
        conn.execute("create extension pgtap schema tap")
        return
    path = script()
    if path is None:
        raise FileNotFoundError("pgTAP is not installed: make packages")
    lines = (line for line in path.read_text().splitlines() if not line.startswith("\\"))
    with conn.transaction():
        conn.execute(f"set local search_path = {SEARCH_PATH}")
        conn.execute("\n".join(lines).encode())


# -- TAP -------------------------------------------------------------------------------------------


@dataclass
class Assert:
    ok: bool
    description: str
    directive: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def counts_as_passed(self) -> bool:
        return self.ok or self.directive.lower().startswith(("todo", "skip"))


@dataclass
class Tap:
    """The outcome of one file."""

    planned: int | None = None
    skipped: str | None = None
    asserts: list[Assert] = field(default_factory=list)
    error: str | None = None

    @property
    def failures(self) -> list[str]:
        found = []
        for number, one in enumerate(self.asserts, 1):
            if not one.counts_as_passed:
                found.append("\n".join([f"not ok {number} - {one.description}", *one.notes]))
        if self.error is not None:
            found.append(self.error)
        elif self.planned is None:
            found.append("the file states no plan")
        elif self.planned != len(self.asserts):
            found.append(f"planned {self.planned} asserts but ran {len(self.asserts)}")
        elif not self.asserts and self.skipped is None:
            found.append("the file asserts nothing")
        return found


def parse(lines: Iterable[str]) -> Tap:
    tap = Tap()
    for line in lines:
        if plan := _PLAN.match(line):
            tap.planned = int(plan[1])
            tap.skipped = plan[2]
        elif found := _ASSERT.match(line):
            tap.asserts.append(Assert(found[1] is None, found[3], found[4] or ""))
        elif line.startswith("#") and tap.asserts:
            tap.asserts[-1].notes.append(line)
    return tap


def run_file(conn: psycopg.Connection[Any], text: bytes) -> Tap:
    """Runs a whole file as one query, as `psql -f` would, and reads the TAP it answers."""
    pgconn = conn.pgconn
    pgconn.send_query(text)
    lines: list[str] = []
    error = None
    while (result := pgconn.get_result()) is not None:
        if result.status == ExecStatus.FATAL_ERROR:
            error = result.get_error_message()
        elif result.status == ExecStatus.TUPLES_OK:
            lines += _rows(result, conn.info.encoding)
    tap = parse(lines)
    tap.error = error
    return tap


def _rows(result: Any, encoding: str) -> Iterator[str]:
    for row in range(result.ntuples):
        values = (result.get_value(row, column) or b"" for column in range(result.nfields))
        yield from b"|".join(values).decode(encoding, "replace").splitlines()


# -- pytest ----------------------------------------------------------------------------------------


class AssertsError(Exception):
    """Failed asserts, already told in full."""


@dataclass
class Counts:
    """Asserts over the whole run, for the closing line."""

    files: int = 0
    asserts: int = 0
    failed: int = 0

    def add(self, other: Counts) -> None:
        self.files += other.files
        self.asserts += other.asserts
        self.failed += other.failed

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"pgTAP: {self.asserts} asserts in {self.files} files{failed}"


COUNTS = pytest.StashKey[Counts]()


def requirements(text: str) -> list[str]:
    """What the head of a file says it needs: `-- requires: plpgsql_check`."""
    head = "\n".join(text.splitlines()[:10])
    return [name.strip() for found in _REQUIRES.findall(head) for name in found.split(",")]


class PgTapFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield PgTapItem.from_parent(self, name="pgtap")


class PgTapItem(pytest.Item):
    def runtest(self) -> None:
        from tests.support.plugin import cluster_of

        cluster = cluster_of(self.config)
        needs = requirements(self.path.read_text())
        missing = [name for name in ["pgtap", *needs] if name not in cluster.features]
        if missing:
            pytest.skip(f"{self.nodeid}: this server lacks {', '.join(missing)}")
        database = cluster.cron if "pg_cron" in needs else cluster.shared
        with database.connect() as conn:
            conn.execute(f"set search_path = {SEARCH_PATH}")
            conn.execute(f"set statement_timeout = '{FILE_TIMEOUT}'")
            tap = run_file(conn, self.path.read_bytes())
        self._count(tap)
        failures = tap.failures
        with database.connect() as conn:
            left = conn.execute("select exists (select from queue.jobs)").fetchone()
            if left == (True,):
                conn.execute("delete from queue.jobs")
                failures.append("the file left jobs behind: end it with rollback")
        if failures:
            raise AssertsError("\n\n".join(failures))
        if tap.skipped is not None:
            pytest.skip(tap.skipped)

    def _count(self, tap: Tap) -> None:
        counts = self.config.stash[COUNTS]
        counts.files += 1
        counts.asserts += len(tap.asserts)
        counts.failed += sum(not one.counts_as_passed for one in tap.asserts)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, AssertsError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path.relative_to(self.config.rootpath))
