"""Declaring kinds, and enqueueing their jobs in the caller's transaction."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from pyworker import App, Client, Job, PayloadInvalid
from pyworker.errors import InvalidArgument, KeyReused, RowlockError, Unavailable
from tests.workers import client_of, jobs


@dataclass
class Email:
    to: str
    template: str = "welcome"


@pytest.fixture
def app(url: str) -> Iterator[App]:
    app = App(url)
    yield app
    app.close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    client = client_of(url)
    yield client
    client.conn.close()


# -- declaring ---------------------------------------------------------------------------------


def test_a_handler_is_still_the_function() -> None:
    app = App()

    @app.job("add")
    def add(payload: dict[str, int]) -> int:
        """Adds."""
        return payload["a"] + payload["b"]

    assert add({"a": 1, "b": 2}) == 3
    assert (add.kind, add.__name__, add.__doc__) == ("add", "add", "Adds.")
    assert app.handlers == {"add": add}


def test_who_takes_the_job() -> None:
    app = App()

    def one(payload: Any) -> None: ...

    def two(payload: Any, context: Any) -> None: ...

    assert not app.job("one")(one).takes_job
    assert app.job("two")(two).takes_job

    def default(payload: Any, retries: int = 3) -> None: ...

    assert not app.job("default")(default).takes_job

    @app.job("annotated")
    def annotated(payload: dict[str, Any], context: Job | None = None) -> None: ...

    @app.job("named")
    def named(payload: dict[str, Any], job: Any = None) -> None: ...

    assert annotated.takes_job
    assert named.takes_job
    with pytest.raises(TypeError, match=r"must take \(payload\) or \(payload, job\)"):
        app.job("none")(lambda: None)  # type: ignore[arg-type,misc]
    with pytest.raises(TypeError, match="must take"):
        app.job("three")(lambda a, b, c: None)  # type: ignore[arg-type,misc]


def test_a_kind_has_one_handler() -> None:
    app = App()

    @app.job("twice")
    def first(payload: Any) -> None: ...

    with pytest.raises(InvalidArgument, match="has a handler already"):

        @app.job("twice")
        def second(payload: Any) -> None: ...


def test_of_two_sources_none_takes_the_others_kind() -> None:
    """Though their functions have one name; one source that is read twice declares it anew."""
    source = """
@app.job("named")
def handle(payload): return where
app.job("short")(lambda payload: where)
"""
    app = App()

    def read(module: str, file: str) -> None:
        names = {"app": app, "where": module, "__name__": module}
        exec(compile(source, file, "exec"), names)

    read("__main__", "/srv/mail.py")
    read("mail", "/srv/mail.py")
    assert app.handlers["named"]({}) == "mail"
    with pytest.raises(InvalidArgument, match=r"named has a handler already: mail\.handle"):
        read("sms", "/srv/sms.py")
    with pytest.raises(InvalidArgument, match="short has a handler already"):
        app.job("short")(lambda payload: "another")


def test_a_generator_is_no_handler() -> None:
    def plain(payload: Any) -> Iterator[int]:
        yield 1

    async def coroutine(payload: Any) -> AsyncIterator[int]:
        yield 1

    for function in (plain, coroutine):
        with pytest.raises(TypeError, match="the handler of k is a generator"):
            App().job("k")(function)


def test_a_decorator_needs_the_kind() -> None:
    with pytest.raises(TypeError, match="name of its kind"):

        @App().job  # type: ignore[arg-type]
        def handler(payload: Any) -> None: ...


def test_an_annotation_may_name_a_class_of_the_function_around() -> None:
    @dataclass
    class Local:
        n: int

    @App().job("local")
    def local(payload: Local) -> None: ...

    assert local.type.load({"n": 1}) == Local(1)


def test_an_annotation_that_nobody_knows_is_said() -> None:
    @App().job("odd")
    def odd(payload: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="Nowhere"):
        _ = odd.type


# -- enqueueing --------------------------------------------------------------------------------


def test_a_job_has_what_its_kind_declares_and_its_caller_says(app: App, client: Client) -> None:
    @app.job("email.send", queue="email", max_attempts=8, lease="30s", timeout="2m", priority=7)
    def send(payload: Email) -> None: ...

    job = client.get_job(send.enqueue(Email("a@b.example")).job_id)
    assert job.payload == {"to": "a@b.example", "template": "welcome"}
    assert (job.queue, job.max_attempts, job.priority) == ("email", 8, 7)
    assert (job.lease, job.timeout) == (timedelta(seconds=30), timedelta(minutes=2))

    job = client.get_job(
        send.enqueue(
            {"to": "c@d.example"},
            queue="other",
            priority=0,
            delay="5m",
            key="order-42",
            max_attempts=1,
            lease="1m",
            timeout=10,
            headers={"trace": "t"},
        ).job_id
    )
    assert (job.queue, job.max_attempts, job.priority) == ("other", 1, 0)
    assert (job.lease, job.timeout) == (timedelta(minutes=1), timedelta(seconds=10))
    assert (job.idempotency_key, job.headers) == ("order-42", {"trace": "t"})
    assert job.available_at - job.created_at == timedelta(minutes=5)


def test_enqueue_is_part_of_the_callers_transaction(app: App, url: str, client: Client) -> None:
    @app.job("k")
    def k(payload: dict[str, Any]) -> None: ...

    with psycopg.connect(url) as conn:
        k.enqueue({}, conn=conn)
        assert not jobs(client), "visible before the commit"
        conn.rollback()
        assert not jobs(client)
        k.enqueue({}, conn=conn)
    assert len(jobs(client)) == 1


def test_enqueue_on_an_async_connection(app: App, url: str, client: Client) -> None:
    @app.job("k")
    async def k(payload: dict[str, Any]) -> None: ...

    async def enqueue() -> tuple[int, bool, int]:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            first = await k.enqueue({"n": 1}, conn=conn, key="one")
            second = await app.enqueue("k", {"n": 1}, conn=conn, key="one")
            assert first.job_id == second.job_id
            many = await app.enqueue_many([k.new_job({}) for _ in range(1500)], conn=conn)
            return first.job_id, second.created, many[-1].ordinal

    job_id, created, last = asyncio.run(enqueue())
    assert not created
    assert last == 1500
    assert client.get_job(job_id).payload == {"n": 1}


def test_a_key_makes_one_job(app: App, client: Client) -> None:
    @app.job("k")
    def k(payload: dict[str, Any]) -> None: ...

    first, second = k.enqueue({"n": 1}, key="a"), k.enqueue({"n": 1}, key="a")
    assert (first.created, second.created) == (True, False)
    assert first.job_id == second.job_id
    with pytest.raises(KeyReused):
        k.enqueue({"n": 2}, key="a")


def test_a_payload_that_does_not_fit_never_reaches_the_database() -> None:
    app = App("postgresql://nobody@127.0.0.1:1/nowhere")

    @app.job("k")
    def k(payload: Email) -> None: ...

    with pytest.raises(PayloadInvalid):
        k.enqueue({"template": "x"})
    with pytest.raises(PayloadInvalid):
        app.enqueue("k", {"to": 5})
    with pytest.raises(Unavailable):
        k.enqueue(Email("a"))


def test_naive_instants_are_refused(app: App) -> None:
    @app.job("k")
    def k(payload: dict[str, Any]) -> None: ...

    with pytest.raises(InvalidArgument, match="naive"):
        k.enqueue({}, available_at=datetime(2030, 1, 1))
    assert k.enqueue({}, available_at=datetime(2030, 1, 1, tzinfo=UTC)).created


def test_many_are_all_or_nothing_whatever_their_number(app: App, url: str, client: Client) -> None:
    @app.job("k")
    def k(payload: dict[str, Any]) -> None: ...

    answers = app.enqueue_many([k.new_job({"n": n}) for n in range(2500)])
    assert [answer.ordinal for answer in answers] == list(range(1, 2501))
    assert len({answer.job_id for answer in answers}) == 2500
    assert client.get_job(answers[1999].job_id).payload == {"n": 1999}

    taken = [k.new_job({"n": n}, key=f"key-{n}") for n in range(1500)]
    app.enqueue_many(taken[:1])
    bad = [*taken[1:], k.new_job({"n": "other"}, key="key-0")]
    with pytest.raises(KeyReused):
        app.enqueue_many(bad)
    row = client.conn.execute(
        "select count(*) from queue.jobs where idempotency_key is not null"
    ).fetchone()
    assert row == (1,)
    assert app.enqueue_many([]) == []


def test_the_apps_connection_is_made_anew_when_the_server_hung_up(
    app: App, client: Client, conn: psycopg.Connection[Any]
) -> None:
    app.enqueue("k")
    ended = conn.execute(
        "select count(pg_terminate_backend(pid, 5000)) from pg_stat_activity"
        " where application_name = 'rowlock:producer'"
    ).fetchone()
    assert ended == (1,)
    assert app.enqueue("k").created
    assert len(jobs(client)) == 2


def test_a_refused_call_leaves_the_apps_connection_usable(app: App) -> None:
    with pytest.raises(InvalidArgument):
        app.enqueue("NOT A KIND")
    assert app.enqueue("k").created


def test_a_forked_process_has_a_connection_of_its_own(app: App, client: Client) -> None:
    app.enqueue("before")
    with app._producer._lock:
        # As if another thread enqueued at this moment: nobody lets go of the child's copy.
        child = os.fork()
        if not child:
            signal.alarm(10)
            with contextlib.suppress(BaseException):
                app.enqueue("in.child")
                os._exit(0)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    app.enqueue("after")
    assert {job.kind for job in jobs(client)} == {"before", "in.child", "after"}


def test_enqueue_in_a_pipeline_makes_one_job(app: App, url: str, client: Client) -> None:
    with psycopg.connect(url) as conn, conn.pipeline():
        made = app.enqueue("k", conn=conn)
        assert app.enqueue_many([app.new_job("k")], conn=conn)[0].created
    assert [job.id for job in jobs(client)][-1] == made.job_id
    assert len(jobs(client)) == 2


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"conn": "postgresql://"}, "conn must be a psycopg connection, not str"),
        ({"priority": "high"}, "priority must be a whole number, not str"),
        ({"priority": 1.5}, "priority must be a whole number, not float"),
        ({"max_attempts": 2**70}, "max_attempts 2147483647 is out of range"),
        ({"headers": ["a"]}, "headers must be a mapping, not list"),
    ],
)
def test_what_makes_no_sense_is_named(app: App, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=complaint):
        app.enqueue("k", **options)


def test_a_transaction_that_failed_before_says_so(app: App, url: str) -> None:
    with psycopg.connect(url) as conn:
        with pytest.raises(psycopg.Error):
            conn.execute("select 1 / 0")
        with pytest.raises(RowlockError) as refused:
            app.enqueue("k", conn=conn)
    assert "roll it back first" in (refused.value.hint or "")


@pytest.mark.parametrize("paramstyle", ["format", "numeric", "named"])
def test_enqueue_sql_for_other_drivers(
    app: App, conn: psycopg.Connection[Any], client: Client, paramstyle: Any
) -> None:
    @app.job("k", queue="q")
    def k(payload: Email) -> None: ...

    sql, parameters = app.enqueue_sql(
        "k", Email("a@b.example"), paramstyle=paramstyle, delay="1h", key="one"
    )
    if paramstyle == "named":
        # As SQLAlchemy's text() does it.
        for name in sorted(parameters, key=len, reverse=True):
            sql = sql.replace(f":{name}", f"%({name})s")
    if paramstyle == "numeric":
        raw = psycopg.RawCursor(conn)
        row = raw.execute(sql, parameters).fetchone()
    else:
        row = conn.execute(sql, parameters).fetchone()
    assert row is not None
    job = client.get_job(row[0])
    assert row[1] is True
    assert (job.kind, job.queue, job.payload["to"]) == ("k", "q", "a@b.example")

    with pytest.raises(InvalidArgument):
        app.enqueue_sql("k", Email("a"), paramstyle="qmark")  # type: ignore[arg-type]
