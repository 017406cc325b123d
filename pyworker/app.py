"""An application's kinds of job: how they are declared, and how their jobs are enqueued.

app = App()

@app.job("email.send", queue="email", max_attempts=8, lease="30s", timeout="2m")
def send_email(payload: SendEmail, job: Job) -> dict[str, bool]: ...

with psycopg.connect() as conn, conn.transaction():
    conn.execute("insert into orders ...")
    send_email.enqueue(SendEmail("a@b.example"), conn=conn, delay="5m", key="order-42")
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import select
import sys
import threading
import typing
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypeVar, overload

import psycopg

from pyworker.client import (
    MAX_BATCH,
    AsyncClient,
    Client,
    Enqueued,
    EnqueuedOne,
    NewJob,
    connect,
    enqueue_sql,
    resolve,
)
from pyworker.durations import optional_duration
from pyworker.errors import InvalidArgument, Unavailable
from pyworker.job import Job
from pyworker.payloads import PayloadType, payload_type

P = TypeVar("P")

Span = str | float | timedelta
SyncConnection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]
ParamStyle = Literal["format", "numeric", "named"]


class Handler(Generic[P]):
    """A kind of job: what runs it, and the defaults its jobs are enqueued with.

    Still callable as the function it was made from.
    """

    __name__: str

    def __init__(
        self,
        app: App,
        function: Callable[..., Any],
        kind: str,
        queue: str,
        priority: int | None,
        max_attempts: int | None,
        lease: timedelta | None,
        timeout: timedelta | None,
        local_names: Mapping[str, Any],
    ) -> None:
        functools.update_wrapper(self, function)
        self.app = app
        self.function = function
        self.kind = kind
        self.queue = queue
        self.priority = priority
        self.max_attempts = max_attempts
        self.lease = lease
        self.timeout = timeout
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004
        )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"the handler of {kind} is a generator: nobody would run it")
        self.takes_job = _takes_job(function, kind)
        self._local_names = local_names
        self._type: PayloadType | None = None

    def __repr__(self) -> str:
        return f"<Handler {self.kind}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def type(self) -> PayloadType:
        """Looked up when first needed, so that an annotation may name what is defined later."""
        if self._type is None:
            self._type = payload_type(_payload_annotation(self.function, self._local_names))
        return self._type

    @overload
    def enqueue(
        self,
        payload: P | Mapping[str, Any] | None = None,
        *,
        conn: AsyncConnection,
        queue: str | None = None,
        priority: int | None = None,
        available_at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        max_attempts: int | None = None,
        lease: Span | None = None,
        timeout: Span | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Awaitable[Enqueued]: ...

    @overload
    def enqueue(
        self,
        payload: P | Mapping[str, Any] | None = None,
        *,
        conn: SyncConnection | None = None,
        queue: str | None = None,
        priority: int | None = None,
        available_at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        max_attempts: int | None = None,
        lease: Span | None = None,
        timeout: Span | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Enqueued: ...

    def enqueue(
        self,
        payload: P | Mapping[str, Any] | None = None,
        *,
        conn: SyncConnection | AsyncConnection | None = None,
        **options: Any,
    ) -> Enqueued | Awaitable[Enqueued]:
        """A new job of this kind, in the caller's transaction when `conn` is in one.

        Without `conn` on a connection of the app's own, committed at once. `key` is the
        idempotency key: a second job with it is not made (`created` False). Raises PayloadInvalid
        before any SQL when the payload does not fit the handler's annotation.
        """
        return self.app._enqueue(self.new_job(payload, **options), conn)

    def new_job(
        self,
        payload: P | Mapping[str, Any] | None = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        available_at: datetime | None = None,
        delay: Span | None = None,
        key: str | None = None,
        max_attempts: int | None = None,
        lease: Span | None = None,
        timeout: Span | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> NewJob:
        """A job for `app.enqueue_many`, checked as `enqueue` checks it."""
        return NewJob(
            kind=self.kind,
            payload=self.type.dump({} if payload is None else payload),
            queue=queue or self.queue,
            priority=self.priority if priority is None else priority,
            available_at=available_at,
            delay=optional_duration(delay),
            max_attempts=self.max_attempts if max_attempts is None else max_attempts,
            lease=self.lease if lease is None else optional_duration(lease),
            timeout=self.timeout if timeout is None else optional_duration(timeout),
            idempotency_key=key,
            headers=headers,
        )


class App:
    """The kinds an application has, and where their jobs are.

    The database is `url`, else ROWLOCK_DATABASE_URL, DATABASE_URL or libpq's variables; it is not
    looked at before the first job is enqueued without a connection.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = url
        self.handlers: dict[str, Handler[Any]] = {}
        self._producer = _Producer(self)

    def job(
        self,
        kind: str,
        *,
        queue: str = "default",
        priority: int | None = None,
        max_attempts: int | None = None,
        lease: Span | None = None,
        timeout: Span | None = None,
    ) -> _Decorator:
        """Declares the handler of a kind.

        The handler takes the payload, or the payload and a `Job`; it may be a coroutine function.
        What it returns, JSON, becomes the job's result. Numbers and durations are the defaults of
        the jobs enqueued through the handler; None leaves them to the queue's policy.
        """
        if not isinstance(kind, str):
            raise TypeError('a handler needs the name of its kind: @app.job("email.send")')
        return _Decorator(
            self,
            kind,
            {
                "queue": queue,
                "priority": priority,
                "max_attempts": max_attempts,
                "lease": optional_duration(lease),
                "timeout": optional_duration(timeout),
            },
            # An annotation may name a class of the function that the handler is declared in.
            sys._getframe(1).f_locals,
        )

    @overload
    def enqueue(
        self, kind: str, payload: Any = None, *, conn: AsyncConnection, **options: Any
    ) -> Awaitable[Enqueued]: ...

    @overload
    def enqueue(
        self, kind: str, payload: Any = None, *, conn: SyncConnection | None = None, **options: Any
    ) -> Enqueued: ...

    def enqueue(
        self,
        kind: str,
        payload: Any = None,
        *,
        conn: SyncConnection | AsyncConnection | None = None,
        **options: Any,
    ) -> Enqueued | Awaitable[Enqueued]:
        """As `Handler.enqueue`, by name: the kind need not be declared in this process."""
        return self._enqueue(self.new_job(kind, payload, **options), conn)

    def new_job(self, kind: str, payload: Any = None, **options: Any) -> NewJob:
        """A job for `enqueue_many`, by name."""
        handler = self.handlers.get(kind)
        if handler is None:
            handler = Handler(self, _undeclared, kind, "default", None, None, None, None, {})
        return handler.new_job(payload, **options)

    @overload
    def enqueue_many(
        self, jobs: Iterable[NewJob], *, conn: AsyncConnection
    ) -> Awaitable[list[EnqueuedOne]]: ...

    @overload
    def enqueue_many(
        self, jobs: Iterable[NewJob], *, conn: SyncConnection | None = None
    ) -> list[EnqueuedOne]: ...

    def enqueue_many(
        self,
        jobs: Iterable[NewJob],
        *,
        conn: SyncConnection | AsyncConnection | None = None,
    ) -> list[EnqueuedOne] | Awaitable[list[EnqueuedOne]]:
        """Any number of jobs from `new_job`, all or none; answers in the order given."""
        given = list(jobs)
        if isinstance(conn, psycopg.AsyncConnection):
            return _enqueue_many_async(conn, given)
        with self._producer.using(conn) as mine:
            return _enqueue_many(mine, given)

    def enqueue_sql(
        self, kind: str, payload: Any = None, *, paramstyle: ParamStyle = "format", **options: Any
    ) -> tuple[str, Any]:
        """The call as (SQL, parameters), for a driver or an ORM that has the transaction.

        `paramstyle`: format (%s, a list; psycopg and Django), numeric ($1, a list; asyncpg) or
        named (:p1, a dict; SQLAlchemy's text()). The row is (job_id, created).
        """
        job = self.new_job(kind, payload, **options)
        sql, values = enqueue_sql(
            job.kind, job.payload, job.queue, job.priority, job.available_at, job.delay,
            job.max_attempts, job.lease, job.timeout, job.idempotency_key, job.headers,
        )  # fmt: skip
        return _in_style(sql, values, paramstyle)

    def close(self) -> None:
        """Closes the connection that jobs without one were enqueued on, if there is any."""
        self._producer.close()

    def _enqueue(
        self, job: NewJob, conn: SyncConnection | AsyncConnection | None
    ) -> Enqueued | Awaitable[Enqueued]:
        values = (
            job.kind, job.payload, job.queue, job.priority, job.available_at, job.delay,
            job.max_attempts, job.lease, job.timeout, job.idempotency_key, job.headers,
        )  # fmt: skip
        if isinstance(conn, psycopg.AsyncConnection):
            return AsyncClient(conn).enqueue(*values)
        with self._producer.using(conn) as mine:
            return Client(mine).enqueue(*values)


class _Decorator:
    """What `app.job(...)` returns: a class, so that the payload's type survives it."""

    def __init__(
        self, app: App, kind: str, defaults: dict[str, Any], local_names: Mapping[str, Any]
    ) -> None:
        self._app = app
        self._kind = kind
        self._defaults = defaults
        self._local_names = local_names

    @overload
    def __call__(self, function: Callable[[P, Job], Any]) -> Handler[P]: ...

    @overload
    def __call__(self, function: Callable[[P], Any]) -> Handler[P]: ...

    def __call__(self, function: Callable[..., Any]) -> Handler[Any]:
        known = self._app.handlers.get(self._kind)
        if known is not None and not _is_redefined(known.function, function):
            raise InvalidArgument(
                f"kind {self._kind} has a handler already: {_name_of(known.function)}",
                hint="Give one of them another kind.",
            )
        handler: Handler[Any] = Handler(
            self._app, function, self._kind, local_names=self._local_names, **self._defaults
        )
        self._app.handlers[self._kind] = handler
        return handler


class _Producer:
    """The connection for jobs enqueued without one: opened when first needed, shared by threads."""

    def __init__(self, app: App) -> None:
        self._app = app
        _producers.add(self)
        self._begin()
        self.lent: SyncConnection | None = None
        """A connection to use instead: tests run on one that is rolled back."""

    def _begin(self) -> None:
        """Without a connection, in a forked child too: that of the parent is the parent's."""
        self._lock = threading.Lock()
        self._conn: SyncConnection | None = None

    @contextlib.contextmanager
    def using(self, conn: SyncConnection | None) -> Iterator[SyncConnection]:
        conn = conn or self.lent
        if conn is not None:
            if not hasattr(conn, "pgconn"):
                raise InvalidArgument(
                    f"conn must be a psycopg connection, not {type(conn).__name__}",
                    hint="app.enqueue_sql() gives the call to another driver or an ORM.",
                )
            yield conn
            return
        with self._lock:
            if self._conn is None or self._conn.closed or _was_hung_up(self._conn):
                self._close()
                self._conn = connect(resolve(self._app.url).url, "producer")
            try:
                yield self._conn
            except Unavailable:
                # Whether the job was made is unknown; the next one gets a connection that works.
                self._close()
                raise

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None


_producers: weakref.WeakSet[_Producer] = weakref.WeakSet()


def _after_fork() -> None:
    for producer in list(_producers):
        producer._begin()


os.register_at_fork(after_in_child=_after_fork)


def _was_hung_up(conn: SyncConnection) -> bool:
    """Whether the server closed an idle connection: it has something to read, unasked."""
    poll = select.poll()
    poll.register(conn.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _enqueue_many(conn: SyncConnection, jobs: list[NewJob]) -> list[EnqueuedOne]:
    if len(jobs) <= MAX_BATCH:
        return Client(conn).enqueue_many(jobs) if jobs else []
    with conn.transaction():
        return [
            _shifted(each, start)
            for start in range(0, len(jobs), MAX_BATCH)
            for each in Client(conn).enqueue_many(jobs[start : start + MAX_BATCH])
        ]


async def _enqueue_many_async(conn: AsyncConnection, jobs: list[NewJob]) -> list[EnqueuedOne]:
    if len(jobs) <= MAX_BATCH:
        return await AsyncClient(conn).enqueue_many(jobs) if jobs else []
    async with conn.transaction():
        return [
            _shifted(each, start)
            for start in range(0, len(jobs), MAX_BATCH)
            for each in await AsyncClient(conn).enqueue_many(jobs[start : start + MAX_BATCH])
        ]


def _shifted(answer: EnqueuedOne, start: int) -> EnqueuedOne:
    return EnqueuedOne(answer.ordinal + start, answer.job_id, answer.created)


def _in_style(sql: str, values: list[Any], paramstyle: ParamStyle) -> tuple[str, Any]:
    if paramstyle == "format":
        return sql, values
    pieces = sql.split("%s")
    if paramstyle == "numeric":
        marks = [f"${i}" for i in range(1, len(values) + 1)]
        return "".join(map("".join, zip(pieces, [*marks, ""], strict=True))), values
    if paramstyle == "named":
        # `::text` would read as a parameter in SQLAlchemy's text() if the name were glued to it.
        marks = [f"(:p{i})" for i in range(1, len(values) + 1)]
        names = {f"p{i}": value for i, value in enumerate(values, start=1)}
        return "".join(map("".join, zip(pieces, [*marks, ""], strict=True))), names
    raise InvalidArgument(
        f"no such paramstyle: {paramstyle}", hint="One of format, numeric, named."
    )


def _name_of(function: Callable[..., Any]) -> str:
    name = str(getattr(function, "__qualname__", function))
    return f"{getattr(function, '__module__', None) or '?'}.{name}"


def _is_redefined(old: Callable[..., Any], new: Callable[..., Any]) -> bool:
    """Whether both are one piece of source: its module was imported twice, reloaded or typed anew.

    As __main__ and by its name a module has two names and one file; in a notebook each cell has a
    file, and all have one module.
    """
    if _name_of(old) == _name_of(new) and "<lambda>" not in _name_of(new):
        return True
    places = [_place_of(each) for each in (old, new)]
    return places[0] is not None and places[0] == places[1]


def _place_of(function: Callable[..., Any]) -> tuple[str, str, int] | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _undeclared(payload: Any) -> None:
    raise NotImplementedError


def _parameters(function: Callable[..., Any]) -> Sequence[inspect.Parameter]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in positional
    ]


def _takes_job(function: Callable[..., Any], kind: str) -> bool:
    parameters = _parameters(function)
    required = [each for each in parameters if each.default is inspect.Parameter.empty]
    if not parameters or len(required) > 2:
        raise TypeError(f"the handler of {kind} must take (payload) or (payload, job)")
    if len(parameters) == 1:
        return False
    second = parameters[1]
    return second in required or second.name == "job" or _names_job(second.annotation)


def _names_job(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "Job" in re.findall(r"\w+", annotation)
    return annotation is Job or Job in typing.get_args(annotation)


def _payload_annotation(function: Callable[..., Any], local_names: Mapping[str, Any]) -> Any:
    first = _parameters(function)[0]
    if first.annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(first.annotation, str):
        return first.annotation
    # Only this one is evaluated: other annotations may name what is imported for type checkers.
    names = {**getattr(inspect.unwrap(function), "__globals__", {}), **local_names}
    try:
        return typing.get_type_hints(_annotated_as(first.annotation), names, include_extras=True)[
            "payload"
        ]
    except NameError as exc:
        raise TypeError(f"the payload type {first.annotation} is not known: {exc}") from exc


def _annotated_as(annotation: str) -> Any:
    holder = type("holder", (), {})
    holder.__annotations__ = {"payload": annotation}
    return holder
