"""Every function of schema `queue` as a method of the same name: the only SQL text of the shell.

    with connect(resolve().url, "shop") as conn:
        made = Client(conn).enqueue("email.send", {"to": "a@b.example"}, delay=timedelta(minutes=5))

Arguments have the names, the order and the defaults of the SQL function. Rows are frozen
dataclasses. Durations are timedelta, instants are aware datetimes: the clock is the database's, and
a naive datetime is refused. Errors are those of `errors.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from decimal import Decimal
from operator import attrgetter, index
from typing import Any, Generic, Literal, NoReturn, TypeVar

import psycopg
from psycopg import conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from pyworker.errors import (
    ClaimLost,
    InvalidArgument,
    RowlockError,
    Unavailable,
    WrongState,
    translate,
)

log = logging.getLogger("rowlock.client")

CHANNEL = "rowlock"
MAX_BATCH = 1000

# --------------------------------------------------------------------------------------------
# Where the database is
# --------------------------------------------------------------------------------------------

_URL_VARIABLES = ("ROWLOCK_DATABASE_URL", "DATABASE_URL")
_LIBPQ_VARIABLES = ("PGSERVICE", "PGHOST", "PGHOSTADDR", "PGDATABASE", "PGPORT", "PGUSER")


@dataclass(frozen=True, slots=True)
class Location:
    """A database somebody named. `str()` of it is safe to print: it has no password."""

    url: str = field(repr=False)
    source: str

    def __str__(self) -> str:
        return f"{describe(self.url)} (from {self.source})"


def resolve(database_url: str | None = None) -> Location:
    """The database to use: the argument, ROWLOCK_DATABASE_URL, DATABASE_URL, libpq's variables.

    Raises Unavailable when none of them names one, InvalidArgument when the first that is set
    cannot be read.
    """
    named = [("--database-url", database_url)]
    named += [(variable, os.environ.get(variable)) for variable in _URL_VARIABLES]
    for source, url in named:
        if url:
            # SQLAlchemy's way of naming the driver is common in DATABASE_URL.
            url = re.sub(r"^(postgres(?:ql)?)\+\w+://", r"\1://", url)
            _parse(url, source)
            return Location(url, source)

    libpq = [variable for variable in _LIBPQ_VARIABLES if os.environ.get(variable)]
    if libpq:
        return Location("", ", ".join(libpq))

    raise Unavailable(
        "no database is named",
        hint="Give --database-url, or set ROWLOCK_DATABASE_URL, DATABASE_URL, "
        "or libpq's own variables (PGHOST, PGSERVICE, ...).",
    )


def describe(url: str) -> str:
    """`postgresql://user@host:port/dbname` as libpq will read it, without the password."""
    given = _parse(url, "the database URL")
    known = {
        option.keyword.decode(): option.val.decode() if option.val is not None else None
        for option in psycopg.pq.Conninfo.get_defaults()
    }
    known.update({name: str(value) for name, value in given.items() if value is not None})

    service = known.get("service")
    if service and not given.get("host") and not os.environ.get("PGHOST"):
        return f"service {service}"
    user = known.get("user") or ""
    hosts = (known.get("host") or known.get("hostaddr") or "local socket").split(",")
    ports = (known.get("port") or "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    places = [
        f"[{host}]" if host.startswith(("/", "@", "local ")) else f"{host}:{port or 5432}"
        for host, port in zip(hosts, ports, strict=False)
    ]
    return f"postgresql://{user}@{','.join(places)}/{known.get('dbname') or user}"


def _parse(url: str, source: str) -> dict[str, Any]:
    try:
        return dict(conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        # libpq quotes the piece it stumbled over, which may be the password: `from None`.
        raise InvalidArgument(
            f"{source} is not a PostgreSQL connection string",
            hint="It reads postgresql://user:password@host:port/dbname; "
            "characters such as @ : / in a password are written %40 %3A %2F.",
        ) from None


# --------------------------------------------------------------------------------------------
# Connections
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take before it is given up. Zero means no limit."""

    lock_timeout: timedelta = timedelta(seconds=2)
    statement_timeout: timedelta = timedelta(seconds=15)

    def settings(self) -> dict[str, str]:
        return {
            "lock_timeout": f"{_milliseconds(self.lock_timeout)}ms",
            "statement_timeout": f"{_milliseconds(self.statement_timeout)}ms",
        }


class Connection(psycopg.Connection[TupleRow]):
    """A connection of Rowlock's own. `pooled`: the server is behind a pooler such as pgbouncer."""

    limits: Limits = Limits()
    pooled: bool = False


def connect(
    url: str,
    role: str,
    *,
    worker: str | None = None,
    limits: Limits | None = None,
    connect_timeout: int = 5,
    tcp_user_timeout: timedelta = timedelta(seconds=10),
    opened: Callable[[Connection], None] | None = None,
) -> Connection:
    """A connection whose every call has a time limit.

    autocommit, READ COMMITTED whatever the database's default, times in UTC, named
    `rowlock:<worker>:<role>` in pg_stat_activity (`rowlock:<role>` without a worker).

    A dead peer is noticed within about `tcp_user_timeout`. What the URL itself sets wins. Behind a
    pooler no session state is set: server-side prepared statements are off and `Client` sets the
    limits in each call's transaction. `opened` is told of the connection before its first call,
    which has no limit yet: a watchdog can hang it up. Raises Unavailable.
    """
    limits = limits or Limits()
    given = _parse(url, "the database URL")
    options: dict[str, Any] = {
        "connect_timeout": connect_timeout,
        "tcp_user_timeout": _milliseconds(tcp_user_timeout),
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    if "," in str(given.get("host") or os.environ.get("PGHOST") or ""):
        options["target_session_attrs"] = os.environ.get("PGTARGETSESSIONATTRS", "read-write")
    options = {name: value for name, value in options.items() if name not in given}

    try:
        conn = Connection.connect(
            url,
            autocommit=True,
            client_encoding="UTF8",
            application_name=f"rowlock:{worker}:{role}" if worker else f"rowlock:{role}",
            **options,
        )
    except psycopg.Error as exc:
        raise translate(exc) from exc
    if opened is not None:
        opened(conn)
    try:
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        conn.limits = limits
        _set_session(conn)
    except psycopg.Error as exc:
        conn.close()
        raise translate(exc) from exc
    return conn


def _set_session(conn: Connection) -> None:
    found = conn.execute("select pg_backend_pid()").fetchone()
    # A pooler makes up the key that its clients would cancel with, so that the two differ.
    conn.pooled = found is not None and found[0] != conn.info.backend_pid
    if conn.pooled:
        conn.prepare_threshold = None
        return
    settings = {
        **conn.limits.settings(),
        "default_transaction_isolation": "read committed",
        "timezone": "UTC",
        "intervalstyle": "postgres",
    }
    each = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    conn.execute(f"select {each}", [text for pair in settings.items() for text in pair])


def _milliseconds(span: timedelta) -> int:
    return round(span.total_seconds() * 1000)


# --------------------------------------------------------------------------------------------
# Values on their way out and in
# --------------------------------------------------------------------------------------------


class JsonText(str):
    """JSON that is text already, sent as it is; and how a value that Python cannot hold is read."""

    __slots__ = ()


# `dumps` and `loads` with arguments make anew, or look for, what these know once.
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


def encode_json(value: Any, name: str) -> JsonText:
    """`value` as JSON text, or InvalidArgument naming the argument: NaN, cycles, foreign types."""
    if isinstance(value, JsonText):
        return value
    try:
        return JsonText(_encode(value))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidArgument(
            f"{name} is not JSON: {exc}",
            hint="Use dict, list, str, int, float, bool and None.",
        ) from exc


def decode_json(text: str | None) -> Any:
    """The value of a JSON text. Raises ValueError for what Python cannot hold.

    jsonb holds numbers of 131,072 digits and any depth of nesting; Python stops at 4,300 digits
    and at its recursion limit.
    """
    if text is None:
        return None
    text = text.strip(" \t\n\r")
    try:
        value, end = _decode(text)
        return value if end == len(text) else json.loads(text)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def decode_headers(text: str | None) -> dict[str, Any]:
    """Trace context and tags: unreadable, they are no reason to keep a job from running."""
    try:
        return decode_json(text) or {}
    except ValueError:
        return {}


def _readable_json(text: str | None) -> Any:
    try:
        return decode_json(text)
    except ValueError:
        return JsonText(text)


def clean_text(text: str) -> str:
    """`text` with what PostgreSQL cannot store, NUL and lone surrogates, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


# An escaped NUL; a backslash that is itself escaped does not begin one.
_NUL_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def _clean_json(text: JsonText) -> JsonText:
    return JsonText(_NUL_ESCAPE.sub("\\1\ufffd", clean_text(text)))


# SQL cuts texts to their bounds; this only keeps a runaway message from being sent at all.
_LONGEST_TEXT = 100_000


def _text(value: str | None) -> str | None:
    return None if value is None else clean_text(str(value)[:_LONGEST_TEXT])


def _exact(value: str | None, name: str) -> str | None:
    """A producer's text goes as it is or not at all: a replaced character may change its sense."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {type(value).__name__}")
    if clean_text(value) != value:
        raise InvalidArgument(
            f"{name} holds NUL or a lone surrogate, which PostgreSQL cannot store",
            hint="Remove the character, or replace it by U+FFFD.",
        )
    return value


def _instant(value: datetime | None, name: str) -> datetime | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidArgument(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{name} is a naive datetime: {value.isoformat()}",
            hint="Give it a time zone, such as datetime.now(UTC), or use a delay.",
        )
    return value


def _whole(value: int | None, name: str) -> int | None:
    if value is None:
        return None
    try:
        # The database names the bounds; what it could not even read is as far out of them.
        return max(-(2**31), min(index(value), 2**31 - 1))
    except TypeError:
        raise InvalidArgument(
            f"{name} must be a whole number, not {type(value).__name__}"
        ) from None


def _object_out(value: Mapping[str, Any], name: str) -> JsonText:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{name} must be a mapping, not {type(value).__name__}")
    return encode_json(dict(value), name)


def _span(value: timedelta | None, name: str) -> timedelta | None:
    if value is not None and not isinstance(value, timedelta):
        raise InvalidArgument(f"{name} must be a timedelta, not {type(value).__name__}")
    return value


def _span_text(value: timedelta) -> str:
    """A form that every IntervalStyle reads alike."""
    return f"{value // timedelta(microseconds=1)} microseconds"


# --------------------------------------------------------------------------------------------
# What is sent in batches
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """One job of `enqueue_many`; fields as the arguments of `enqueue`, None for the default."""

    kind: str
    payload: Any = None
    queue: str | None = None
    priority: int | None = None
    available_at: datetime | None = None
    delay: timedelta | None = None
    max_attempts: int | None = None
    lease: timedelta | None = None
    timeout: timedelta | None = None
    idempotency_key: str | None = None
    headers: Mapping[str, Any] | None = None


_NEW_JOB = tuple(field.name for field in fields(NewJob))
_fields_of = attrgetter(*_NEW_JOB)


def _jobs_json(jobs: Iterable[NewJob | Mapping[str, Any]]) -> JsonText:
    """The batch as one JSON array. Errors name the job by its ordinal, as the server's do."""
    jobs = list(jobs)
    try:
        text = _encode([_plain_job(job) for job in jobs])
    except (TypeError, ValueError, RecursionError):
        text = None
    if text is None or clean_text(text) != text:
        text = f"[{','.join(_job_json(*each) for each in enumerate(jobs, start=1))}]"
        _exact(text, "jobs")
    return JsonText(text)


def _plain_job(job: NewJob | Mapping[str, Any]) -> dict[str, Any]:
    """The members of a job that is written in one go with its batch. Others raise, here or when
    written; `_job_json` takes those, and finds what is wrong."""
    if not isinstance(job, NewJob) or JsonText in (type(job.payload), type(job.headers)):
        raise TypeError
    values = zip(_NEW_JOB, _fields_of(job), strict=True)
    return {name: value for name, value in values if value is not None}


def _job_json(ordinal: int, job: NewJob | Mapping[str, Any]) -> str:
    if isinstance(job, NewJob):
        given: Mapping[str, Any] = {name: getattr(job, name) for name in _NEW_JOB}
    elif isinstance(job, Mapping):
        given = job
    else:
        raise InvalidArgument(f"job {ordinal} must be a NewJob or a mapping")

    members: list[str] = []
    for name, value in given.items():
        where = f"{name} of job {ordinal}"
        if value is None:
            continue
        if isinstance(value, timedelta):
            value = _span_text(value)
        elif isinstance(value, datetime):
            _instant(value, where)
            value = value.isoformat()
        elif isinstance(value, str) and not isinstance(value, JsonText) and name != "payload":
            _exact(value, where)
        members.append(f"{json.dumps(name)}:{encode_json(value, where)}")
    return "{" + ",".join(members) + "}"


OutcomeVerb = Literal["complete", "fail", "snooze", "release", "accept_cancel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer of `settle`: the verb and, beside the token, that verb's arguments."""

    job_id: int
    fence: int
    outcome: OutcomeVerb
    result: Any = None
    error_type: str | None = None
    message: str | None = None
    detail: Any = None
    retry_in: timedelta | None = None
    fatal: bool | None = None
    delay: timedelta | None = None
    reason: str | None = None

    def to_json(self) -> JsonText:
        """Raises InvalidArgument when the result or the detail is not JSON."""
        members: list[str] = []
        for member in fields(self):
            value = getattr(self, member.name)
            if value is None:
                continue
            if isinstance(value, timedelta):
                value = _span_text(value)
            members.append(f'"{member.name}":{_clean_json(encode_json(value, member.name))}')
        return JsonText("{" + ",".join(members) + "}")


# --------------------------------------------------------------------------------------------
# Rows
# --------------------------------------------------------------------------------------------


# A column that travels as text and is decoded here, so that one row cannot spoil a result.
_JSON = {"json": True}


@dataclass(frozen=True, slots=True)
class Enqueued:
    job_id: int
    created: bool


@dataclass(frozen=True, slots=True)
class EnqueuedOne:
    ordinal: int
    job_id: int
    created: bool


@dataclass(frozen=True, slots=True)
class Claim:
    """A job in this worker's hands. With `payload_error` set, `payload` is the unread JsonText."""

    job_id: int
    fence: int
    queue: str
    kind: str
    payload: Any = field(metadata=_JSON)
    attempt: int
    max_attempts: int
    lease: timedelta
    timeout: timedelta | None
    headers: dict[str, Any] = field(metadata=_JSON)
    created_at: datetime
    available_at: datetime
    payload_error: str | None = field(metadata={"local": True})


@dataclass(frozen=True, slots=True)
class Renewal:
    job_id: int
    fence: int
    verdict: Literal["held", "stop", "lost"]


@dataclass(frozen=True, slots=True)
class Transition:
    """A job as a call left it."""

    id: int
    status: str
    attempt: int
    available_at: datetime


@dataclass(frozen=True, slots=True)
class Cancelled:
    id: int
    status: str
    attempt: int
    available_at: datetime
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class Settlement:
    job_id: int
    fence: int
    verdict: Literal["accepted", "lost", "busy", "refused"]
    reason: str | None


@dataclass(frozen=True, slots=True)
class QueuePause:
    paused_at: datetime
    paused_until: datetime | None
    paused_by: str
    pause_reason: str | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, or what a queue has in its place; None where the settings hold."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TickStep:
    """The maintenance step that was done, None when none was due.

    `more`: call again at once. `due_in`: when the next call has something to do.
    """

    step: str | None
    processed: int | None
    more: bool
    due_in: timedelta | None


@dataclass(frozen=True, slots=True)
class Reaped:
    requeued: int
    failed: int
    cancelled: int
    set_aside: int


@dataclass(frozen=True, slots=True)
class Pruned:
    deleted: int
    more: bool


@dataclass(frozen=True, slots=True)
class RolledUp:
    counted: int
    more: bool


@dataclass(frozen=True, slots=True)
class Rotated:
    created: int
    dropped: int
    note: str | None


@dataclass(frozen=True, slots=True)
class CronJob:
    job: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job in full. `label` is the status in people's words: scheduled, ready, retrying, ..."""

    id: int
    queue: str
    kind: str
    payload: Any = field(metadata=_JSON)
    priority: int
    status: str
    label: str
    attempt: int
    max_attempts: int
    fence: int
    available_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: datetime | None
    deadline_at: datetime | None
    lease: timedelta | None
    timeout: timedelta | None
    cancel_requested_at: datetime | None
    idempotency_key: str | None
    progress: int | None
    progress_message: str | None
    result: Any = field(metadata=_JSON)
    error_type: str | None
    error_message: str | None
    error_group: str | None
    headers: dict[str, Any] = field(metadata=_JSON)
    created_by: str


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job as lists show it."""

    id: int
    queue: str
    kind: str
    priority: int
    status: str
    label: str
    attempt: int
    max_attempts: int
    available_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    idempotency_key: str | None
    progress: int | None
    progress_message: str | None
    error_type: str | None
    error_message: str | None
    error_group: str | None


@dataclass(frozen=True, slots=True)
class JobCount:
    """`capped`: there may be more."""

    jobs: int
    capped: bool


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the history."""

    id: int
    at: datetime
    job_id: int
    queue: str
    kind: str
    event: str
    from_status: str | None
    to_status: str
    attempt: int
    fence: int
    elapsed: timedelta | None
    worker: str | None
    actor: str | None
    detail: Any = field(metadata=_JSON)


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Some rows and where to go on. A page without rows is not the end: a None cursor is."""

    rows: list[R]
    next_cursor: str | None
    previous_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Counts stop one after `counted_to`."""

    queue: str
    ready: int
    scheduled: int
    retrying: int
    running: int
    failed: int
    oldest_ready_age: timedelta | None
    paused: bool
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    counted_to: int


@dataclass(frozen=True, slots=True)
class Stat:
    name: str
    priority: int | None
    value: Decimal
    capped: bool


@dataclass(frozen=True, slots=True)
class Check:
    check_name: str
    status: str
    detail: str
    hint: str | None


@dataclass(frozen=True, slots=True)
class Session:
    """What `rowlock doctor` asks the server beside health()."""

    server_version: int
    encoding: str
    read_only: bool
    login: str
    roles: list[str]
    has_schema: bool
    pg_cron: str | None


@dataclass(frozen=True, slots=True)
class Writer:
    """A transaction that has written and is still open, in any database of the cluster.

    `since` is None where the login may not see it; `age` counts transactions begun meanwhile.
    """

    pid: int
    database: str
    application_name: str
    state: str | None
    since: datetime | None
    age: int


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """`state`: live, or gone with leases still running out."""

    worker: str
    sessions: int
    started_at: datetime | None
    running: int
    oldest_lease_left: timedelta | None
    state: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """What happened from `at` until the next row's."""

    at: datetime
    enqueued: int
    started: int
    succeeded: int
    failed: int
    retried: int
    expired: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in seconds; None where nothing was claimed or ended."""

    at: datetime
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None


@dataclass(frozen=True, slots=True)
class KindStatus:
    """What became of the jobs of one kind."""

    kind: str
    enqueued: int
    started: int
    succeeded: int
    failed: int
    retried: int
    expired: int
    mean_wait: timedelta | None
    mean_run: timedelta | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed jobs that went wrong alike. `capped`: of the last 10,000 to fail, there are more."""

    error_group: str
    kind_of_job: str
    error_type: str
    error_message: str
    jobs: int
    last_hour: int
    last_day: int
    last_week: int
    first_at: datetime
    last_at: datetime
    sample_id: int
    capped: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a job. `outcome`: the event that ended it, None while it runs."""

    fence: int
    attempt: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    elapsed: timedelta | None
    error_type: str | None
    error_message: str | None
    error_detail: Any = field(metadata=_JSON)
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the caller may do. `counters_age`: how old the counters are at most."""

    role: str
    read_only: bool
    version: str | None
    server_version: str
    counters_age: timedelta


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of Prometheus' text format."""

    family: str
    type: str
    help: str
    name: str
    labels: dict[str, str] = field(metadata=_JSON)
    value: float


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    """`outcome`: changed, skipped (`note` says why), or matched in a dry run."""

    job_id: int
    outcome: str
    note: str | None


@dataclass(frozen=True, slots=True)
class Account:
    account: str
    role: str
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None
    sessions: int
    seen_at: datetime | None


@dataclass(frozen=True, slots=True)
class Token:
    id: int
    name: str
    role: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewToken:
    """`secret` is shown this once."""

    id: int
    secret: str = field(repr=False)
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Action:
    """A row of the audit."""

    id: int
    at: datetime
    action: str
    queue: str | None
    actor: str
    session_user_name: str
    reason: str | None
    detail: Any = field(metadata=_JSON)


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Whose session a cookie is."""

    account: str
    role: str


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """Which token a secret is."""

    id: int
    name: str
    role: str


# --------------------------------------------------------------------------------------------
# Calls
# --------------------------------------------------------------------------------------------


class Call(Generic[R]):
    """A function of schema queue: its arguments, and the row it answers with.

    Columns are named one by one and JSON columns asked for as text, so that neither a column that a
    later release adds nor a value that Python cannot hold disturbs a prepared statement or a batch.
    """

    def __init__(
        self,
        function: str,
        arguments: str,
        row: type[R],
        *,
        conflict: type[ClaimLost] | type[WrongState] = ClaimLost,
        cursors: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.arguments = [
            argument.split(maxsplit=1) for argument in arguments.split(", ") if argument
        ]
        self.row = row
        self.conflict = conflict
        self.cursors = cursors
        given = ", ".join(f"{name} => %s::{kind}" for name, kind in self.arguments)

        if row in (str, int, bool, timedelta):
            self.columns: list[str] = []
            self.json: list[int] = []
            self.sql = f"select queue.{function}({given})"
            return
        own = [f for f in fields(row) if not f.metadata.get("local")]  # type: ignore[arg-type]
        self.columns = [f.name for f in own]
        self.json = [i for i, f in enumerate(own) if f.metadata.get("json")]
        selected = ", ".join(f"{f.name}::text" if f.metadata.get("json") else f.name for f in own)
        selected = ", ".join([selected, *cursors])
        self.sql = f"select {selected} from queue.{function}({given})"

    def make(self, values: Sequence[Any]) -> R:
        """A row of the answer, from its columns."""
        if not self.columns:
            scalar: R = values[0]
            return scalar
        if self.json:
            values = list(values)
            for i in self.json:
                values[i] = _readable_json(values[i])
        return self.row(*values)


ClaimRow = tuple[int, int, str, str, str, int, int, timedelta, timedelta | None, str | None]
"""The fields of `Claim` up to its headers, payload and headers still text."""

SettlementRow = tuple[int, int, str, str | None]
"""A verdict as it comes: the fields of `Settlement` in their order."""


class _ClaimCall(Call[Claim]):
    """Each claim is decoded by itself: one unreadable payload fails one job, not the batch."""

    def make(self, values: Sequence[Any]) -> Claim:
        named = dict(zip(self.columns, values, strict=True))
        named["payload_error"] = None
        try:
            named["payload"] = decode_json(named["payload"])
        except ValueError as exc:
            named["payload"] = JsonText(named["payload"])
            named["payload_error"] = str(exc)
        named["headers"] = decode_headers(named["headers"])
        return Claim(**named)


_ENQUEUE_ARGUMENTS = (
    "kind text, payload jsonb, queue text, priority int, available_at timestamptz, "
    "delay interval, max_attempts int, lease interval, timeout interval, "
    "idempotency_key text, headers jsonb"
)
_ENQUEUE = Call("enqueue", _ENQUEUE_ARGUMENTS, Enqueued)
_ENQUEUE_MANY = Call("enqueue_many", "jobs jsonb", EnqueuedOne)

_CLAIM = _ClaimCall("claim", "worker text, queues text[], max_jobs int", Claim)
_CLAIM_ROWS = """
select
  job_id, fence, queue, kind, payload::text, attempt, max_attempts, lease, timeout, headers::text
from queue.claim(worker => %s::text, queues => %s::text[], max_jobs => %s::int)
"""
_RENEW = Call("renew", "job_ids bigint[], fences int[]", Renewal)
_PROGRESS = Call("progress", "job_id bigint, fence int, percent int, message text", str)
_COMPLETE = Call("complete", "job_id bigint, fence int, result json", Transition)
_FAIL = Call(
    "fail",
    "job_id bigint, fence int, error_type text, message text, detail json, retry_in interval, "
    "fatal boolean",
    Transition,
)
_SNOOZE = Call("snooze", "job_id bigint, fence int, delay interval, reason text", Transition)
_RELEASE = Call("release", "job_id bigint, fence int, reason text", Transition)
_ACCEPT_CANCEL = Call("accept_cancel", "job_id bigint, fence int, reason text", Transition)
_SETTLE = Call("settle", "outcomes json", Settlement)
_NEXT_DUE = Call("next_due", "queues text[]", timedelta)
_STAND_BY = Call("stand_by", "queues text[]", str)
_STAND_DOWN = Call("stand_down", "", int)

_RETRY = Call(
    "retry",
    "job_id bigint, extra_attempts int, delay interval, reason text",
    Transition,
    conflict=WrongState,
)
_CANCEL = Call("cancel", "job_id bigint, reason text", Cancelled, conflict=WrongState)
_RUN_NOW = Call("run_now", "job_id bigint, reason text", Transition, conflict=WrongState)
_REPRIORITIZE = Call(
    "reprioritize", "job_id bigint, priority int, reason text", Transition, conflict=WrongState
)
_PAUSE = Call(
    "pause", "queue text, reason text, until timestamptz", QueuePause, conflict=WrongState
)
_RESUME = Call("resume", "queue text, reason text", bool, conflict=WrongState)
_SET_POLICY = Call(
    "set_policy",
    "queue text, lease interval, timeout interval, max_attempts int, backoff_base interval, "
    "backoff_cap interval, finished_retention interval, failed_retention interval, "
    "unset text[], reason text",
    Setting,
    conflict=WrongState,
)
_SET_SETTINGS = Call("set_settings", "settings jsonb, reason text", Setting, conflict=WrongState)

_DISCARD = Call("discard", "job_id bigint, reason text", str, conflict=WrongState)
_BULK = Call(
    "bulk",
    "action text, filter jsonb, dry_run boolean, max_jobs int, arguments jsonb, reason text,"
    " cursor text",
    BulkOutcome,
    conflict=WrongState,
    cursors=("next_cursor",),
)

_TICK = Call("tick", "", TickStep)
_REAP = Call("reap", "max_jobs int", Reaped)
_PRUNE = Call("prune", "max_jobs int", Pruned)
_ROLL_UP = Call("roll_up", "max_transactions int", RolledUp)
_ROTATE_EVENTS = Call("rotate_events", "", Rotated)
_INSTALL_CRON = Call("install_cron", "", CronJob)
_UNINSTALL_CRON = Call("uninstall_cron", "", int)

_GET_JOB = Call("get_job", "job_id bigint", Job)
_LIST_JOBS = Call(
    "list_jobs",
    "filter jsonb, cursor text, max_jobs int, backwards boolean",
    JobSummary,
    cursors=("next_cursor", "previous_cursor"),
)
_COUNT_JOBS = Call("count_jobs", "filter jsonb", JobCount)
_LIST_EVENTS = Call(
    "list_events",
    "of_job bigint, filter jsonb, cursor bigint, max_events int",
    Event,
    cursors=("next_cursor",),
)
_READ_EVENTS = Call(
    "read_events",
    "cursor text, max_events int",
    Event,
    conflict=WrongState,
    cursors=("next_cursor",),
)
_LIST_QUEUES = Call("list_queues", "count_to int, queues text[], max_queues int", QueueStatus)
_LIST_WORKERS = Call("list_workers", "", WorkerStatus)
_STATS = Call("stats", "", Stat)
_HEALTH = Call("health", "", Check)

_JOB_ATTEMPTS = Call("job_attempts", "job_id bigint", Attempt)
_FAILURE_GROUPS = Call(
    "failure_groups", "queue text, kind text, since timestamptz, max_groups int", FailureGroup
)
_SPAN_ARGUMENTS = "since timestamptz, until timestamptz, resolution interval, queue text, kind text"
_THROUGHPUT = Call("throughput", _SPAN_ARGUMENTS, Throughput)
_LATENCY = Call("latency", _SPAN_ARGUMENTS, Latency)
_METRICS = Call("metrics", "", Sample)
_CAPABILITIES = Call("capabilities", "", Capabilities)
_LIST_KINDS = Call("list_kinds", "queue text, since timestamptz, max_kinds int", KindStatus)
_GET_POLICY = Call("get_policy", "queue text", Setting)
_GET_SETTINGS = Call("get_settings", "", Setting)

_CREATE_ACCOUNT = Call(
    "create_account",
    "account text, role text, password_hash text, reason text",
    str,
    conflict=WrongState,
)
_SET_ACCOUNT = Call(
    "set_account",
    "account text, role text, password_hash text, disabled boolean, reason text",
    str,
    conflict=WrongState,
)
_LIST_ACCOUNTS = Call("list_accounts", "", Account)
_CREATE_LINK = Call("create_link", "account text, lifetime interval", str, conflict=WrongState)
_CREATE_TOKEN = Call(
    "create_token", "name text, role text, lifetime interval, reason text", NewToken
)
_REVOKE_TOKEN = Call("revoke_token", "id bigint, reason text", str, conflict=WrongState)
_LIST_TOKENS = Call("list_tokens", "", Token)
_LIST_AUDIT = Call("list_audit", "cursor bigint, max_rows int", Action)

_CHECK_PASSWORD = Call("check_password", "account text, address text", str)
_RECORD_SIGN_IN_FAILURE = Call("record_sign_in_failure", "account text, address text", str)
_START_SESSION = Call("start_session", "account text, address text, agent text", str)
_CHECK_SESSION = Call("check_session", "secret text, touch boolean", SignedIn)
_END_SESSION = Call("end_session", "secret text", bool)
_REDEEM_LINK = Call("redeem_link", "secret text, address text, agent text", str)
_CHECK_TOKEN = Call("check_token", "secret text", TokenHolder)
_RECORD_REFUSAL = Call("record_refusal", "attempt text, role text, reason text", str)

_ACT_AS = """
select
  set_config('role', %s, true), set_config('rowlock.actor', %s, true),
  set_config('timezone', 'UTC', true)
"""

_SESSION = """
select
  current_setting('server_version_num')::int, current_setting('server_encoding'),
  current_setting('transaction_read_only') = 'on', session_user::text,
  array(
    select rolname::text from pg_catalog.pg_roles
    where rolname like 'queue\\_%' and pg_has_role(session_user, oid, 'member')
    order by 1
  ),
  exists (select from pg_catalog.pg_namespace where nspname = 'queue'),
  (select extversion from pg_catalog.pg_extension where extname = 'pg_cron')
"""

_OLDEST_WRITER = """
select pid, coalesce(datname, ''), application_name, state, xact_start, age(backend_xid)
from pg_catalog.pg_stat_activity
where backend_xid is not null and pid <> pg_backend_pid()
order by age(backend_xid) desc
limit 1
"""


def _enqueue_values(
    kind: str,
    payload: Any,
    queue: str | None,
    priority: int | None,
    available_at: datetime | None,
    delay: timedelta | None,
    max_attempts: int | None,
    lease: timedelta | None,
    timeout: timedelta | None,
    idempotency_key: str | None,
    headers: Mapping[str, Any] | None,
) -> list[Any]:
    return [
        _exact(kind, "kind"),
        None if payload is None else _exact(encode_json(payload, "payload"), "payload"),
        _exact(queue, "queue"),
        _whole(priority, "priority"),
        _instant(available_at, "available_at"),
        _span(delay, "delay"),
        _whole(max_attempts, "max_attempts"),
        _span(lease, "lease"),
        _span(timeout, "timeout"),
        _exact(idempotency_key, "idempotency_key"),
        None if headers is None else _exact(_object_out(headers, "headers"), "headers"),
    ]


def enqueue_sql(
    kind: str,
    payload: Any = None,
    queue: str | None = None,
    priority: int | None = None,
    available_at: datetime | None = None,
    delay: timedelta | None = None,
    max_attempts: int | None = None,
    lease: timedelta | None = None,
    timeout: timedelta | None = None,
    idempotency_key: str | None = None,
    headers: Mapping[str, Any] | None = None,
) -> tuple[str, list[Any]]:
    """The call of `enqueue` as (SQL with %s, parameters), for whoever else has the transaction."""
    values = _enqueue_values(
        kind, payload, queue, priority, available_at, delay,
        max_attempts, lease, timeout, idempotency_key, headers,
    )  # fmt: skip
    return _ENQUEUE.sql, values


# --------------------------------------------------------------------------------------------
# Asking again
# --------------------------------------------------------------------------------------------

_CONFLICTS = ("40001", "40P01")
_CONFLICT_TRIES = 6


class _Retries:
    """Which errors of a call that is its own transaction are worth asking again about.

    A serialization failure or deadlock, with jittered backoff; and once what a migration passing by
    causes: a changed result type, a function dropped and created, a cached plan that names the old
    one.
    """

    def __init__(self) -> None:
        self._conflicts = 0
        self._migrations = 0

    def delay(self, exc: psycopg.Error) -> float | None:
        """Seconds to wait before asking again, None to give up."""
        if exc.sqlstate in _CONFLICTS:
            self._conflicts += 1
            if self._conflicts >= _CONFLICT_TRIES:
                return None
            return float(random.uniform(0.5, 1.5) * 0.01 * 2**self._conflicts)
        passing = exc.sqlstate in ("0A000", "42883") or (
            exc.sqlstate == "XX000" and "cache lookup failed" in str(exc)
        )
        if passing and not self._migrations:
            self._migrations = 1
            return float(random.uniform(0.02, 0.1))
        return None


def _owns_transaction(conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    """Whether the next statement is a transaction by itself, so that repeating it is ours to do."""
    return conn.autocommit and conn.pgconn.transaction_status == TransactionStatus.IDLE


class Client:
    """The functions of schema `queue` over one psycopg connection, the caller's or `connect()`'s.

    On a connection inside a transaction a call is part of it and is never retried; an error then
    spoils the transaction, as any SQL error does. A connection is used by one thread at a time.
    """

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn
        self._cursor: psycopg.Cursor[TupleRow] | None = None

    # -- producer

    def enqueue(
        self,
        kind: str,
        payload: Any = None,
        queue: str | None = None,
        priority: int | None = None,
        available_at: datetime | None = None,
        delay: timedelta | None = None,
        max_attempts: int | None = None,
        lease: timedelta | None = None,
        timeout: timedelta | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Enqueued:
        """A new job, or the one that has this idempotency key already (`created` False)."""
        values = _enqueue_values(
            kind, payload, queue, priority, available_at, delay,
            max_attempts, lease, timeout, idempotency_key, headers,
        )  # fmt: skip
        return self._one(_ENQUEUE, *values)

    def enqueue_many(self, jobs: Iterable[NewJob | Mapping[str, Any]]) -> list[EnqueuedOne]:
        """At most 1,000 jobs, all or none; answers in the order given."""
        return self._all(_ENQUEUE_MANY, _jobs_json(jobs))

    # -- worker

    def claim(
        self, worker: str, queues: Sequence[str] = ("default",), max_jobs: int = 1
    ) -> list[Claim]:
        """Due jobs for this worker, in claim order. Check `payload_error` of each."""
        return self._all(_CLAIM, _text(worker), _texts(queues), max_jobs)

    def claim_rows(self, worker: str, queues: Sequence[str], max_jobs: int) -> list[ClaimRow]:
        """As `claim`, for a worker: what it needs, decoded where a job runs."""
        return self._execute(_CLAIM_ROWS, [_text(worker), _texts(queues), max_jobs], ClaimLost)

    def renew(self, job_ids: Sequence[int], fences: Sequence[int]) -> list[Renewal]:
        return self._all(_RENEW, list(job_ids), list(fences))

    def progress(
        self, job_id: int, fence: int, percent: int | None = None, message: str | None = None
    ) -> str:
        """held, stop or lost."""
        return self._one(_PROGRESS, job_id, fence, percent, _text(message))

    def complete(self, job_id: int, fence: int, result: Any = None) -> Transition:
        return self._one(_COMPLETE, job_id, fence, _json_out(result, "result"))

    def fail(
        self,
        job_id: int,
        fence: int,
        error_type: str,
        message: str | None = None,
        detail: Any = None,
        retry_in: timedelta | None = None,
        fatal: bool = False,
    ) -> Transition:
        return self._one(
            _FAIL,
            job_id,
            fence,
            _text(error_type),
            _text(message),
            _json_out(detail, "detail"),
            _span(retry_in, "retry_in"),
            fatal,
        )

    def snooze(
        self, job_id: int, fence: int, delay: timedelta, reason: str | None = None
    ) -> Transition:
        return self._one(_SNOOZE, job_id, fence, _span(delay, "delay"), _text(reason))

    def release(self, job_id: int, fence: int, reason: str | None = None) -> Transition:
        return self._one(_RELEASE, job_id, fence, _text(reason))

    def accept_cancel(self, job_id: int, fence: int, reason: str | None = None) -> Transition:
        return self._one(_ACCEPT_CANCEL, job_id, fence, _text(reason))

    def settle(self, outcomes: Iterable[Outcome]) -> list[Settlement]:
        """Many outcomes in one call. One that is not JSON is `refused` here; the rest are sent."""
        sent: list[JsonText] = []
        refused: list[Settlement] = []
        for outcome in outcomes:
            try:
                sent.append(outcome.to_json())
            except InvalidArgument as exc:
                refused.append(Settlement(outcome.job_id, outcome.fence, "refused", str(exc)))
        settled = [_SETTLE.make(row) for row in self.settle_rows(sent)] if sent else []
        return settled + refused

    def settle_rows(self, outcomes: Iterable[JsonText]) -> list[SettlementRow]:
        """As `settle`, for a worker: outcomes that `to_json` has written."""
        return self._execute(_SETTLE.sql, ["[" + ",".join(outcomes) + "]"], _SETTLE.conflict)

    def next_due(self, queues: Sequence[str] = ("default",)) -> timedelta | None:
        """How long until something may be claimable: zero for now, None when nothing waits."""
        return self._scalar(_NEXT_DUE, _texts(queues))

    def stand_by(self, queues: Sequence[str] = ("default",)) -> str:
        """covered or uncovered. Call `listen()` on this connection first."""
        return self._one(_STAND_BY, _texts(queues))

    def stand_down(self) -> int:
        return self._one(_STAND_DOWN)

    def listen(self) -> None:
        """Have NOTIFYs of the queues delivered to this connection, for `conn.notifies()`."""
        self._execute(f"listen {CHANNEL}", [], ClaimLost)

    def is_listening(self) -> bool:
        """Whether the server still knows of `listen()`: also a sign of life of the connection."""
        rows = self._execute("select pg_listening_channels()", [], ClaimLost)
        return (CHANNEL,) in rows

    # -- operator

    def retry(
        self,
        job_id: int,
        extra_attempts: int = 1,
        delay: timedelta | None = None,
        reason: str | None = None,
    ) -> Transition:
        return self._one(_RETRY, job_id, extra_attempts, _span(delay, "delay"), _text(reason))

    def cancel(self, job_id: int, reason: str | None = None) -> Cancelled:
        return self._one(_CANCEL, job_id, _text(reason))

    def run_now(self, job_id: int, reason: str | None = None) -> Transition:
        return self._one(_RUN_NOW, job_id, _text(reason))

    def reprioritize(self, job_id: int, priority: int, reason: str | None = None) -> Transition:
        return self._one(_REPRIORITIZE, job_id, priority, _text(reason))

    def pause(
        self, queue: str, reason: str | None = None, until: datetime | None = None
    ) -> QueuePause:
        return self._one(_PAUSE, _text(queue), _text(reason), _instant(until, "until"))

    def resume(self, queue: str, reason: str | None = None) -> bool:
        """Whether the queue was paused."""
        return self._one(_RESUME, _text(queue), _text(reason))

    def set_policy(
        self,
        queue: str,
        lease: timedelta | None = None,
        timeout: timedelta | None = None,
        max_attempts: int | None = None,
        backoff_base: timedelta | None = None,
        backoff_cap: timedelta | None = None,
        finished_retention: timedelta | None = None,
        failed_retention: timedelta | None = None,
        unset: Sequence[str] = (),
        reason: str | None = None,
    ) -> list[Setting]:
        """A queue's own defaults: None leaves one as it is, a name in `unset` removes it."""
        return self._all(
            _SET_POLICY,
            _text(queue),
            _span(lease, "lease"),
            _span(timeout, "timeout"),
            max_attempts,
            _span(backoff_base, "backoff_base"),
            _span(backoff_cap, "backoff_cap"),
            _span(finished_retention, "finished_retention"),
            _span(failed_retention, "failed_retention"),
            _texts(unset),
            _text(reason),
        )

    def discard(self, job_id: int, reason: str | None = None) -> str:
        """Removes a finished job before its retention; returns the status it had."""
        return self._one(_DISCARD, job_id, _text(reason))

    def bulk(
        self,
        action: str,
        filter: Mapping[str, Any],
        dry_run: bool = True,
        max_jobs: int = 1000,
        arguments: Mapping[str, Any] | None = None,
        reason: str | None = None,
        cursor: str | None = None,
    ) -> Page[BulkOutcome]:
        """One action on the jobs that match a filter of `list_jobs`: retry cancel run_now
        reprioritize discard. A call reads 10,000 rows at most; `next_cursor` goes on."""
        return self._page(
            _BULK,
            action,
            _filter_out(filter),
            dry_run,
            max_jobs,
            _spans_out(arguments or {}, "arguments"),
            _text(reason),
            _text(cursor),
        )

    # -- admin

    def create_account(
        self,
        account: str,
        role: str,
        password_hash: str | None = None,
        reason: str | None = None,
    ) -> None:
        self._scalar(_CREATE_ACCOUNT, account, role, password_hash, _text(reason))

    def set_account(
        self,
        account: str,
        role: str | None = None,
        password_hash: str | None = None,
        disabled: bool | None = None,
        reason: str | None = None,
    ) -> None:
        self._scalar(_SET_ACCOUNT, account, role, password_hash, disabled, _text(reason))

    def list_accounts(self) -> list[Account]:
        return self._all(_LIST_ACCOUNTS)

    def create_link(self, account: str, lifetime: timedelta | None = None) -> str:
        """A secret that signs the account in once."""
        return self._one(_CREATE_LINK, account, _span(lifetime, "lifetime"))

    def create_token(
        self,
        name: str,
        role: str,
        lifetime: timedelta | None = timedelta(days=90),
        reason: str | None = None,
    ) -> NewToken:
        return self._one(
            _CREATE_TOKEN, _text(name), role, _span(lifetime, "lifetime"), _text(reason)
        )

    def revoke_token(self, id: int, reason: str | None = None) -> None:
        self._scalar(_REVOKE_TOKEN, id, _text(reason))

    def list_tokens(self) -> list[Token]:
        return self._all(_LIST_TOKENS)

    def list_audit(self, cursor: int | None = None, max_rows: int = 100) -> list[Action]:
        return self._all(_LIST_AUDIT, cursor, max_rows)

    def set_settings(self, settings: Mapping[str, Any], reason: str | None = None) -> list[Setting]:
        return self._all(_SET_SETTINGS, _spans_out(settings, "settings"), _text(reason))

    # -- scheduler

    def tick(self) -> TickStep:
        """Does the maintenance step that is due, if any."""
        return self._one(_TICK)

    def reap(self, max_jobs: int = 1000) -> Reaped:
        return self._one(_REAP, max_jobs)

    def prune(self, max_jobs: int = 1000) -> Pruned:
        return self._one(_PRUNE, max_jobs)

    def roll_up(self, max_transactions: int = 100_000) -> RolledUp:
        return self._one(_ROLL_UP, max_transactions)

    def rotate_events(self) -> Rotated:
        return self._one(_ROTATE_EVENTS)

    def install_cron(self) -> list[CronJob]:
        return self._all(_INSTALL_CRON)

    def uninstall_cron(self) -> int:
        return self._one(_UNINSTALL_CRON)

    # -- observer

    def get_job(self, job_id: int) -> Job:
        """Raises JobNotFound when there is none."""
        return self._one(_GET_JOB, job_id)

    def list_jobs(
        self,
        filter: Mapping[str, Any] | None = None,
        cursor: str | None = None,
        max_jobs: int = 50,
        backwards: bool = False,
    ) -> Page[JobSummary]:
        """Jobs in the order of their status. Filter keys: status label queue kind priority worker
        error_group idempotency_key created_after created_before ids headers payload."""
        return self._page(_LIST_JOBS, _filter_out(filter), _text(cursor), max_jobs, backwards)

    def count_jobs(self, filter: Mapping[str, Any] | None = None) -> JobCount:
        return self._one(_COUNT_JOBS, _filter_out(filter))

    def list_events(
        self,
        of_job: int | None = None,
        filter: Mapping[str, Any] | None = None,
        cursor: int | str | None = None,
        max_events: int = 100,
    ) -> Page[Event]:
        """Events of one job, oldest first after the cursor; of all, newest first before it. A
        cursor is an event's id."""
        at = None if cursor is None else int(cursor)
        return self._page(_LIST_EVENTS, of_job, _filter_out(filter), at, max_events)

    def read_events(self, cursor: str | None = None, max_events: int = 1000) -> Page[Event]:
        """For followers: each event exactly once. Without a cursor the answer is where now is."""
        return self._page(_READ_EVENTS, _text(cursor), max_events)

    def list_queues(
        self,
        count_to: int | None = None,
        queues: Sequence[str] | None = None,
        max_queues: int | None = None,
    ) -> list[QueueStatus]:
        """Counts stop one after `count_to`: what is counted is what this costs; 0 for the names; by
        default 1,000, fewer with more than 100 queues.
        Of more than `max_queues`, those whose first job has waited longest."""
        return self._all(_LIST_QUEUES, count_to, queues and _texts(queues), max_queues)

    def list_workers(self) -> list[WorkerStatus]:
        return self._all(_LIST_WORKERS)

    def stats(self) -> list[Stat]:
        return self._all(_STATS)

    def health(self) -> list[Check]:
        return self._all(_HEALTH)

    def job_attempts(self, job_id: int) -> list[Attempt]:
        return self._all(_JOB_ATTEMPTS, job_id)

    def failure_groups(
        self,
        queue: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        max_groups: int = 50,
    ) -> list[FailureGroup]:
        return self._all(
            _FAILURE_GROUPS, _text(queue), _text(kind), _instant(since, "since"), max_groups
        )

    def throughput(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        resolution: timedelta | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[Throughput]:
        return self._all(_THROUGHPUT, *_span_out(since, until, resolution, queue, kind))

    def latency(
        self,
        since: datetime | None = None,
        until: datetime | None = None,
        resolution: timedelta | None = None,
        queue: str | None = None,
        kind: str | None = None,
    ) -> list[Latency]:
        return self._all(_LATENCY, *_span_out(since, until, resolution, queue, kind))

    def metrics(self) -> list[Sample]:
        return self._all(_METRICS)

    def capabilities(self) -> Capabilities:
        return self._one(_CAPABILITIES)

    def list_kinds(
        self, queue: str | None = None, since: datetime | None = None, max_kinds: int = 100
    ) -> list[KindStatus]:
        return self._all(_LIST_KINDS, _text(queue), _instant(since, "since"), max_kinds)

    def get_policy(self, queue: str) -> list[Setting]:
        return self._all(_GET_POLICY, _text(queue))

    def get_settings(self) -> list[Setting]:
        return self._all(_GET_SETTINGS)

    # -- the dashboard's own login

    def act_as(self, role: str, actor: str | None) -> None:
        """Takes on a group role until the transaction ends; `actor` is who its events name."""
        self._execute(_ACT_AS, [role, _text(actor) or ""], WrongState)

    def check_password(self, account: str, address: str) -> str | None:
        """The hash to compare with, or None. Raises LimitReached after too many failures."""
        return self._scalar(_CHECK_PASSWORD, _text(account), address)

    def record_sign_in_failure(self, account: str, address: str) -> None:
        self._scalar(_RECORD_SIGN_IN_FAILURE, _text(account), address)

    def start_session(
        self, account: str, address: str | None = None, agent: str | None = None
    ) -> str:
        return self._one(_START_SESSION, _text(account), address, _text(agent))

    def check_session(self, secret: str, touch: bool = True) -> SignedIn | None:
        """`touch`: whether this is somebody's doing, which keeps the session from ending."""
        return next(iter(self._all(_CHECK_SESSION, _text(secret), touch)), None)

    def end_session(self, secret: str) -> bool:
        return self._one(_END_SESSION, _text(secret))

    def redeem_link(
        self, secret: str, address: str | None = None, agent: str | None = None
    ) -> str | None:
        return self._scalar(_REDEEM_LINK, _text(secret), address, _text(agent))

    def check_token(self, secret: str) -> TokenHolder | None:
        return next(iter(self._all(_CHECK_TOKEN, _text(secret))), None)

    def record_refusal(self, attempt: str, role: str, reason: str | None) -> None:
        self._scalar(_RECORD_REFUSAL, _text(attempt), role, _text(reason))

    # -- the server, for `rowlock doctor`

    def session(self) -> Session:
        (row,) = self._execute(_SESSION, [], WrongState)
        return Session(*row)

    def oldest_writer(self) -> Writer | None:
        rows = self._execute(_OLDEST_WRITER, [], WrongState)
        return Writer(*rows[0]) if rows else None

    # -- the call itself

    def _all(self, call: Call[R], *values: Any) -> list[R]:
        rows = self._execute(call.sql, list(values), call.conflict)
        return [call.make(row) for row in rows]

    def _page(self, call: Call[R], *values: Any) -> Page[R]:
        """The cursors are the same on every row; a row that has nothing else has a null id."""
        rows = self._execute(call.sql, list(values), call.conflict)
        width = len(call.columns)
        found = [call.make(row[:width]) for row in rows if row[0] is not None]
        cursors = [None if place is None else str(place) for place in rows[0][width:]]
        return Page(found, *cursors)

    def _one(self, call: Call[R], *values: Any) -> R:
        rows = self._all(call, *values)
        if len(rows) != 1:
            _not_one(call, len(rows))
        return rows[0]

    def _scalar(self, call: Call[R], *values: Any) -> R | None:
        """As `_one`, where the SQL function may answer null."""
        return self._one(call, *values)

    def _execute(
        self, sql: str, values: list[Any], conflict: type[ClaimLost] | type[WrongState]
    ) -> list[TupleRow]:
        retries = _Retries()
        while True:
            repeatable = _owns_transaction(self.conn)
            try:
                if repeatable and isinstance(self.conn, Connection) and self.conn.pooled:
                    with self.conn.transaction():
                        for name, value in self.conn.limits.settings().items():
                            self._fetch("select set_config(%s, %s, true)", [name, value])
                        return self._fetch(sql, values)
                return self._fetch(sql, values)
            except psycopg.Error as exc:
                delay = retries.delay(exc) if repeatable else None
                if delay is None:
                    raise translate(exc, conflict) from exc
                log.debug("asking again in %.3f s: %s", delay, exc)
                if exc.sqlstate == "0A000":
                    self._forget_plans()
            time.sleep(delay)

    def _fetch(self, sql: str, values: list[Any]) -> list[TupleRow]:
        # Binary results do not depend on the session's DateStyle and IntervalStyle, nor does this
        # cursor on the caller's cursor and row factories. It is kept for the next call, which saves
        # a fifth of the client's time, but not with a result of many rows in its memory.
        cursor = self._cursor or psycopg.Cursor(self.conn, row_factory=tuple_row)
        cursor.execute(sql, values or None, binary=True)
        # In the caller's pipeline there is no result before it is fetched.
        has_rows = cursor.pgresult is None or cursor.pgresult.nfields > 0
        rows = cursor.fetchall() if has_rows else []
        self._cursor = cursor if len(rows) <= 1 else None
        return rows

    def _forget_plans(self) -> None:
        """A prepared statement whose result type changed fails for ever: prepare it anew.

        Only on a connection of ours; a caller's may have statements prepared by hand.
        """
        if isinstance(self.conn, Connection):
            try:
                self.conn.execute("deallocate all")
            except psycopg.Error as exc:
                raise translate(exc) from exc


class AsyncClient:
    """The producer's functions over a psycopg AsyncConnection, with the rules of `Client`."""

    def __init__(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.conn = conn

    async def enqueue(
        self,
        kind: str,
        payload: Any = None,
        queue: str | None = None,
        priority: int | None = None,
        available_at: datetime | None = None,
        delay: timedelta | None = None,
        max_attempts: int | None = None,
        lease: timedelta | None = None,
        timeout: timedelta | None = None,
        idempotency_key: str | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> Enqueued:
        """A new job, or the one that has this idempotency key already (`created` False)."""
        values = _enqueue_values(
            kind, payload, queue, priority, available_at, delay,
            max_attempts, lease, timeout, idempotency_key, headers,
        )  # fmt: skip
        rows = await self._all(_ENQUEUE, *values)
        if len(rows) != 1:
            _not_one(_ENQUEUE, len(rows))
        return rows[0]

    async def enqueue_many(self, jobs: Iterable[NewJob | Mapping[str, Any]]) -> list[EnqueuedOne]:
        """At most 1,000 jobs, all or none; answers in the order given."""
        return await self._all(_ENQUEUE_MANY, _jobs_json(jobs))

    async def _all(self, call: Call[R], *values: Any) -> list[R]:
        retries = _Retries()
        while True:
            repeatable = _owns_transaction(self.conn)
            try:
                async with psycopg.AsyncCursor(self.conn, row_factory=tuple_row) as cursor:
                    await cursor.execute(call.sql, list(values), binary=True)
                    return [call.make(row) for row in await cursor.fetchall()]
            except psycopg.Error as exc:
                delay = retries.delay(exc) if repeatable else None
                if delay is None:
                    raise translate(exc, call.conflict) from exc
            await asyncio.sleep(delay)


def _texts(values: Sequence[str]) -> list[str]:
    if isinstance(values, str):
        raise InvalidArgument("a list of names is wanted, not one text")
    return [clean_text(value) for value in values]


def _json_out(value: Any, name: str) -> JsonText | None:
    return None if value is None else _clean_json(encode_json(value, name))


def _spans_out(value: Mapping[str, Any], name: str) -> JsonText | None:
    given = {
        key: _span_text(item) if isinstance(item, timedelta) else item
        for key, item in value.items()
    }
    return _json_out(given, name)


def _filter_out(value: Mapping[str, Any] | None) -> JsonText | None:
    if value is None:
        return None
    given = dict(value)
    for name, item in given.items():
        if isinstance(item, datetime):
            _instant(item, name)
            given[name] = item.isoformat()
    return _json_out(given, "filter")


def _not_one(call: Call[Any], rows: int) -> NoReturn:
    raise RowlockError(f"queue.{call.function} answered with {rows} rows instead of one")


def _span_out(
    since: datetime | None,
    until: datetime | None,
    resolution: timedelta | None,
    queue: str | None,
    kind: str | None,
) -> list[Any]:
    return [
        _instant(since, "since"),
        _instant(until, "until"),
        _span(resolution, "resolution"),
        _text(queue),
        _text(kind),
    ]
