"""The client: values on their way out and in, errors, retries, connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from pyworker import client, errors
from pyworker.client import (
    AsyncClient,
    Call,
    Client,
    JsonText,
    Limits,
    NewJob,
    Outcome,
    clean_text,
    connect,
    describe,
    encode_json,
    resolve,
)
from pyworker.errors import (
    ClaimLost,
    InvalidArgument,
    JobNotFound,
    KeyReused,
    LimitReached,
    NotAllowed,
    RowlockError,
    TooLarge,
    Unavailable,
    WrongState,
)
from tests.support.cluster import Cluster, Connection, Database
from tests.support.servers import ROOT

CALLS = [value for value in vars(client).values() if isinstance(value, Call)]


@pytest.fixture
def db(url: str) -> Iterator[Client]:
    with connect(url, "test") as conn:
        yield Client(conn)


# -- where the database is


def test_the_argument_goes_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", "postgresql://second/")
    monkeypatch.setenv("DATABASE_URL", "postgresql://third/")
    monkeypatch.setenv("PGHOST", "fourth")
    assert resolve("postgresql://first/").url == "postgresql://first/"
    assert resolve().url == "postgresql://second/"
    monkeypatch.delenv("ROWLOCK_DATABASE_URL")
    assert resolve().source == "DATABASE_URL"
    monkeypatch.delenv("DATABASE_URL")
    assert (resolve().url, resolve().source) == ("", "PGHOST")


def test_no_database_named_is_unavailable_and_names_the_variables() -> None:
    with pytest.raises(Unavailable) as caught:
        resolve()
    for variable in ("--database-url", "ROWLOCK_DATABASE_URL", "DATABASE_URL", "PGHOST"):
        assert variable in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:pw@h:1/d", "postgresql://u@h:1/d"),
        ("host=/tmp dbname=d user=u password=pw", "postgresql://u@[/tmp]/d"),
        ("postgres://u:pw@h1,h2:2/d", "postgresql://u@h1:5432,h2:2/d"),
        ("postgresql+psycopg://u:pw@h/d", "postgresql://u@h:5432/d"),
        ("postgresql://u@h/d?password=pw&sslpassword=pw", "postgresql://u@h:5432/d"),
        ("service=pw_free", "service pw_free"),
    ],
)
def test_a_database_is_described_without_its_password(url: str, said: str) -> None:
    location = resolve(url)
    assert describe(location.url) == said
    assert str(location) == f"{said} (from --database-url)"
    assert "pw@" not in repr(location)


def test_a_broken_url_does_not_show_its_password() -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve("postgresql://u:s3cr%et@h/d")
    assert "s3cr" not in str(caught.value)
    assert caught.value.__suppress_context__


# -- values


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\U0001f600 \u202e", "\U0001f600 \u202e"),
    ],
)
def test_text_is_cleaned_of_what_postgresql_cannot_store(text: str, cleaned: str) -> None:
    assert clean_text(text) == cleaned


def test_an_outcome_keeps_escaped_backslashes_and_loses_nul() -> None:
    outcome = Outcome(job_id=1, fence=2, outcome="complete", result={"a": "\0", "b": "\\u0000"})
    assert json.loads(outcome.to_json())["result"] == {"a": "\ufffd", "b": "\\u0000"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_what_is_not_json_is_refused_by_name(value: object) -> None:
    with pytest.raises(InvalidArgument, match="payload is not JSON"):
        encode_json({"x": value}, "payload")


def test_a_cycle_and_bottomless_nesting_are_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidArgument):
        encode_json(cycle, "payload")
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArgument):
        encode_json(deep, "payload")


def test_naive_datetimes_are_refused_by_name(db: Client) -> None:
    naive = datetime(2030, 1, 1)
    with pytest.raises(InvalidArgument, match="available_at is a naive datetime"):
        db.enqueue("k", available_at=naive)
    with pytest.raises(InvalidArgument, match="available_at of job 2 is a naive datetime"):
        db.enqueue_many([NewJob(kind="k"), NewJob(kind="k", available_at=naive)])
    with pytest.raises(InvalidArgument, match="until"):
        db.pause("q", until=naive)
    with pytest.raises(InvalidArgument, match="created_after"):
        db.list_jobs({"created_after": naive})


def test_a_producer_is_told_of_text_that_cannot_be_stored(db: Client) -> None:
    for name, arguments in {
        "kind": {"kind": "a\0"},
        "idempotency_key": {"kind": "k", "idempotency_key": "\ud800"},
        "payload": {"kind": "k", "payload": {"a": "\ud800"}},
    }.items():
        with pytest.raises(InvalidArgument, match=name):
            db.enqueue(**arguments)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        db.enqueue("k", {"a": "\0"})


# -- the functions


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.function)
def test_every_call_names_the_arguments_of_its_function_in_order(
    call: Call[Any], cluster: Cluster
) -> None:
    with cluster.shared.connect() as conn:
        _compare(call, conn)


def _compare(call: Call[Any], conn: Connection) -> None:
    found = conn.execute(
        """
        select
          coalesce(p.proargnames[:p.pronargs], '{}'),
          array(select format_type(t, null) from unnest(p.proargtypes) with ordinality u (t, n)
                order by n)
        from pg_proc p
        where p.pronamespace = 'queue'::regnamespace and p.proname = %s
        """,
        [call.function],
    ).fetchall()
    assert len(found) == 1, f"queue.{call.function} is overloaded or missing"
    names, types = found[0]
    assert [name for name, _ in call.arguments] == names
    short = {"integer": "int", "timestamp with time zone": "timestamptz"}
    assert [kind.removesuffix("[]") for _, kind in call.arguments] == [
        short.get(kind.removesuffix("[]"), kind.removesuffix("[]")) for kind in types
    ]
    # Every column asked for exists.
    conn.execute(f"prepare asked as {call.sql.replace('%s', 'null')}")


def test_every_public_function_has_a_method() -> None:
    public = {path.stem for path in (ROOT / "db" / "functions").glob("*/[!_]*.sql")}
    public -= {"tick_loop"}  # a procedure, for pg_cron alone
    assert public - {call.function for call in CALLS} == set()
    assert {name for name in public if not hasattr(Client, name)} == set()


def test_a_job_from_enqueue_to_its_history(db: Client) -> None:
    made = db.enqueue("email.send", {"to": "ä"}, delay=timedelta(0), headers={"trace": "t"})
    assert made.created
    (claim,) = db.claim("w1")
    assert (claim.job_id, claim.fence, claim.payload) == (made.job_id, 1, {"to": "ä"})
    assert claim.headers == {"trace": "t"}
    assert claim.lease == timedelta(seconds=60)
    assert claim.payload_error is None
    assert claim.available_at.utcoffset() == timedelta(0)
    assert db.progress(claim.job_id, claim.fence, 50, "half\0way") == "held"
    assert [r.verdict for r in db.renew([claim.job_id, 999], [claim.fence, 1])] == ["held", "lost"]
    done = db.complete(claim.job_id, claim.fence, {"sent": True})
    assert (done.status, done.attempt) == ("succeeded", 1)
    job = db.get_job(claim.job_id)
    assert (job.result, job.label) == ({"sent": True}, "succeeded")
    assert job.progress_message == "half\ufffdway"
    assert [event.event for event in db.list_events(claim.job_id).rows] == [
        "enqueued",
        "claimed",
        "progressed",
        "succeeded",
    ]
    assert db.next_due() is None


def test_a_batch_is_answered_in_order(db: Client) -> None:
    answers = db.enqueue_many(
        [
            NewJob(kind="a", idempotency_key="x", delay=timedelta(minutes=5)),
            {"kind": "b", "payload": [1], "available_at": datetime(2020, 1, 1, tzinfo=UTC)},
            NewJob(kind="a", idempotency_key="x", delay=timedelta(minutes=5)),
        ]
    )
    assert [answer.ordinal for answer in answers] == [1, 2, 3]
    assert [answer.created for answer in answers] == [True, True, False]
    assert answers[0].job_id == answers[2].job_id
    waiting = db.get_job(answers[0].job_id).available_at - datetime.now(UTC)
    assert timedelta(minutes=4) < waiting < timedelta(minutes=6)


@pytest.mark.parametrize(
    "unreadable",
    [f'{{"n": {"9" * 5000}}}', "[" * 3000 + "]" * 3000],
    ids=["huge number", "deep nesting"],
)
def test_one_unreadable_payload_leaves_the_batch_whole(
    db: Client, conn: Connection, unreadable: str
) -> None:
    db.enqueue("good", {"n": 1})
    bad_id = db.enqueue("bad").job_id
    db.enqueue("good", {"n": 2})
    # enqueue refuses such a payload; a row may have come another way.
    conn.execute("update queue.jobs set payload = %s::jsonb where id = %s", [unreadable, bad_id])
    first, bad, last = db.claim("w", max_jobs=10)
    assert (first.payload, last.payload) == ({"n": 1}, {"n": 2})
    assert (first.payload_error, last.payload_error) == (None, None)
    assert bad.payload_error
    assert isinstance(bad.payload, JsonText)
    assert db.get_job(bad.job_id).payload == bad.payload


def test_one_outcome_that_is_not_json_is_refused_alone(db: Client) -> None:
    db.enqueue_many([NewJob(kind="k"), NewJob(kind="k")])
    one, two = db.claim("w", max_jobs=2)
    settled = db.settle(
        [
            Outcome(job_id=one.job_id, fence=one.fence, outcome="complete", result=object()),
            Outcome(job_id=two.job_id, fence=two.fence, outcome="complete", result="\ud800\0"),
        ]
    )
    assert {s.job_id: s.verdict for s in settled} == {one.job_id: "refused", two.job_id: "accepted"}
    assert "not JSON" in (next(s.reason for s in settled if s.verdict == "refused") or "")
    assert db.get_job(two.job_id).result == "\ufffd\ufffd"
    assert db.settle([]) == []


def test_texts_of_a_failure_are_sent_whatever_they_hold(db: Client) -> None:
    db.enqueue("k", max_attempts=1)
    (claim,) = db.claim("w")
    failed = db.fail(claim.job_id, claim.fence, "E\0", "\ud800" + "x" * 10**6, {"a": "\0"})
    assert failed.status == "failed"
    assert (db.get_job(claim.job_id).error_message or "").startswith("\ufffdx")


def test_lists_go_on_from_their_cursor(db: Client) -> None:
    db.enqueue_many([NewJob(kind="k") for _ in range(5)])
    first = db.list_jobs({"kind": "k"}, max_jobs=3)
    second = db.list_jobs({"kind": "k"}, first.next_cursor, 3)
    assert [len(first.rows), len(second.rows)] == [3, 2]
    assert len({job.id for job in first.rows + second.rows}) == 5
    now = db.read_events()
    assert now.rows == []
    db.enqueue("k")
    assert [event.event for event in db.read_events(now.next_cursor).rows] == ["enqueued"]


def test_what_the_dashboard_shows(db: Client) -> None:
    db.enqueue_many([NewJob(kind="k", max_attempts=1, payload={"n": n}) for n in range(3)])
    for claim in db.claim("w", max_jobs=3):
        db.fail(claim.job_id, claim.fence, "Broken", f"pipe {claim.job_id}", {"line": 1})
    while db.tick().step != "roll_up" or db.tick().more:
        pass

    (group,) = db.failure_groups()
    assert (group.kind_of_job, group.error_type, group.jobs) == ("k", "Broken", 3)
    (attempt,) = db.job_attempts(1)
    assert (attempt.outcome, attempt.error_detail) == ("failed", {"line": 1})
    assert sum(row.failed for row in db.throughput()) == 3
    assert any(row.run_p95 is not None for row in db.latency(resolution=timedelta(hours=1)))
    assert {sample.type for sample in db.metrics()} == {"counter", "gauge", "histogram"}
    assert db.capabilities().role == "admin"

    matched = db.bulk("retry", {"kind": "k"})
    assert [outcome.outcome for outcome in matched.rows] == ["matched"] * 3
    first = db.bulk("retry", {"kind": "k"}, max_jobs=2)
    rest = db.bulk("retry", {"kind": "k"}, cursor=first.next_cursor)
    assert {row.job_id for row in first.rows + rest.rows} == {1, 2, 3}
    assert (len(first.rows), rest.next_cursor) == (2, None)
    changed = db.bulk("retry", {"ids": [1, 2]}, False, 10, {"delay": timedelta(hours=1)}, "again")
    assert [outcome.outcome for outcome in changed.rows] == ["changed"] * 2
    assert db.get_job(1).label == "scheduled" or db.get_job(1).label == "retrying"
    assert db.discard(3) == "failed"
    assert db.count_jobs({"status": "failed"}).jobs in (0, 3)  # as of the last roll_up


def test_accounts_sessions_and_tokens(db: Client) -> None:
    db.create_account("ada", "operator", "scrypt:" + "x" * 60, "new here")
    with pytest.raises(WrongState):
        db.create_account("ada", "operator")
    (account,) = db.list_accounts()
    assert (account.account, account.role, account.has_password) == ("ada", "operator", True)
    assert db.check_password("ada", "127.0.0.1") == "scrypt:" + "x" * 60
    assert db.check_password("nobody", "127.0.0.1") is None

    secret = db.start_session("ada", "127.0.0.1", "a browser")
    signed_in = db.check_session(secret)
    assert signed_in is not None
    assert (signed_in.account, signed_in.role) == ("ada", "operator")
    assert db.end_session(secret)
    assert db.check_session(secret) is None

    link = db.create_link("ada")
    assert db.redeem_link(link)
    assert db.redeem_link(link) is None

    token = db.create_token("ci", "producer", reason="builds")
    assert token.secret not in repr(token)
    holder = db.check_token(token.secret)
    assert holder is not None
    assert (holder.name, holder.role) == ("ci", "producer")
    db.revoke_token(token.id)
    assert db.check_token(token.secret) is None
    assert db.list_tokens()[0].revoked_at is not None

    for _ in range(5):
        db.record_sign_in_failure("ada", "127.0.0.1")
    with pytest.raises(LimitReached):
        db.check_password("ada", "127.0.0.1")
    db.record_refusal("POST /settings", "operator", "permission denied")
    db.set_account("ada", disabled=True)
    assert {entry.action for entry in db.list_audit()} >= {"refused"}
    assert {entry.action for entry in db.list_audit()} >= {"create_account", "create_token"}


def test_what_holds_for_all_queues_and_for_one(db: Client) -> None:
    settings = {setting.name: setting.value for setting in db.get_settings()}
    assert (settings["max_attempts"], settings["lease"]) == ("5", "00:01:00")
    db.set_policy("email", max_attempts=2)
    policy = {setting.name: setting.value for setting in db.get_policy("email")}
    assert (policy["max_attempts"], policy["lease"]) == ("2", None)

    db.enqueue("email.send", queue="email")
    while db.roll_up().more:
        pass
    assert [(kind.kind, kind.enqueued, kind.mean_run) for kind in db.list_kinds("email")] == [
        ("email.send", 1, None)
    ]


# -- errors


def test_each_sqlstate_is_its_class(db: Client, database: Database) -> None:
    with pytest.raises(InvalidArgument) as invalid:
        db.enqueue("NO")
    assert invalid.value.sqlstate == "RL400"
    assert invalid.value.hint
    assert isinstance(invalid.value.__cause__, psycopg.Error)
    with pytest.raises(JobNotFound):
        db.get_job(1)
    with pytest.raises(TooLarge):
        db.enqueue("k", "x" * 2**20)
    db.enqueue("k", {"a": 1}, idempotency_key="key")
    with pytest.raises(KeyReused):
        db.enqueue("k", {"a": 2}, idempotency_key="key")
    (claim,) = db.claim("w")
    with pytest.raises(ClaimLost):
        db.complete(claim.job_id, claim.fence + 1)
    with pytest.raises(WrongState):
        db.retry(claim.job_id)
    with pytest.raises(InvalidArgument):
        db.list_jobs(cursor="nonsense")
    with connect(database.url_as("queue_producer"), "test") as conn:
        with pytest.raises(NotAllowed) as denied:
            Client(conn).claim("w")
        assert "queue_" in (denied.value.hint or "")


def test_every_error_class_of_the_contract_has_its_code() -> None:
    codes = {
        cls.code
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, RowlockError) and cls.code
    }
    assert codes == {f"RL{n}" for n in (400, 403, 404, 409, 413, 422, 429, 503)}


def test_a_dead_connection_is_unavailable(db: Client, conn: Connection) -> None:
    conn.execute("select pg_terminate_backend(%s)", [db.conn.info.backend_pid])
    with pytest.raises(Unavailable):
        db.next_due()
    with pytest.raises(Unavailable):
        db.next_due()


def test_nobody_there_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        connect("postgresql://127.0.0.1:1/nowhere", "test", connect_timeout=1)


def test_a_read_only_server_is_unavailable(db: Client) -> None:
    db.conn.execute("set default_transaction_read_only = on")
    with pytest.raises(Unavailable):
        db.enqueue("k")


def test_a_database_without_the_schema_says_what_to_run(cluster: Cluster) -> None:
    empty = cluster.create_empty()
    try:
        with connect(empty.url, "test") as conn, pytest.raises(RowlockError) as caught:
            Client(conn).enqueue("k")
        assert "rowlock migrate" in (caught.value.hint or "")
    finally:
        cluster.drop(empty)


# -- connections


def test_a_connection_has_limits_and_a_name(url: str) -> None:
    limits = Limits(timedelta(milliseconds=1500), timedelta(seconds=7))
    with connect(url, "dispatcher", worker="w-1", limits=limits) as conn:
        assert conn.autocommit

        def shown(name: str) -> str:
            row = conn.execute("select current_setting(%s)", [name]).fetchone()
            assert row is not None
            return str(row[0])

        assert shown("application_name") == "rowlock:w-1:dispatcher"
        assert shown("lock_timeout") == "1500ms"
        assert shown("statement_timeout") == "7s"
        assert shown("transaction_isolation") == "read committed"
        assert not conn.pooled
        assert "tcp_user_timeout=10000" in conn.info.dsn
        # Not start-up parameters, which poolers refuse.
        assert "options" not in conn.info.get_parameters()


def test_read_committed_whatever_the_database_says(database: Database) -> None:
    with database.connect() as conn:
        for setting in (
            "default_transaction_isolation = 'serializable'",
            "timezone = 'Australia/Lord_Howe'",
            "intervalstyle = 'iso_8601'",
            "datestyle = 'SQL, DMY'",
        ):
            conn.execute(f'alter database "{database.name}" set {setting}')
    with connect(database.url, "test") as conn:
        row = conn.execute("show transaction_isolation").fetchone()
        assert row == ("read committed",)
        db = Client(conn)
        db.enqueue("k", lease=timedelta(seconds=90))
        (claim,) = db.claim("w")
        assert claim.lease == timedelta(seconds=90)
        assert abs(claim.available_at - datetime.now(UTC)) < timedelta(minutes=1)
    # A caller's own connection, with all of these still in force.
    with database.connect(row_factory=dict_row) as conn:
        db = Client(conn)
        made = db.enqueue("k", available_at=datetime(2031, 2, 3, 4, 5, tzinfo=UTC))
        assert db.get_job(made.job_id).available_at == datetime(2031, 2, 3, 4, 5, tzinfo=UTC)


def test_one_blocked_row_does_not_stall_a_call(url: str, conn: Connection) -> None:
    limits = Limits(lock_timeout=timedelta(milliseconds=100))
    with connect(url, "test", limits=limits) as own, conn.transaction():
        conn.execute("lock table queue.jobs")
        with pytest.raises(Unavailable) as caught:
            Client(own).enqueue("k")
        assert caught.value.sqlstate == "55P03"


class _Pooler:
    """Passes everything through, but gives out a cancel key of its own, as pgbouncer does."""

    def __init__(self, folder: Path, url: str) -> None:
        info = conninfo_to_dict(url)
        self._server = f"{info['host']}/.s.PGSQL.{info['port']}"
        self.url = f"host={folder} port=5432 dbname={info['dbname']} user={info['user']}"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / ".s.PGSQL.5432"))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                front, _ = self._listener.accept()
                back = socket.socket(socket.AF_UNIX)
                back.connect(self._server)
                for target in (self._forward, self._answer):
                    threading.Thread(target=target, args=[front, back], daemon=True).start()

    def _forward(self, front: socket.socket, back: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := front.recv(65536):
                back.sendall(data)
        back.close()

    def _answer(self, front: socket.socket, back: socket.socket) -> None:
        stream = back.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while kind := stream.read(1):
                size = stream.read(4)
                body = stream.read(int.from_bytes(size) - 4)
                if kind == b"K":
                    body = (12345).to_bytes(4) + body[4:]
                front.sendall(kind + size + body)
        front.close()

    def close(self) -> None:
        self._listener.close()


def test_behind_a_pooler_no_session_state_is_set(database: Database) -> None:
    with database.connect() as admin:
        admin.execute(
            f"alter database {database.name} set default_transaction_isolation = 'serializable'"
        )
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        pooler = _Pooler(Path(folder), database.url)
        limits = Limits(lock_timeout=timedelta(milliseconds=100))
        with connect(pooler.url, "test", limits=limits) as conn, database.connect() as other:
            assert conn.pooled
            assert conn.prepare_threshold is None
            db = Client(conn)
            for _ in range(10):
                db.enqueue("k")
            assert len(db.claim("w", max_jobs=20)) == 10
            with pytest.raises(InvalidArgument):
                db.enqueue("NO")
            # The limits hold in each call, and nowhere else.
            with other.transaction():
                other.execute("lock table queue.jobs")
                with pytest.raises(Unavailable) as caught:
                    db.enqueue("k")
                assert caught.value.sqlstate == "55P03"
            shown = conn.execute("select current_setting('lock_timeout')").fetchone()
            assert shown == ("0",)
            prepared = conn.execute("select count(*) from pg_prepared_statements").fetchone()
            assert prepared == (0,)
        pooler.close()


# -- transactions and retries


def test_enqueue_is_part_of_the_callers_transaction(conn: Connection, url: str) -> None:
    with conn.transaction(force_rollback=True):
        Client(conn).enqueue("k")
    with connect(url, "test") as other:
        assert Client(other).claim("w") == []
        with conn.transaction():
            Client(conn).enqueue("k")
            assert Client(other).claim("w") == []
        assert len(Client(other).claim("w")) == 1


class _Flaky:
    """Makes queue.next_due raise a SQLSTATE as often as a table says."""

    def __init__(self, conn: Connection, sqlstate: str, message: str, times: int) -> None:
        # A sequence: what it hands out is not rolled back with the call that failed.
        conn.execute(
            f"""
            create sequence public.failures;
            grant all on sequence public.failures to queue_owner;
            create or replace function queue.next_due(queues text[] default '{{default}}')
            returns interval language plpgsql security definer as $$
            begin
              if nextval('public.failures') <= {times} then
                raise exception '{message}' using errcode = '{sqlstate}';
              end if;
              return interval '1 second';
            end;
            $$
            """
        )
        self._conn = conn

    @property
    def calls(self) -> int:
        row = self._conn.execute("select last_value from public.failures").fetchone()
        assert row is not None
        return int(row[0])


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_conflicts_are_asked_again(db: Client, conn: Connection, sqlstate: str) -> None:
    flaky = _Flaky(conn, sqlstate, "conflict", 3)
    assert db.next_due() == timedelta(seconds=1)
    assert flaky.calls == 4


def test_a_conflict_that_stays_is_given_up(db: Client, conn: Connection) -> None:
    flaky = _Flaky(conn, "40001", "conflict", 1000)
    with pytest.raises(Unavailable) as caught:
        db.next_due()
    assert caught.value.sqlstate == "40001"
    assert flaky.calls == 6


@pytest.mark.parametrize(
    ("sqlstate", "message"),
    [("0A000", "cached plan"), ("42883", "no function"), ("XX000", "cache lookup failed for 1")],
)
def test_a_migration_passing_by_is_asked_again_once(
    db: Client, conn: Connection, sqlstate: str, message: str
) -> None:
    flaky = _Flaky(conn, sqlstate, message, 1)
    assert db.next_due() == timedelta(seconds=1)
    assert flaky.calls == 2


def test_a_migration_passing_by_is_not_asked_twice(db: Client, conn: Connection) -> None:
    flaky = _Flaky(conn, "42883", "no function", 2)
    with pytest.raises(RowlockError):
        db.next_due()
    assert flaky.calls == 2


def test_other_internal_errors_are_not_asked_again(db: Client, conn: Connection) -> None:
    flaky = _Flaky(conn, "XX000", "something else", 1)
    with pytest.raises(RowlockError):
        db.next_due()
    assert flaky.calls == 1


@pytest.mark.parametrize("autocommit", [True, False])
def test_nothing_is_repeated_inside_a_callers_transaction(
    database: Database, conn: Connection, autocommit: bool
) -> None:
    flaky = _Flaky(conn, "40001", "conflict", 1)
    with database.connect(autocommit=autocommit) as own:
        with pytest.raises(Unavailable), own.transaction():
            Client(own).next_due()
        assert flaky.calls == 1


def test_prepared_statements_survive_another_result(db: Client, conn: Connection) -> None:
    for _ in range(10):
        db.next_due()
    assert conn.execute("select 1").fetchone()
    conn.execute("drop function queue.next_due(text[])")
    conn.execute(
        "create function queue.next_due(queues text[] default '{default}', more int default 1) "
        "returns interval language sql as $$ select interval '7 seconds' $$"
    )
    for _ in range(10):
        assert db.next_due() == timedelta(seconds=7)
    # Another type is what makes a prepared plan fail for good (0A000) until it is made anew.
    conn.execute("drop function queue.next_due(text[], int)")
    conn.execute(
        "create function queue.next_due(queues text[] default '{default}') "
        "returns text language sql as $$ select 'x' $$"
    )
    for _ in range(10):
        assert str(db.next_due()) == "x"


def test_a_deadlock_between_two_callers_reaches_neither(url: str) -> None:
    """Two sessions take two keys in opposite order: PostgreSQL ends one, and it asks again."""
    failures: list[BaseException] = []
    together = threading.Barrier(2)

    def produce(keys: list[str]) -> None:
        try:
            with connect(url, "test", limits=Limits(lock_timeout=timedelta(0))) as conn:
                db = Client(conn)
                for n in range(20):
                    together.wait(timeout=20)
                    db.enqueue_many([NewJob(kind="k", idempotency_key=f"{key}{n}") for key in keys])
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=produce, args=[keys]) for keys in (["a", "b"], ["b", "a"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


# -- asyncio


def test_an_async_connection_enqueues_in_its_transaction(url: str, db: Client) -> None:
    async def produce() -> None:
        conn = await psycopg.AsyncConnection.connect(url)
        async with conn:
            async with conn.transaction():
                made = await AsyncClient(conn).enqueue("a", {"n": 1}, delay=timedelta(0))
                assert made.created
                many = await AsyncClient(conn).enqueue_many([NewJob(kind="b")] * 2)
                assert [answer.ordinal for answer in many] == [1, 2]
                assert db.claim("w", max_jobs=10) == []
            with pytest.raises(InvalidArgument):
                await AsyncClient(conn).enqueue("NO")

    asyncio.run(produce())
    assert [claim.kind for claim in db.claim("w", max_jobs=10)] == ["a", "b", "b"]


def test_enqueue_sql_is_for_other_drivers_of_the_transaction(conn: Connection) -> None:
    sql, values = client.enqueue_sql("k", {"a": 1}, priority=9)
    assert conn.execute(sql, values).fetchone() == (1, True)


# -- listening


def test_a_listener_knows_whether_it_still_listens(db: Client, conn: Connection) -> None:
    assert not db.is_listening()
    db.listen()
    assert db.is_listening()
    conn.execute("notify rowlock, 'q'")
    assert [n.payload for n in db.conn.notifies(timeout=5, stop_after=1)] == ["q"]


def test_rows_name_each_column_once() -> None:
    for call in CALLS:
        if call.columns:
            assert len(set(call.columns)) == len(call.columns)
            assert len(call.columns) <= len(fields(call.row))
