"""Race specs as pytest tests, run by PostgreSQL's isolationtester.

Each spec runs its permutations in a fresh migrated database. What it prints is compared with
db/tests/races/expected/<name>.out; ROWLOCK_ACCEPT=1 writes that file instead, to be read before it
is committed.
"""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STEP_TIMEOUT = 30
"""Seconds after which isolationtester cancels a step that should not wait that long."""


def isolationtester() -> Path | None:
    """Debian's copy, from package postgresql-client-15; it speaks to servers of any version."""
    places = Path("/usr/lib/postgresql").glob("*/lib/pgxs/src/test/isolation/isolationtester")
    return max(places, default=None)


class RaceError(Exception):
    """What differs, already told in full."""


def judge(printed: str, expected: Path) -> None:
    """Compares with the expected output, or accepts what was printed as that."""
    if os.environ.get("ROWLOCK_ACCEPT") == "1":
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(printed)
        return
    if not expected.exists():
        raise RaceError(f"{expected} is missing: ROWLOCK_ACCEPT=1 writes it\n\n{printed}")
    difference = difflib.unified_diff(
        expected.read_text().splitlines(),
        printed.splitlines(),
        f"expected/{expected.name}",
        "printed",
        lineterm="",
    )
    told = "\n".join(difference)
    if told:
        raise RaceError(told)


class RaceFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield RaceItem.from_parent(self, name="race")


class RaceItem(pytest.Item):
    def runtest(self) -> None:
        from tests.support.plugin import cluster_of

        binary = isolationtester()
        if binary is None:
            pytest.skip(f"{self.nodeid}: needs isolationtester, from Debian's postgresql-client-15")
        cluster = cluster_of(self.config)
        database = cluster.create()
        try:
            done = subprocess.run(
                [binary, database.url],
                input=self.path.read_bytes(),
                capture_output=True,
                env=os.environ | {"PGISOLATIONTIMEOUT": str(STEP_TIMEOUT)},
                timeout=300,
            )
        finally:
            cluster.drop(database)
        printed = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise RaceError(printed + done.stderr.decode(errors="replace"))
        judge(printed, self.path.parent / "expected" / f"{self.path.stem}.out")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, RaceError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path.relative_to(self.config.rootpath))
