"""`rowlock worker`, `web`, `demo`: the processes that stay."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from types import FrameType
from typing import Any

import click

from pyworker import client, logs
from pyworker.cli.accounts import sign_in_link
from pyworker.cli.shared import Command, Run, located
from pyworker.client import Client
from pyworker.errors import InvalidArgument, WrongState


def _load(name: str) -> Any:
    """The App that `pkg.mod:app` names; the folder one stands in can be imported from."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute or module.startswith("."):
        raise click.UsageError(f"--app reads package.module:attribute, not {name!r}")
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):
            raise
        raise click.UsageError(f"there is no module {module}") from exc
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f"module {module} has no {attribute}")
        found = getattr(found, part)
    return found


@click.command(cls=Command)
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
@click.option(
    "--health-addr",
    metavar="[HOST]:PORT",
    help="Serve /healthz, /readyz and /metrics, without sign-in. :8321 listens on every address, "
    "127.0.0.1:8321 on loopback only.",
)
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
    run = ctx.ensure_object(Run)
    if not run.database_url and not run.embedded and app.url:
        run.database_url = app.url
    location = located(ctx)
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


@click.command(cls=Command)
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

    location = located(ctx)
    logs.configure("DEBUG" if ctx.ensure_object(Run).verbose else None)
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


@click.command(cls=Command)
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
    """See it work.

    Jobs that fail, and that stop and kill their workers. On an embedded PostgreSQL, unless
    --database-url names a migrated database: one that stays and that `rowlock --embedded ...`
    attaches to; with --once, one that goes when it ends.
    """
    from pyworker import demo as show

    run = ctx.ensure_object(Run)
    run.embedded = not run.database_url
    run.throwaway = once
    url = located(ctx).url
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
        return sign_in_link(server.address, db.create_link("demo", timedelta(days=1)))
