"""What a login may and may not do that has one of Rowlock's roles, or none: with real sign-ins."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.support.cluster import Database, with_user

ROLES = ["producer", "worker", "viewer", "operator", "admin", "web"]

ATTACKS = [
    "set role queue_owner",
    "set session authorization queue_owner",
    "set session authorization postgres",
    "set session authorization {superuser}",
    "set role {superuser}",
    "set session_replication_role = replica",
    "select * from queue.jobs",
    "select * from queue.job_events",
    "delete from queue.job_events",
    "update queue.job_events set actor = 'nobody'",
    "truncate queue.job_events",
    "alter table queue.jobs disable trigger all",
    "alter table queue.job_events owner to current_user",
    "alter function queue.claim(text, text[], integer) reset all",
    "create function queue.mine() returns integer language sql as 'select 1'",
    "create table queue.mine (id integer)",
    "select queue._cut('a', 1)",
    "grant queue_admin to current_user",
    "grant select on queue.jobs to current_user",
]


@pytest.mark.parametrize("role", ROLES)
def test_no_role_gets_past_the_functions(database: Database, role: str) -> None:
    with database.connect() as conn:
        row = conn.execute("select session_user").fetchone()
    assert row is not None
    with psycopg.connect(database.url_as(f"queue_{role}"), autocommit=True) as conn:
        for attack in ATTACKS:
            with pytest.raises(
                (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidParameterValue)
            ):
                conn.execute(sql.SQL(attack).format(superuser=sql.Identifier(row[0])))


def test_a_login_without_a_role_can_call_nothing(database: Database) -> None:
    with database.connect() as conn:
        conn.execute(
            "do $$ begin create role rowlock_test_stranger login password 'rowlock_test_stranger';"
            " exception when duplicate_object then null; end $$"
        )
        names = [
            name
            for (name,) in conn.execute(
                "select proname from pg_proc where pronamespace = 'queue'::regnamespace"
                " and not has_function_privilege('rowlock_test_stranger', oid, 'execute')"
            )
        ]
        total = conn.execute(
            "select count(*) from pg_proc where pronamespace = 'queue'::regnamespace"
        ).fetchone()
    assert total == (len(names),)
    url = with_user(database.url, "rowlock_test_stranger", "rowlock_test_stranger")
    with psycopg.connect(url, autocommit=True) as stranger:
        for call in ["select queue.enqueue('a')", "select queue.health()", "table queue.jobs"]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stranger.execute(call)


def test_a_job_is_its_logins(database: Database) -> None:
    """Who acted is who signed in, whatever actor is claimed."""
    with psycopg.connect(database.url_as("queue_producer"), autocommit=True) as producer:
        producer.execute("set rowlock.actor = 'somebody else'")
        producer.execute("select queue.enqueue('a')")
    with database.connect() as conn:
        row = conn.execute(
            "select job.created_by, event.actor, event.detail ->> 'session_user'"
            " from queue.jobs as job join queue.job_events as event on event.job_id = job.id"
        ).fetchone()
    login = "rowlock_test_queue_producer"
    assert row == (login, "somebody else", login)
