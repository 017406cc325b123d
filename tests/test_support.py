"""The test tools themselves: a broken collector would make every other test worthless."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support import pgtap, races
from tests.support.cluster import Cluster, Database
from tests.support.plpgsql_coverage import Function, Profile, Statement


@pytest.mark.parametrize(
    ("text", "failures"),
    [
        ("1..1\nok 1 - fine", []),
        ("1..1\nnot ok 1 - no \\\\# TODO here", ["not ok 1 - no \\\\# TODO here"]),
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
    with psycopg.connect(database.url_as("queue_viewer")) as conn:
        assert conn.execute("select session_user::text").fetchone() == (
            "rowlock_test_queue_viewer",
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select from queue.jobs")


def test_a_race_that_prints_something_else_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROWLOCK_ACCEPT", raising=False)
    expected = tmp_path / "expected" / "claim.out"
    with pytest.raises(races.RaceError, match="ROWLOCK_ACCEPT=1"):
        races.judge("step c1\n", expected)
    monkeypatch.setenv("ROWLOCK_ACCEPT", "1")
    races.judge("step c1\n", expected)
    monkeypatch.delenv("ROWLOCK_ACCEPT")
    races.judge("step c1\n", expected)
    with pytest.raises(races.RaceError, match=r"\+step c2"):
        races.judge("step c1\nstep c2\n", expected)


@pytest.mark.requires("profiler")
def test_coverage_counts_what_ran_in_every_session_and_nothing_else(database: Database) -> None:
    """Errors and roll-backs count, another database's calls do not, and lines are the body's."""
    with database.connect() as conn:
        conn.execute(
            """create function queue.arms(n int) returns int language plpgsql as $$
            begin
              if n = 1 then
                raise exception 'one';
              elsif n = 2 then
                return 2;
              end if;
              while n > 3 loop
                n := n - 1;
              end loop;
              if n = 0 then
                raise exception 'nobody passes 0';
              end if;
            end $$"""
        )
        conn.execute(f"alter database {database.name} set plpgsql_check.profiler = on")
    profile = Profile()
    with database.connect() as conn:
        profile.remember_functions(conn)
    everything = profile.functions
    profile.functions = {"queue.arms(integer)": everything["queue.arms(integer)"]}
    assert profile.percent == 0
    with database.connect() as conn:
        with pytest.raises(psycopg.errors.RaiseException):
            conn.execute("select queue.arms(1)")
        conn.execute("begin; select queue.arms(2); rollback")
        fails = pytest.raises(psycopg.errors.FunctionExecutedNoReturnStatement)
        with database.connect() as other, fails:
            other.execute("select queue.arms(5)")
    profile.gather(database.url)
    assert not profile.problems
    (arms,) = profile.functions.values()
    assert {(one.kind, one.line): one.count for one in arms.statements.values()} == {
        ("statement block", 2): 3,
        ("IF", 3): 3,
        ("RAISE", 4): 1,
        ("RETURN", 6): 1,
        ("WHILE", 8): 1,
        ("assignment", 9): 2,
        ("IF", 11): 1,
        ("RAISE", 12): 0,
    }
    assert profile.covered == 7


@pytest.mark.requires("profiler")
def test_coverage_ignores_a_function_that_a_test_replaced(
    cluster: Cluster, database: Database
) -> None:
    profile = Profile()
    with database.connect() as conn:
        conn.execute(
            "create function queue.f() returns int language plpgsql as 'begin return 1; end'"
        )
        profile.remember_functions(conn)
        conn.execute(
            "create or replace function queue.f() returns int language plpgsql as"
            " 'begin return 2; end'"
        )
        conn.execute("set plpgsql_check.profiler = on")
        conn.execute("select queue.f()")
    profile.gather(database.url)
    assert [one.count for one in profile.functions["queue.f()"].statements.values()] == [0, 0]


def test_a_coverage_report_adds_processes_and_names_file_and_line() -> None:
    profile = Profile()
    statements = {0: Statement(2, "statement block", 3), 1: Statement(3, "RAISE", 0)}
    profile.functions["queue.claim(text)"] = Function("claim", "digest", statements)
    both = Profile.from_json(profile.to_json())
    both.add(profile)
    assert [one.count for one in both.functions["queue.claim(text)"].statements.values()] == [6, 0]
    told = list(both.report())
    assert told[0].startswith(" 50.0 %  db/functions/worker/claim.sql: ")
    assert told[-1] == "PL/pgSQL: 50.0 % of 2 statements in 1 functions"


def test_a_server_of_ones_own_may_be_crashed(own_cluster: Cluster, database: Database) -> None:
    assert own_cluster.url != database.url
    mine = own_cluster.create()
    assert own_cluster.server is not None
    own_cluster.server.crash()
    own_cluster.server.start()
    with mine.connect() as conn, database.connect() as other:
        assert conn.execute("select count(*) from queue.jobs").fetchone() == (0,)
        assert other.execute("select count(*) from queue.jobs").fetchone() == (0,)


def test_a_prepared_transaction_does_not_keep_its_database(cluster: Cluster) -> None:
    database = cluster.create()
    with database.connect() as conn:
        conn.execute("begin; select queue.enqueue('demo'); prepare transaction 'forgotten'")
    cluster.drop(database)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        database.connect()
