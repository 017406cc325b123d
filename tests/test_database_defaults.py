"""The pgTAP files of the hot path again, in a database whose defaults are as foreign as can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import sql

from tests.support import pgtap
from tests.support.cluster import Database

TESTS = Path(__file__).parents[1] / "db" / "tests"

DEFAULTS = {
    "timezone": "America/Sao_Paulo",
    "datestyle": "German",
    "default_transaction_isolation": "serializable",
}


@pytest.mark.requires("pgtap")
@pytest.mark.parametrize("folder", ["producer", "worker", "internal", "operator"])
def test_the_defaults_of_the_database_do_not_matter(database: Database, folder: str) -> None:
    with database.connect() as conn:
        for name, value in DEFAULTS.items():
            conn.execute(
                sql.SQL("alter database {} set {} = {}").format(
                    sql.Identifier(database.name), sql.Identifier(name), sql.Literal(value)
                )
            )
    failures = []
    files = sorted((TESTS / folder).glob("*.sql"))
    assert files
    for path in files:
        with database.connect() as conn:
            conn.execute(f"set search_path = {pgtap.SEARCH_PATH}")
            shown = conn.execute("show timezone").fetchone()
            assert shown == (DEFAULTS["timezone"],)
            tap = pgtap.run_file(conn, path.read_bytes())
        failures += [f"{path.name}: {failure}" for failure in tap.failures]
    assert not failures, "\n".join(failures)
