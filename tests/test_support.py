"""The test tools themselves: a broken collector would make every other test worthless."""

from __future__ import annotations

import pytest

from tests.support import pgtap
from tests.support.cluster import Database


@pytest.mark.parametrize(
    ("text", "failures"),
    [
        ("1..1\nok 1 - fine", []),
        ("1..2\nok 1\nnot ok 2 - later # TODO soon", []),
        ("1..1\nnot ok 1 - a rule\n#     have: 1\n#     want: 2", ["not ok 1 - a rule"]),
        ("1..2\nok 1 - fine", ["planned 2 asserts but ran 1"]),
        ("ok 1 - fine", ["the file states no plan"]),
        ("1..0", ["the file asserts nothing"]),
        ("1..0 # SKIP not here", []),
    ],
)
def test_tap_is_judged(text: str, failures: list[str]) -> None:
    told = pgtap.parse(text.splitlines()).failures
    assert [line.splitlines()[0] for line in told] == failures


def test_requirements_are_read_from_the_head_of_a_file() -> None:
    assert pgtap.requirements("-- a rule\n-- requires: pg_cron, plpgsql_check\nselect 1;") == [
        "pg_cron",
        "plpgsql_check",
    ]
    assert pgtap.requirements("\n" * 20 + "-- requires: pg_cron") == []


def test_an_error_half_way_fails_the_file_and_keeps_what_came_before(database: Database) -> None:
    with database.connect() as conn:
        conn.execute(f"set search_path = {pgtap.SEARCH_PATH}")
        tap = pgtap.run_file(
            conn, b"begin; select plan(2); select ok(true, 'a rule'); select 1/0; rollback;"
        )
    assert [one.description for one in tap.asserts] == ["a rule"]
    (told,) = tap.failures
    assert "division by zero" in told


def test_databases_are_apart(database: Database) -> None:
    assert database.name.startswith("rowlock_test_")
    with database.connect() as conn:
        conn.execute("create table only_here ()")


def test_databases_are_fresh(database: Database) -> None:
    with database.connect() as conn:
        assert conn.execute("select to_regclass('only_here')").fetchone() == (None,)


def test_a_group_role_gets_a_login_without_other_rights(database: Database) -> None:
    import psycopg

    with psycopg.connect(database.url_as("queue_viewer")) as conn:
        assert conn.execute("select session_user::text").fetchone() == (
            "rowlock_test_queue_viewer",
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select from queue.jobs")
