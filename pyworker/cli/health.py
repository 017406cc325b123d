"""`rowlock stats`, `workers`, `health`, `doctor`: how it goes, and what is wrong."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import click

from pyworker import client, deploy, logs
from pyworker.cli.output import cell_of, print_rows
from pyworker.cli.shared import UNHEALTHY, Command, Run, connected, located
from pyworker.client import Check, Client, Location
from pyworker.errors import NotAllowed, Unavailable, WrongState


@click.command(cls=Command)
@click.pass_context
def stats(ctx: click.Context) -> None:
    """The whole in a few numbers."""
    columns = ["name", "priority", "value", "capped"]
    print_rows(ctx, connected(ctx).stats(), columns, "nothing to count")


@click.command(cls=Command)
@click.pass_context
def workers(ctx: click.Context) -> None:
    """Who works: live sessions, and leases of workers that are gone."""
    print_rows(
        ctx,
        connected(ctx).list_workers(),
        ["worker", "state", "sessions", "running", "oldest_lease_left", "started_at"],
        "no workers",
    )


@click.command(cls=Command)
@click.option("--worker", metavar="URL", help="Ask a worker's health address instead.")
@click.pass_context
def health(ctx: click.Context, worker: str | None) -> None:
    """For container checks.

    Exit 0 when well, 7 when not, 5 where nobody answers.
    """
    if worker is not None:
        _worker_health(worker)
        return
    _print_checks(ctx, connected(ctx).health())


def _worker_health(address: str) -> None:
    if not re.match(r"https?://.|(?!\w+://).", address):
        raise click.UsageError(f"--worker is :8321, HOST:PORT or an http:// address: {address!r}")
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
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise Unavailable(f"{address} does not answer: {exc}") from exc


def _print_checks(ctx: click.Context, checks: Sequence[Check]) -> None:
    print_rows(ctx, checks, ["check_name", "status", "detail"], "no checks", widest=2000)
    worse = [check for check in checks if check.status != "ok"]
    if ctx.ensure_object(Run).output == "table":
        for check in worse:
            if check.hint:
                click.echo(f"{check.check_name}: {logs.escape(check.hint)}", err=True)
    if any(check.status == "fail" for check in checks):
        ctx.exit(UNHEALTHY)


@click.command(cls=Command)
@click.pass_context
def doctor(ctx: click.Context) -> None:
    """Look for what is wrong, and say what to do.

    At health(), versions, roles, pg_cron, pooler. Exit 7 if any fails.
    """
    location = located(ctx)
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
    since = "" if writer.since is None else f" since {cell_of(writer.since)}"
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
