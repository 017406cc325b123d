"""Statement coverage of the PL/pgSQL functions, from plpgsql_check's profiler.

The profiler counts in shared memory, for each database apart, what every session executes: workers
and isolationtester's sessions count as much as pgTAP files, and so does what is rolled back or ends
in an error. Each test database is asked before it is dropped; the run's counts are the sum of them.

`python -m tests.support.plpgsql_coverage --min 95` prints the last run's report, and fails below.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / ".cache" / "plpgsql-coverage.json"

_FUNCTIONS = """
select p.oid::regprocedure::text, p.proname::text, md5(p.prosrc)
from pg_catalog.pg_proc as p
join pg_catalog.pg_language as l on l.oid = p.prolang
where p.pronamespace = to_regnamespace('queue') and l.lanname = 'plpgsql'
"""

# Line 0 is the RETURN that PL/pgSQL adds where a body ends without one.
_STATEMENTS = f"""
with functions (signature, name, source) as ({_FUNCTIONS})
select f.signature, f.name, f.source, s.stmtid, s.lineno, s.stmtname, s.exec_stmts
from functions as f
cross join lateral tap.plpgsql_profiler_function_statements_tb(f.signature) as s
where s.lineno > 0
"""

_FORGET = f"""
with functions (signature, name, source) as ({_FUNCTIONS})
select tap.plpgsql_profiler_reset(f.signature::regprocedure) from functions as f
"""


@dataclass
class Statement:
    line: int
    """Within the body, from 1."""
    kind: str
    count: int = 0


@dataclass
class Function:
    name: str
    source: str
    """A digest of the body: a database whose function differs, a mutant say, does not count."""
    statements: dict[int, Statement] = field(default_factory=dict)

    @property
    def missed(self) -> list[Statement]:
        return [statement for statement in self.statements.values() if statement.count == 0]

    @property
    def file(self) -> Path | None:
        files = sorted((ROOT / "db" / "functions").glob(f"*/{self.name}.sql"))
        return files[0] if files else None

    @functools.cached_property
    def first_line(self) -> int:
        """The line of the file on which the body opens."""
        if self.file is not None:
            for number, line in enumerate(self.file.read_text().splitlines(), 1):
                if line.rstrip().endswith("$$"):
                    return number
        return 1


class Profile:
    """What one run has executed."""

    def __init__(self) -> None:
        self.functions: dict[str, Function] = {}
        self.problems: list[str] = []

    @property
    def statements(self) -> int:
        return sum(len(function.statements) for function in self.functions.values())

    @property
    def covered(self) -> int:
        return self.statements - sum(len(f.missed) for f in self.functions.values())

    @property
    def percent(self) -> float:
        return 100.0 * self.covered / self.statements if self.statements else 0.0

    def remember_functions(self, conn: psycopg.Connection[Any]) -> None:
        """Takes the functions of the migrated template as what there is to cover."""
        conn.execute("set search_path = ''")
        for signature, name, source, number, line, kind, count in conn.execute(_STATEMENTS):
            function = self.functions.setdefault(signature, Function(name, source))
            function.statements[number] = Statement(line, kind, count)

    def gather(self, url: str) -> None:
        """Adds what a database's functions have executed; call it before the database goes."""
        try:
            with psycopg.connect(url, autocommit=True) as conn:
                conn.execute("set default_transaction_read_only = off")
                conn.execute("create schema if not exists tap")
                conn.execute("create extension if not exists plpgsql_check schema tap")
                conn.execute("set search_path = ''")
                for signature, _, source, number, _, _, count in conn.execute(_STATEMENTS):
                    function = self.functions.get(signature)
                    if function is not None and function.source == source:
                        function.statements[number].count += count
                conn.execute(_FORGET)
        except psycopg.Error as error:
            self.problems.append(f"{url}: {str(error).strip().splitlines()[0]}")

    def add(self, other: Profile) -> None:
        """Adds what another process of the same run has executed."""
        self.problems += other.problems
        for signature, theirs in other.functions.items():
            ours = self.functions.setdefault(signature, theirs)
            if ours is not theirs:
                for number, statement in theirs.statements.items():
                    ours.statements[number].count += statement.count

    def to_json(self) -> str:
        functions = {
            signature: {
                "name": f.name,
                "source": f.source,
                "statements": {n: [s.line, s.kind, s.count] for n, s in f.statements.items()},
            }
            for signature, f in sorted(self.functions.items())
        }
        return json.dumps({"functions": functions, "problems": self.problems}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Profile:
        saved = json.loads(text)
        profile = cls()
        profile.problems = saved["problems"]
        for signature, f in saved["functions"].items():
            statements = {int(n): Statement(*s) for n, s in f["statements"].items()}
            profile.functions[signature] = Function(f["name"], f["source"], statements)
        return profile

    def report(self) -> Iterator[str]:
        """Functions below 100 %, the lines they miss, and the total as the last line."""
        for signature, function in sorted(
            self.functions.items(), key=lambda item: -len(item[1].missed) / len(item[1].statements)
        ):
            if function.missed:
                share = 100.0 * (1 - len(function.missed) / len(function.statements))
                lines = sorted({s.line + function.first_line - 1 for s in function.missed})
                where = function.file.relative_to(ROOT) if function.file else signature
                yield f"{share:5.1f} %  {where}: {', '.join(map(str, lines))}"
        for problem in self.problems:
            yield f"not counted: {problem}"
        yield (
            f"PL/pgSQL: {self.percent:.1f} % of {self.statements} statements"
            f" in {len(self.functions)} functions"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="PL/pgSQL coverage of the last test run")
    parser.add_argument("--min", type=float, default=0.0, help="fail below this per cent")
    arguments = parser.parse_args()
    if not REPORT.exists():
        print("no coverage was measured: run make test (PostgreSQL 15 with plpgsql_check)")
        return 1
    profile = Profile.from_json(REPORT.read_text())
    print("\n".join(profile.report()))
    if profile.percent < arguments.min:
        print(f"below the {arguments.min:g} % asked for")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
