"""The command line: every command is one function of schema `queue`, called through `client.py`.

Exit codes: 0 done, 1 error, 2 usage, 3 no such job, 4 conflict or wrong state, 5 database
unreachable or not named, 6 denied, 7 unhealthy or differing.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import os
import re
import signal
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import IO, Any

import click

from pyworker import client, deploy, logs
from pyworker.client import BulkOutcome, Check, Client, JsonText, Location, NewJob
from pyworker.durations import duration
from pyworker.errors import (
    ClaimLost,
    InvalidArgument,
    JobNotFound,
    KeyReused,
    NotAllowed,
    RowlockError,
    TooLarge,
    Unavailable,
    WrongState,
)

USAGE, NOT_FOUND, CONFLICT, UNREACHABLE, DENIED, UNHEALTHY = 2, 3, 4, 5, 6, 7

_EXIT_CODES: Mapping[type[RowlockError], int] = {
    InvalidArgument: USAGE,
    TooLarge: USAGE,
    JobNotFound: NOT_FOUND,
    ClaimLost: CONFLICT,
    WrongState: CONFLICT,
    KeyReused: CONFLICT,
    Unavailable: UNREACHABLE,
    NotAllowed: DENIED,
}

# --------------------------------------------------------------------------------------------
# What all commands share
# --------------------------------------------------------------------------------------------


def _say(error: RowlockError) -> None:
    """On one line, since the words may be a job's; the hint on the next."""
    click.secho(f"rowlock: {logs.escape(' '.join(str(error).split()))}", fg="red", err=True)
    if error.hint:
        click.echo(f"  {logs.escape(error.hint)}", err=True)


def _exit_code(error: RowlockError) -> int:
    return _EXIT_CODES.get(type(error), 1)


@dataclass(slots=True)
class _Run:
    """The options that every command takes, wherever on the line they stood."""

    database_url: str | None = None
    embedded: bool = False
    throwaway: bool = False
    output: str = "table"
    verbose: bool = False


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        assert param.name is not None
        setattr(ctx.ensure_object(_Run), param.name, value)


def _shared_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--database-url"],
            metavar="URL",
            callback=_keep,
            expose_value=False,
            help="The database; else ROWLOCK_DATABASE_URL, DATABASE_URL, libpq's variables.",
        ),
        click.Option(
            ["--embedded"],
            is_flag=True,
            default=None,
            callback=_keep,
            expose_value=False,
            help="A PostgreSQL of Rowlock's own: starts it, or attaches to the running one.",
        ),
        click.Option(
            ["-o", "--output"],
            type=click.Choice(["table", "json", "jsonl", "csv"]),
            callback=_keep,
            expose_value=False,
            help="How results are printed.",
        ),
        click.Option(
            ["-v", "--verbose"],
            is_flag=True,
            default=None,
            callback=_keep,
            expose_value=False,
            help="Log at level DEBUG.",
        ),
    ]


class _Command(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()


class _Group(click.Group):
    command_class = _Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RowlockError as exc:
            _say(exc)
            ctx.exit(_exit_code(exc))


def _located(ctx: click.Context) -> Location:
    """The database of this run, stated on stderr."""
    run = ctx.ensure_object(_Run)
    logs.configure("DEBUG" if run.verbose else os.environ.get("ROWLOCK_LOG_LEVEL", "WARNING"))
    location = _embedded(ctx, run) if run.embedded else client.resolve(run.database_url)
    click.echo(f"database: {location}", err=True)
    return location


def _embedded(ctx: click.Context, run: _Run) -> Location:
    if run.database_url:
        raise click.UsageError("--embedded and --database-url exclude each other")
    from pyworker import embedded

    try:
        server = embedded.start(None if run.throwaway else embedded.default_data_dir())
    except embedded.EmbeddedError as exc:
        raise Unavailable(str(exc)) from exc
    ctx.call_on_close(server.close)
    if server.owned:
        deploy.migrate(server.url)
    return Location(server.url, "--embedded")


def _client(ctx: click.Context) -> Client:
    conn = client.connect(_located(ctx).url, "cli")
    ctx.call_on_close(conn.close)
    return Client(conn)


# --------------------------------------------------------------------------------------------
# Output
# --------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A value as JSON has it: instants in UTC, durations in seconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def _members(row: Any) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    return {f.name: getattr(row, f.name) for f in fields(row)}


def _json_line(row: Any, indent: int | None = None) -> str:
    plain = {name: _plain(value) for name, value in _members(row).items()}
    return json.dumps(plain, default=str, indent=indent)


class _Lines:
    """Prints rows as they come, a line each."""

    def __init__(self, output: str, columns: Sequence[str]) -> None:
        self._output = output
        self._columns = columns
        self._begun = False

    def print(self, row: Any) -> None:
        members = _members(row)
        if self._output == "csv":
            if not self._begun:
                click.echo(_csv_line(members))
            click.echo(_csv_line(map(_csv_value, members.values())))
        elif self._output == "table":
            click.echo("  ".join(_cell(members[name]) for name in self._columns))
        else:
            click.echo(_json_line(row))
        self._begun = True


def _csv_line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _csv_value(value: Any) -> Any:
    """What is a document stays JSON; what a spreadsheet would take for a formula becomes text."""
    plain = _plain(value)
    if isinstance(plain, dict | list):
        return json.dumps(plain)
    if isinstance(plain, str) and plain.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{plain}"
    return plain


def _cell(value: Any) -> str:
    """One line that fits a table: no control character of a job's text reaches the terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, timedelta):
        return _age(value)
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal):
        value = f"{_plain(value):,}"
    text = logs.escape(str(value))
    return text if len(text) <= 80 else text[:79] + "…"


def _age(span: timedelta) -> str:
    seconds = span.total_seconds()
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    if seconds < 60:
        return f"{sign}{seconds:.3g} s"
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            smaller = {"d": ("h", 3600), "h": ("m", 60), "m": ("s", 1)}[unit]
            rest = whole % size // smaller[1]
            return f"{sign}{whole // size} {unit}" + (f" {rest} {smaller[0]}" if rest else "")
    raise AssertionError("unreachable")


def _print_rows(
    ctx: click.Context, rows: Iterable[Any], columns: Sequence[str], empty: str
) -> None:
    """Rows as asked for: JSON and CSV have every column, a table those named."""
    output = ctx.ensure_object(_Run).output
    if output in ("jsonl", "csv"):
        lines = _Lines(output, columns)
        for row in rows:
            lines.print(row)
        return
    found = list(rows)
    if output == "json":
        click.echo("[" + ",".join("\n  " + _json_line(row) for row in found) + "\n]")
        return
    if not found:
        click.echo(empty, err=True)
        return
    cells = [[_cell(_members(row)[name]) for name in columns] for row in found]
    titles = [name.replace("_", " ").upper() for name in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for n, line in enumerate([titles, *cells]):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.secho(text.rstrip(), bold=n == 0)


def _print_one(ctx: click.Context, row: Any) -> None:
    """One thing, a line for each of its values."""
    output = ctx.ensure_object(_Run).output
    if output == "csv":
        _print_rows(ctx, [row], [], "")
        return
    if output != "table":
        click.echo(_json_line(row, indent=2 if output == "json" else None))
        return
    members = {name: value for name, value in _members(row).items() if value is not None}
    width = max(map(len, members))
    for name, value in members.items():
        if isinstance(value, dict | list):
            text = json.dumps(value, ensure_ascii=False, indent=2)
            lines = [logs.escape(line) for line in text.splitlines()]
        elif isinstance(value, str):
            lines = [logs.escape(line) for line in value.splitlines()] or [""]
        else:
            lines = [_cell(value)]
        click.secho(name.replace("_", " ").ljust(width), bold=True, nl=False)
        click.echo(f"  {lines[0]}")
        for line in lines[1:]:
            click.echo(" " * (width + 2) + line)


# --------------------------------------------------------------------------------------------
# Arguments
# --------------------------------------------------------------------------------------------


def _duration(value: str) -> timedelta:
    try:
        return duration(value)
    except InvalidArgument as exc:
        raise click.BadParameter(f"{exc}; {exc.hint}") from exc


def _instant(value: str) -> datetime:
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"not a timestamp: {value!r}; {_INSTANT_EXAMPLE}") from None
    if instant.utcoffset() is None:
        raise click.BadParameter(f"{value!r} has no time zone; {_INSTANT_EXAMPLE}")
    return instant


_INSTANT_EXAMPLE = "write 2027-01-31T12:00:00Z"

_LABELS = ("scheduled", "ready", "retrying", "dead")


def _filter(terms: Iterable[str]) -> dict[str, Any]:
    """`status:failed queue:billing payload.user.id:42` as `list_jobs` wants it."""
    found: dict[str, Any] = {}
    for term in terms:
        name, colon, value = term.partition(":")
        if not colon:
            raise click.UsageError(f"not a filter: {term!r}; write queue:billing, status:failed")
        if name == "payload" or name.startswith("payload."):
            document: Any = _json_or_text(value)
            for key in reversed(name.split(".")[1:]):
                document = {key: document}
            found["payload"] = _merged(found.get("payload"), document)
        elif name == "status" and value in _LABELS:
            found["label"] = value
        elif name == "priority":
            found[name] = _json_or_text(value)
        else:
            found[name] = value
    return found


def _json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def _merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}
    return other


# --------------------------------------------------------------------------------------------
# The commands
# --------------------------------------------------------------------------------------------


@click.group(
    cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def main() -> None:
    """Rowlock: a job queue that is a PostgreSQL schema."""


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; say what differs. Exit 7 if any.")
@click.option("--sql", is_flag=True, help="Print the SQL that would be run.")
@click.option("--roles", is_flag=True, help="Print the roles script for an administrator.")
@click.option("--migrator", metavar="LOGIN", help="With --roles: the login that will migrate.")
@click.option("--uninstall", is_flag=True, help="Remove the schema with every job in it.")
@click.option("--downgrade", is_flag=True, help="Replace functions of a later version.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--wait",
    type=_duration,
    metavar="SPAN",
    default="10m",
    help="How long for another migration to end.",
)
@click.pass_context
def migrate(
    ctx: click.Context,
    check: bool,
    sql: bool,
    roles: bool,
    migrator: str | None,
    uninstall: bool,
    downgrade: bool,
    yes: bool,
    wait: timedelta,
) -> None:
    """Bring the database to this version: roles, tables, functions."""
    if check + sql + roles + uninstall > 1:
        raise click.UsageError("--check, --sql, --roles and --uninstall exclude each other")

    if roles:
        click.echo(deploy.roles_script(migrator))
    elif sql:
        click.echo(deploy.sql_script(_applied(ctx)))
    elif check:
        found = deploy.check(_located(ctx).url, wait=wait, report=_report)
        lines = [{"difference": line} for line in found]
        _print_rows(ctx, lines, ["difference"], "nothing differs")
        if found:
            ctx.exit(UNHEALTHY)
    elif uninstall:
        _uninstall(_located(ctx), yes, wait)
    else:
        done = deploy.migrate(_located(ctx).url, downgrade=downgrade, wait=wait, report=_report)
        click.echo("migrated" if done.changed else "nothing to do", err=True)


def _report(line: str) -> None:
    click.echo(f"  {logs.escape(line)}", err=True)


def _applied(ctx: click.Context) -> frozenset[str]:
    """Nothing where no database is named: the script is then for a fresh one."""
    try:
        location = _located(ctx)
    except Unavailable:
        return frozenset()
    return deploy.applied(location.url)


def _uninstall(location: Location, yes: bool, wait: timedelta) -> None:
    if not yes:
        click.confirm(
            "Drop schema queue with every job, event and setting in it?", abort=True, err=True
        )
    done = deploy.uninstall(location.url, wait=wait, report=_report)
    for line in done.left:
        click.echo(f"  left {logs.escape(line)}", err=True)
    click.echo("uninstalled" if done.removed else "there was nothing", err=True)


@main.command()
@click.pass_context
def workers(ctx: click.Context) -> None:
    """Who works: live sessions, and leases of workers that are gone."""
    _print_rows(
        ctx,
        _client(ctx).list_workers(),
        ["worker", "state", "sessions", "running", "oldest_lease_left", "started_at"],
        "no workers",
    )


# -- enqueue


@main.command()
@click.argument("kind")
@click.argument("payload", required=False)
@click.option("-q", "--queue", help="Which queue [default: default].")
@click.option("--priority", type=int, help="0 to 9, higher first [default: 5].")
@click.option("--in", "delay", type=_duration, metavar="SPAN", help="Due in, such as 5m.")
@click.option(
    "--at",
    "available_at",
    type=_instant,
    metavar="TIME",
    help="Due at, such as 2027-01-31T12:00:00Z.",
)
@click.option("--key", "idempotency_key", help="The same key in a queue is the same job.")
@click.option("--max-attempts", type=int, help="Runs before the job counts as failed.")
@click.option(
    "--lease", type=_duration, metavar="SPAN", help="How long a worker has before it must renew."
)
@click.option("--timeout", type=_duration, metavar="SPAN", help="How long a run may take.")
@click.pass_context
def enqueue(ctx: click.Context, /, kind: str, payload: str | None, **options: Any) -> None:
    """Enqueue jobs of KIND.

    PAYLOAD is JSON, @FILE, or - to read JSON Lines from standard input: each line the payload of
    one job, a thousand jobs a transaction. With - for KIND, each line is a whole job:
    {"kind": "email.send", "payload": {}, "priority": 9}.
    """
    if kind == "-" or payload == "-":
        if kind == "-" and (payload is not None or any(v is not None for v in options.values())):
            raise click.UsageError("with - for KIND, each line says everything about its job")
        if options["idempotency_key"]:
            raise click.UsageError("--key would make all lines one job")
        _enqueue_lines(ctx, _client(ctx), None if kind == "-" else kind, options)
        return

    text = _read_payload(payload)
    made = _client(ctx).enqueue(kind, text, **options)
    if ctx.ensure_object(_Run).output == "table":
        click.echo(f"job {made.job_id}" + ("" if made.created else " exists already"))
    else:
        _print_one(ctx, made)


def _read_payload(payload: str | None) -> JsonText | None:
    if payload is None:
        return None
    if payload.startswith("@"):
        try:
            payload = Path(payload[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise click.UsageError(f"cannot read {payload[1:]}: {exc}") from exc
    return _json_text(payload, "the payload")


def _json_text(text: str, what: str) -> JsonText:
    """JSON that goes to the database as it was written: numbers keep every digit."""
    try:
        client.decode_json(text)
    except json.JSONDecodeError as exc:
        raise click.UsageError(f"{what} is not JSON: {exc}") from exc
    except ValueError:
        pass  # more than Python can hold, and none of its business
    return JsonText(text)


# Characters: payloads of 1 MiB are not gathered by the thousand.
_BATCH_SIZE = 4 * 2**20


def _enqueue_lines(
    ctx: click.Context, db: Client, kind: str | None, options: Mapping[str, Any]
) -> None:
    stream = sys.stdin.buffer
    done = created = size = 0
    batch: list[NewJob | Mapping[str, Any]] = []
    output = ctx.ensure_object(_Run).output
    lines = _Lines(output, [])

    def send() -> None:
        nonlocal done, created, size
        answers = db.enqueue_many(batch)
        done += len(answers)
        created += sum(answer.created for answer in answers)
        if output != "table":
            for answer in answers:
                lines.print({"job_id": answer.job_id, "created": answer.created})
        batch.clear()
        size = 0

    try:
        with _progress(stream) as advance:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    batch.append(_line_job(line, number, kind, options))
                    size += len(line)
                if len(batch) == client.MAX_BATCH or size > _BATCH_SIZE:
                    send()
                advance(len(line))
            if batch:
                send()
    except (RowlockError, click.UsageError):
        click.echo(f"{done} jobs were enqueued before this:", err=True)
        raise
    click.echo(f"{done} jobs, {created} of them new", err=True)


def _line_job(
    line: bytes, number: int, kind: str | None, options: Mapping[str, Any]
) -> NewJob | Mapping[str, Any]:
    try:
        text = _json_text(line.decode().strip(), f"line {number}")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"line {number} is not UTF-8: {exc}") from exc
    if kind is not None:
        return NewJob(kind=kind, payload=text, **options)
    job = client.decode_json(text)
    if not isinstance(job, dict):
        raise click.UsageError(f"line {number} is not an object")
    return job


@contextmanager
def _progress(stream: IO[bytes]) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal where the input's size is known, else nothing."""
    try:
        size = os.fstat(stream.fileno()).st_size
    except (OSError, ValueError):
        size = 0
    if not size or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size, label="enqueueing", file=sys.stderr) as bar:

        def advance(count: int) -> None:
            bar.update(count)

        yield advance


# -- job


@main.group()
def job() -> None:
    """Look at jobs, and change what happens to them."""


@job.command("list")
@click.argument("terms", nargs=-1, metavar="[FILTER]...")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.option("--cursor", help="Go on where an earlier list ended.")
@click.pass_context
def job_list(ctx: click.Context, terms: tuple[str, ...], limit: int, cursor: str | None) -> None:
    """List jobs, newest first.

    FILTER is name:value: status, label, queue, kind, worker, priority, error_group,
    idempotency_key, created_after, created_before, or payload.path.to.member:value.
    """
    wanted = _filter(terms)
    db = _client(ctx)
    left: list[str] = []

    def rows() -> Iterator[Any]:
        nonlocal cursor
        missing = limit
        while missing > 0:
            page = db.list_jobs(wanted, cursor, min(missing, 200))
            yield from page.rows
            missing -= len(page.rows)
            cursor = page.next_cursor
            if cursor is None:
                return
        left.append(cursor or "")

    columns = ["id", "kind", "queue", "label", "attempt", "priority", "created_at"]
    _print_rows(ctx, rows(), [*columns, "worker", "error_type"], "no jobs match")
    _say_where(left[0] if left else None)


@job.command("show")
@click.argument("job_id", type=int)
@click.pass_context
def job_show(ctx: click.Context, job_id: int) -> None:
    """Everything about one job."""
    _print_one(ctx, _client(ctx).get_job(job_id))


@job.command("events")
@click.argument("job_id", type=int)
@click.pass_context
def job_events(ctx: click.Context, job_id: int) -> None:
    """The history of one job, oldest first."""
    db = _client(ctx)

    def rows() -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = db.list_events(job_id, cursor=cursor, max_events=1000)
            yield from page.rows
            cursor = page.next_cursor
            if cursor is None:
                return

    columns = ["at", "event", "to_status", "attempt", "fence", "worker", "actor", "detail"]
    _print_rows(ctx, rows(), columns, "no events: the job never existed, or is long gone")


def _each(ctx: click.Context, job_ids: Iterable[int], change: Callable[[int], Any]) -> None:
    """Changes one job after the other; one that is refused does not keep the rest from it."""
    changed: list[Any] = []
    failures: list[RowlockError] = []
    for job_id in job_ids:
        try:
            changed.append(change(job_id))
        except (JobNotFound, WrongState) as exc:
            failures.append(exc)
    if changed:
        columns = [name for name in _members(changed[0]) if name != "id"]
        _print_rows(ctx, changed, ["id", *columns], "")
    for failure in failures:
        _say(failure)
    if failures:
        ctx.exit(_exit_code(failures[0]))


_JOB_IDS = click.argument("job_ids", type=int, nargs=-1, required=True, metavar="JOB_ID...")
_REASON = click.option("--reason", help="Kept with the event.")


@job.command("retry")
@_JOB_IDS
@click.option("--extra-attempts", type=int, default=1, show_default=True, help="Runs granted.")
@click.option("--in", "delay", type=_duration, metavar="SPAN", help="Due in, such as 5m.")
@_REASON
@click.pass_context
def job_retry(
    ctx: click.Context,
    job_ids: tuple[int, ...],
    extra_attempts: int,
    delay: timedelta | None,
    reason: str | None,
) -> None:
    """Queue failed or cancelled jobs again."""
    db = _client(ctx)
    _each(ctx, job_ids, lambda job_id: db.retry(job_id, extra_attempts, delay, reason))


@job.command("cancel")
@_JOB_IDS
@_REASON
@click.pass_context
def job_cancel(ctx: click.Context, job_ids: tuple[int, ...], reason: str | None) -> None:
    """Cancel queued jobs; ask running ones to stop."""
    db = _client(ctx)
    _each(ctx, job_ids, lambda job_id: db.cancel(job_id, reason))


@job.command("run-now")
@_JOB_IDS
@_REASON
@click.pass_context
def job_run_now(ctx: click.Context, job_ids: tuple[int, ...], reason: str | None) -> None:
    """Make queued jobs due now."""
    db = _client(ctx)
    _each(ctx, job_ids, lambda job_id: db.run_now(job_id, reason))


@job.command("reprioritize")
@click.argument("job_id", type=int)
@click.argument("priority", type=int)
@_REASON
@click.pass_context
def job_reprioritize(ctx: click.Context, job_id: int, priority: int, reason: str | None) -> None:
    """Give a queued job another priority, 0 to 9, higher first."""
    db = _client(ctx)
    _each(ctx, [job_id], lambda job_id: db.reprioritize(job_id, priority, reason))


@job.command("bulk")
@click.argument(
    "action", type=click.Choice(["retry", "cancel", "run-now", "reprioritize", "discard"])
)
@click.argument("terms", nargs=-1, metavar="[FILTER]...")
@click.option("--all", "take_all", is_flag=True, help="Without a FILTER: whatever there is.")
@click.option("--dry-run", is_flag=True, help="Change nothing; say what would be.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--limit", type=click.IntRange(1), help="Change so many at most.")
@click.option("--extra-attempts", type=int, help="retry: runs granted [default: 1].")
@click.option("--in", "delay", type=_duration, metavar="SPAN", help="retry: due in, such as 5m.")
@click.option(
    "--spread", type=_duration, metavar="SPAN", help="retry: due spread evenly over this time."
)
@click.option("--priority", type=int, help="reprioritize: 0 to 9, higher first.")
@_REASON
@click.pass_context
def job_bulk(
    ctx: click.Context,
    /,
    action: str,
    terms: tuple[str, ...],
    take_all: bool,
    dry_run: bool,
    yes: bool,
    limit: int | None,
    reason: str | None,
    **options: Any,
) -> None:
    """Do something to all jobs that match.

    FILTER is that of `job list`. Retry and discard take failed jobs, unless FILTER says otherwise.
    A thousand jobs are a transaction; what changed meanwhile is skipped. A table counts what was
    done, the other outputs name each job.
    """
    wanted = _filter(terms)
    if bool(wanted) == take_all:
        raise click.UsageError("say which jobs with a FILTER, or --all without one")
    given = {name: value for name, value in options.items() if value is not None}
    db = _client(ctx)

    def rows(dry: bool, most: int | None) -> Iterator[BulkOutcome]:
        cursor: str | None = None
        while most is None or most > 0:
            at_once = min(most or client.MAX_BATCH, client.MAX_BATCH)
            page = db.bulk(action.replace("-", "_"), wanted, dry, at_once, given, reason, cursor)
            yield from page.rows
            if page.next_cursor is None:
                return
            cursor = page.next_cursor
            most = None if most is None else most - len(page.rows)

    if not dry_run and not yes:
        most = min(limit or _COUNTED + 1, _COUNTED + 1)
        matched = sum(1 for _ in rows(True, most))
        many = f"more than {_COUNTED:,}" if matched > _COUNTED else f"{matched:,}"
        click.confirm(f"{action} {many} jobs?", abort=True, err=True)
    _print_outcomes(ctx, rows(dry_run, limit))


# Jobs that are counted before a question.
_COUNTED = 10_000


def _print_outcomes(ctx: click.Context, outcomes: Iterator[BulkOutcome]) -> None:
    counts: Counter[tuple[str, str | None]] = Counter()

    def counted() -> Iterator[BulkOutcome]:
        for item in outcomes:
            counts[item.outcome, item.note] += 1
            yield item

    try:
        if ctx.ensure_object(_Run).output != "table":
            _print_rows(ctx, counted(), [], "")
            return
        for _ in counted():
            pass
    except RowlockError:
        for (outcome, _), number in counts.items():
            click.echo(f"{number} jobs were {outcome} before this:", err=True)
        raise
    told = [
        {"outcome": outcome, "note": note, "jobs": number}
        for (outcome, note), number in counts.most_common()
    ]
    _print_rows(ctx, told, ["outcome", "note", "jobs"], "no jobs match")


@main.command()
@click.option("-q", "--queue", help="Of one queue.")
@click.option("--kind", help="Of one kind.")
@click.option(
    "--since", type=_instant, metavar="TIME", help="Failed since, such as 2027-01-31T12:00:00Z."
)
@click.option("--limit", "max_groups", type=int, default=50, show_default=True)
@click.pass_context
def dead(ctx: click.Context, /, **options: Any) -> None:
    """What failed for good, by kind and error.

    `job list error_group:...` has the jobs of a group, `job bulk retry error_group:...` queues them
    again.
    """
    columns = ["error_group", "kind_of_job", "error_type", "error_message", "jobs"]
    _print_rows(
        ctx,
        _client(ctx).failure_groups(**options),
        [*columns, "last_hour", "last_day", "last_at", "sample_id"],
        "no job has failed",
    )


# -- queue


@main.group()
def queue() -> None:
    """Look at queues, pause them, set their defaults."""


@queue.command("list")
@click.pass_context
def queue_list(ctx: click.Context) -> None:
    """Every queue with jobs or a policy.

    Counts stop at 1,001; of more than a hundred queues sooner.
    """
    columns = ["queue", "ready", "scheduled", "retrying", "running", "failed", "oldest_ready_age"]
    _print_rows(ctx, _client(ctx).list_queues(), [*columns, "paused", "pause_reason"], "no queues")


@queue.command("pause")
@click.argument("name")
@click.option("--reason", help="Shown to whoever wonders.")
@click.option(
    "--for", "span", type=_duration, metavar="SPAN", help="Resume by itself after, such as 30m."
)
@click.option(
    "--until",
    type=_instant,
    metavar="TIME",
    help="Resume by itself at, such as 2027-01-31T12:00:00Z.",
)
@click.pass_context
def queue_pause(
    ctx: click.Context,
    name: str,
    reason: str | None,
    span: timedelta | None,
    until: datetime | None,
) -> None:
    """Let nothing more of a queue be claimed. Running jobs go on."""
    if span is not None:
        if until is not None:
            raise click.UsageError("--for and --until exclude each other")
        until = datetime.now(UTC) + span
    _print_one(ctx, _client(ctx).pause(name, reason, until))


@queue.command("resume")
@click.argument("name")
@click.option("--reason", help="Kept in the audit.")
@click.pass_context
def queue_resume(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let a paused queue be claimed again."""
    was_paused = _client(ctx).resume(name, reason)
    if ctx.ensure_object(_Run).output != "table":
        _print_one(ctx, {"was_paused": was_paused})
    else:
        click.echo(f"{logs.escape(name)} " + ("resumed" if was_paused else "was not paused"))


_SPANS = ("lease", "timeout", "backoff_base", "backoff_cap", "finished_retention")
_POLICY = (*_SPANS, "failed_retention", "max_attempts")


@queue.command("set")
@click.argument("name")
@click.argument("values", nargs=-1, metavar="[SETTING=VALUE]...")
@click.option("--reason", help="Kept in the audit.")
@click.pass_context
def queue_set(ctx: click.Context, name: str, values: tuple[str, ...], reason: str | None) -> None:
    """Set a queue's own defaults.

    SETTING is lease, timeout, max_attempts, backoff_base, backoff_cap, finished_retention or
    failed_retention; nothing after the = goes back to the general setting. Without any, the queue's
    settings are printed.
    """
    given: dict[str, Any] = {}
    unset: list[str] = []
    for pair in values:
        setting, equals, value = pair.partition("=")
        if not equals or setting not in _POLICY:
            raise click.UsageError(f"not a setting: {pair!r}; one of {', '.join(_POLICY)}")
        if not value:
            unset.append(setting)
        elif setting == "max_attempts":
            if not re.fullmatch(r"[0-9]{1,9}", value):
                raise click.UsageError(f"not a number: {pair!r}")
            given[setting] = int(value)
        else:
            given[setting] = duration(value)
    policy = _client(ctx).set_policy(name, **given, unset=unset, reason=reason)
    _print_rows(ctx, policy, ["name", "value"], "")


# -- the whole


@main.command()
@click.pass_context
def stats(ctx: click.Context) -> None:
    """The whole in a few numbers."""
    columns = ["name", "priority", "value", "capped"]
    _print_rows(ctx, _client(ctx).stats(), columns, "nothing to count")


@main.command()
@click.argument("terms", nargs=-1, metavar="[FILTER]...")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--follow", is_flag=True, help="Each that commits from now on, once, for ever.")
@click.option("--cursor", help="Go on where an earlier call ended; with --follow also: start.")
@click.pass_context
def events(
    ctx: click.Context, terms: tuple[str, ...], limit: int, follow: bool, cursor: str | None
) -> None:
    """What happened to jobs, newest first.

    FILTER is name:value: event, queue, kind, worker or actor; --follow takes none. Told to end, it
    says where to go on, so that nothing is missed or told twice.
    """
    columns = ["at", "job_id", "event", "queue", "kind", "attempt", "worker", "actor", "detail"]
    if follow:
        if terms:
            raise click.UsageError("--follow takes no FILTER; -o jsonl can be filtered")
        _follow_events(ctx, cursor, columns)
        return
    wanted = {}
    for term in terms:
        name, colon, value = term.partition(":")
        if not colon:
            raise click.UsageError(f"not a filter: {term!r}; write queue:billing, event:failed")
        wanted[name] = value
    if cursor is not None and not re.fullmatch(r"[0-9]{1,18}", cursor):
        raise click.UsageError(f"not a cursor of this list: {cursor!r}")
    page = _client(ctx).list_events(filter=wanted, cursor=cursor, max_events=limit)
    _print_rows(ctx, page.rows, columns, "no events match")
    _say_where(page.next_cursor)


def _follow_events(ctx: click.Context, cursor: str | None, columns: Sequence[str]) -> None:
    output = ctx.ensure_object(_Run).output
    if output == "json":
        raise click.UsageError("--follow has no end, and -o json needs one: take -o jsonl")
    lines = _Lines(output, columns)

    def turn(db: Client) -> float:
        nonlocal cursor
        page = db.read_events(cursor)
        for event in page.rows:
            lines.print(event)
        cursor = page.next_cursor
        return 1 if len(page.rows) < client.MAX_BATCH else 0

    _for_ever(_located(ctx).url, "events", turn)
    _say_where(cursor)


def _say_where(cursor: str | None) -> None:
    if cursor is not None:
        click.echo(f"more: --cursor '{cursor}'", err=True)


@main.command()
@click.option("--loop", is_flag=True, help="For ever, as workers do.")
@click.pass_context
def tick(ctx: click.Context, loop: bool) -> None:
    """Do the maintenance that is due: reap, prune, rotate events."""
    if loop:
        _tick_for_ever(_located(ctx).url)
        return
    db = _client(ctx)

    def steps() -> Iterator[Any]:
        more = True
        while more:
            step = db.tick()
            more = step.more
            if step.step is not None:
                yield step

    _print_rows(ctx, steps(), ["step", "processed"], "nothing is due")


def _tick_for_ever(url: str) -> None:
    def turn(db: Client) -> float:
        step = db.tick()
        if step.step is not None:
            click.echo(f"{datetime.now(UTC):%H:%M:%S} {step.step} {step.processed}")
        if step.more:
            return 0
        return min(max((step.due_in or timedelta(seconds=5)).total_seconds(), 0.5), 30)

    _for_ever(url, "tick", turn)


def _for_ever(url: str, application: str, turn: Callable[[Client], float]) -> None:
    """Calls `turn`, which says for how many seconds to rest then.

    Survives whatever happens to the server; ends on SIGTERM and SIGINT.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    failures = 0
    while not stop.is_set():
        try:
            with client.connect(url, application) as conn:
                db = Client(conn)
                while not stop.is_set():
                    rest = turn(db)
                    failures = 0
                    stop.wait(rest)
        except (NotAllowed, InvalidArgument):
            raise
        except RowlockError as exc:
            if failures == 0:
                _say(exc)
            failures += 1
            stop.wait(min(0.5 * 2**failures, 15))


@main.group()
def cron() -> None:
    """Let pg_cron do the ticking."""


@cron.command("install")
@click.pass_context
def cron_install(ctx: click.Context) -> None:
    """Schedule tick() in pg_cron, which must be installed in this database."""
    _print_rows(ctx, _client(ctx).install_cron(), ["job", "schedule"], "nothing was scheduled")


@cron.command("remove")
@click.pass_context
def cron_remove(ctx: click.Context) -> None:
    """Take back what `cron install` scheduled."""
    _print_one(ctx, {"removed": _client(ctx).uninstall_cron()})


# -- health


@main.command()
@click.option("--worker", metavar="URL", help="Ask a worker's health address instead.")
@click.pass_context
def health(ctx: click.Context, worker: str | None) -> None:
    """For container checks: exit 0 when well, 7 when not."""
    if worker is not None:
        _worker_health(worker)
        return
    _print_checks(ctx, _client(ctx).health())


def _worker_health(address: str) -> None:
    if "://" not in address:
        address = f"http://{'127.0.0.1' if address.startswith(':') else ''}{address}"
    if address.count("/") < 3:
        address += "/readyz"
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            click.echo(logs.escape(answer.read(10_000).decode(errors="replace")))
    except urllib.error.HTTPError as exc:
        body = logs.escape(exc.read(10_000).decode(errors="replace"))
        click.echo(body)
        raise SystemExit(UNHEALTHY) from exc
    except (OSError, ValueError) as exc:
        raise Unavailable(f"{address} does not answer: {exc}") from exc


def _print_checks(ctx: click.Context, checks: Sequence[Check]) -> None:
    _print_rows(ctx, checks, ["check_name", "status", "detail"], "no checks")
    worse = [check for check in checks if check.status != "ok"]
    if ctx.ensure_object(_Run).output == "table":
        for check in worse:
            if check.hint:
                click.echo(f"{check.check_name}: {logs.escape(check.hint)}", err=True)
    if any(check.status == "fail" for check in checks):
        ctx.exit(UNHEALTHY)


@main.command()
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Look for what is wrong: health(), and versions, roles, pg_cron, pooler. Exit 7 if any."""
    location = _located(ctx)
    conn = client.connect(location.url, "doctor")
    ctx.call_on_close(conn.close)
    checks = list(_diagnose(Client(conn), location))
    _print_checks(ctx, checks)


def _diagnose(db: Client, location: Location) -> Iterator[Check]:
    session = db.session()
    version = session.server_version // 10000
    yield Check(
        "server",
        "fail" if version < 15 else "ok" if version <= 18 else "warn",
        f"PostgreSQL {version}.{session.server_version % 10000}",
        "Rowlock is tested on PostgreSQL 15 to 18.",
    )
    assert isinstance(db.conn, client.Connection)
    pooled = db.conn.pooled
    yield Check(
        "pooler",
        "warn" if pooled else "ok",
        "behind a pooler" if pooled else "none",
        "Workers cannot be woken through a transaction pooler and poll instead.",
    )
    yield Check(
        "encoding",
        "ok" if session.encoding == "UTF8" else "fail",
        session.encoding,
        "Payloads are UTF-8: use a database with encoding UTF8.",
    )
    if session.read_only:
        yield Check("read_only", "fail", "the server is read-only", "Connect to the primary.")
    yield Check(
        "roles",
        "ok" if session.roles else "fail",
        f"{session.login} has {', '.join(session.roles) or 'none of the queue_* roles'}",
        "grant queue_worker, queue_producer, ... to this login.",
    )
    yield Check(
        "pg_cron",
        "ok",
        session.pg_cron or "not installed: workers tick",
        None,
    )
    yield _writers(db)
    if not session.has_schema:
        yield Check("schema", "fail", "schema queue is missing", "Run `rowlock migrate`.")
        return
    yield _version(location)
    try:
        yield from db.health()
    except NotAllowed as exc:
        yield Check("health", "warn", str(exc), "Grant queue_viewer to see more.")


def _writers(db: Client) -> Check:
    """Behind an old writing transaction the floor under claims stands still."""
    writer = db.oldest_writer()
    if writer is None:
        return Check("writers", "ok", "no open writing transaction", None)
    since = "" if writer.since is None else f" since {_cell(writer.since)}"
    old = writer.age > 100_000 or (
        writer.since is not None and datetime.now(UTC) - writer.since > timedelta(minutes=5)
    )
    return Check(
        "writers",
        "warn" if old else "ok",
        f"pid {writer.pid} ({writer.application_name or 'unnamed'}, database {writer.database}) "
        f"has a writing transaction open{since}, {writer.age:,} transactions ago",
        f"If it is forgotten: select pg_terminate_backend({writer.pid})",
    )


def _version(location: Location) -> Check:
    try:
        found = deploy.check(location.url, wait=timedelta(seconds=5))
    except (NotAllowed, WrongState) as exc:
        return Check(
            "version", "ok", f"not compared, since this login may not migrate: {exc}", None
        )
    except Unavailable as exc:
        return Check("version", "warn", str(exc), exc.hint)
    if not found:
        return Check("version", "ok", f"{deploy.Source.found().version()}, nothing differs", None)
    return Check("version", "fail", "; ".join(found), "Run `rowlock migrate`.")


# -- processes


def _load(name: str) -> Any:
    """The App that `pkg.mod:app` names; the folder one stands in can be imported from."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise click.UsageError(f"--app reads package.module:attribute, not {name!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or not module.startswith(exc.name):
            raise
        raise click.UsageError(f"there is no module {module}") from exc
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"module {module} has no {attribute}")
        found = getattr(found, part)
    return found


@main.command()
@click.option("--app", "app_name", required=True, metavar="PKG.MOD:APP", help="The App to run.")
@click.option("-q", "--queue", "queues", multiple=True, help="Served in the order given.")
@click.option(
    "-t",
    "--threads",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    envvar="ROWLOCK_THREADS",
    help="Handlers that run at once.",
)
@click.option("--burst", is_flag=True, help="End when nothing is due.")
@click.option("--max-jobs", type=click.IntRange(1), help="End after so many.")
@click.option("--health-addr", metavar=":8321", help="Serve /healthz, /readyz and /metrics.")
@click.option("--json-logs", is_flag=True, help="Log JSON, one object a line.")
@click.pass_context
def worker(
    ctx: click.Context,
    app_name: str,
    queues: tuple[str, ...],
    threads: int,
    burst: bool,
    max_jobs: int | None,
    health_addr: str | None,
    json_logs: bool,
) -> None:
    """Run jobs. SIGTERM finishes what runs and ends; a second one skips the waiting."""
    from pyworker.app import App
    from pyworker.worker import Worker

    app = _load(app_name)
    if not isinstance(app, App):
        raise click.UsageError(f"{app_name} is a {type(app).__name__}, not an App")
    run = ctx.ensure_object(_Run)
    if not run.database_url and not run.embedded and app.url:
        run.database_url = app.url
    location = _located(ctx)
    logs.configure("DEBUG" if run.verbose else None, "json" if json_logs else None)
    Worker(
        app,
        location.url or None,
        queues=queues or ("default",),
        threads=threads,
        burst=burst,
        max_jobs=max_jobs,
        health_addr=health_addr,
    ).run_process()


# -- the dashboard


@main.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option("--base-path", default="", metavar="/PATH", help="Where a proxy serves it.")
@click.option("-t", "--threads", type=click.IntRange(1, 200), default=8, show_default=True)
@click.pass_context
def web(ctx: click.Context, host: str, port: int, base_path: str, threads: int) -> None:
    """Serve the dashboard and the HTTP API. Each thread has one database connection.

    ROWLOCK_INSTANCE and ROWLOCK_INSTANCE_COLOUR name this installation on every page;
    ROWLOCK_SECURE_COOKIES=1 where a proxy ends TLS; ROWLOCK_TRUSTED_HOSTS are the names to answer
    to; ROWLOCK_PROXIES is how many proxies in front are believed.
    """
    from webui.config import Config
    from webui.server import Server

    location = _located(ctx)
    logs.configure("DEBUG" if ctx.ensure_object(_Run).verbose else None)
    server = Server(Config.from_environment(location.url, base_path=base_path), host, port, threads)
    if not server.has_accounts:
        click.echo(
            "no account yet: rowlock account add NAME --role admin makes the first", err=True
        )
    click.echo(f"dashboard: {server.address}/", err=True)

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    server.run()


_DASHBOARD_ROLES = ("viewer", "operator", "admin")
_ROLE = click.option(
    "--role", type=click.Choice(_DASHBOARD_ROLES), default="viewer", show_default=True
)
_PASSWORD_STDIN = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, not a prompt."
)
_DASHBOARD = click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, help="Where the dashboard is."
)


def _password_hash(from_stdin: bool) -> str:
    from webui.auth import hash_password

    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return hash_password(password)


def _link(url: str, secret: str) -> str:
    return f"{url.rstrip('/')}/sign-in/link/{secret}"


@main.group()
def account() -> None:
    """Who may sign in to the dashboard."""


@account.command("add")
@click.argument("name")
@_ROLE
@_PASSWORD_STDIN
@click.option("--link", "by_link", is_flag=True, help="No password: print a sign-in link instead.")
@_DASHBOARD
@_REASON
@click.pass_context
def account_add(
    ctx: click.Context,
    name: str,
    role: str,
    password_stdin: bool,
    by_link: bool,
    url: str,
    reason: str | None,
) -> None:
    """Let somebody sign in. The password has 12 characters or more."""
    db = _client(ctx)
    password_hash = None if by_link else _password_hash(password_stdin)
    db.create_account(name, role, password_hash, reason)
    click.echo(f"account {logs.escape(name)} may sign in as {role}", err=True)
    if by_link:
        click.echo(_link(url, db.create_link(name, timedelta(days=1))))


@account.command("passwd")
@click.argument("name")
@_PASSWORD_STDIN
@_REASON
@click.pass_context
def account_passwd(ctx: click.Context, name: str, password_stdin: bool, reason: str | None) -> None:
    """Give an account another password. Ends its sessions."""
    db = _client(ctx)
    db.set_account(name, password_hash=_password_hash(password_stdin), reason=reason)
    click.echo(f"account {logs.escape(name)} has a new password", err=True)


@account.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(_DASHBOARD_ROLES))
@_REASON
@click.pass_context
def account_role(ctx: click.Context, name: str, role: str, reason: str | None) -> None:
    """Give an account another role. Ends its sessions."""
    _client(ctx).set_account(name, role=role, reason=reason)
    click.echo(f"account {logs.escape(name)} is {role}", err=True)


@account.command("disable")
@click.argument("name")
@_REASON
@click.pass_context
def account_disable(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let an account sign in no more. Ends its sessions."""
    _client(ctx).set_account(name, disabled=True, reason=reason)
    click.echo(f"account {logs.escape(name)} is disabled", err=True)


@account.command("enable")
@click.argument("name")
@_REASON
@click.pass_context
def account_enable(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let a disabled account sign in again."""
    _client(ctx).set_account(name, disabled=False, reason=reason)
    click.echo(f"account {logs.escape(name)} is enabled", err=True)


@account.command("list")
@click.pass_context
def account_list(ctx: click.Context) -> None:
    """Every account."""
    columns = ["account", "role", "has_password", "disabled_at", "sessions", "seen_at"]
    _print_rows(ctx, _client(ctx).list_accounts(), columns, "no accounts")


@account.command("link")
@click.argument("name")
@click.option("--lifetime", type=_duration, metavar="SPAN", default="10m", show_default=True)
@_DASHBOARD
@click.pass_context
def account_link(ctx: click.Context, name: str, lifetime: timedelta, url: str) -> None:
    """Print a link that signs an account in, once."""
    click.echo(_link(url, _client(ctx).create_link(name, lifetime)))


@main.group()
def token() -> None:
    """Secrets of programs that use the HTTP API."""


@token.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(("producer", "worker", *_DASHBOARD_ROLES)), required=True)
@click.option("--lifetime", type=_duration, metavar="SPAN", default="90d", show_default=True)
@_REASON
@click.pass_context
def token_create(
    ctx: click.Context, name: str, role: str, lifetime: timedelta, reason: str | None
) -> None:
    """Print a new token. It is shown this once."""
    made = _client(ctx).create_token(name, role, lifetime, reason)
    until = f", until {_cell(made.expires_at)}" if made.expires_at else ""
    click.echo(f"token {made.id} with role {role}{until}", err=True)
    if ctx.ensure_object(_Run).output == "table":
        click.echo(made.secret)
    else:
        _print_one(ctx, made)


@token.command("list")
@click.pass_context
def token_list(ctx: click.Context) -> None:
    """Every token, without its secret."""
    columns = ["id", "name", "role", "created_by", "expires_at", "revoked_at", "used_at"]
    _print_rows(ctx, _client(ctx).list_tokens(), columns, "no tokens")


@token.command("revoke")
@click.argument("token_id", type=int)
@_REASON
@click.pass_context
def token_revoke(ctx: click.Context, token_id: int, reason: str | None) -> None:
    """Refuse a token from now on."""
    _client(ctx).revoke_token(token_id, reason)
    click.echo(f"token {token_id} is revoked", err=True)


@main.command()
@click.option("--once", is_flag=True, help="Run 500 jobs to their end, then print a summary.")
@click.option("--workers", type=click.IntRange(2), default=3, show_default=True)
@click.option("-t", "--threads", type=click.IntRange(1), default=8, show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Of the dashboard; another where it is taken.",
)
@click.pass_context
def demo(ctx: click.Context, once: bool, workers: int, threads: int, port: int) -> None:
    """See it work: jobs that fail, and that stop and kill their workers.

    On an embedded PostgreSQL, unless --database-url names a migrated database: one that stays and
    that `rowlock --embedded ...` attaches to; with --once, one that goes when it ends.
    """
    from pyworker import demo as show

    run = ctx.ensure_object(_Run)
    run.embedded = not run.database_url
    run.throwaway = once
    url = _located(ctx).url
    if once:
        ctx.exit(show.once(url, workers=workers, threads=threads))
    where = "--embedded" if run.embedded else "--database-url ..."
    ctx.exit(
        show.live(
            url,
            workers=workers,
            threads=threads,
            attach=f"rowlock {where} job list",
            dashboard=_demo_dashboard(url, port),
        )
    )


def _demo_dashboard(url: str, port: int) -> str:
    """Serves the dashboard beside; returns a link that signs in whoever opens it first."""
    from webui.config import Config
    from webui.server import Server

    config = Config(database_url=url, instance="demo", colour="blue")
    try:
        server = Server(config, "127.0.0.1", port)
    except InvalidArgument:
        server = Server(config, "127.0.0.1", 0)
    server.run_beside()
    with client.connect(url, "demo") as conn:
        db = Client(conn)
        with suppress(WrongState):
            db.create_account("demo", "admin", reason="rowlock demo")
        return _link(server.address, db.create_link("demo", timedelta(days=1)))


@main.command()
@click.pass_context
def version(ctx: click.Context) -> None:
    """The version of this Rowlock and of its SQL."""
    source = deploy.Source.found()
    _print_one(ctx, {"rowlock": source.version(), "functions": source.digest()})


if __name__ == "__main__":
    main()
