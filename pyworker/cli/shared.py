"""What all commands share: their options, the database, how errors are told."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import click

from pyworker import client, deploy, logs
from pyworker.client import Client, Location
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


def say(error: RowlockError) -> None:
    """On one line, since the words may be a job's; the hint on the next."""
    click.secho(f"rowlock: {logs.escape(' '.join(str(error).split()))}", fg="red", err=True)
    if error.hint:
        click.echo(f"  {logs.escape(error.hint)}", err=True)


def exit_code(error: RowlockError) -> int:
    return _EXIT_CODES.get(type(error), 1)


@dataclass(slots=True)
class Run:
    """The options that every command takes, wherever on the line they stood."""

    database_url: str | None = None
    embedded: bool = False
    throwaway: bool = False
    output: str = "table"
    verbose: bool = False


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        assert param.name is not None
        setattr(ctx.ensure_object(Run), param.name, value)


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


class Command(click.Command):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()


class Group(click.Group):
    command_class = Command
    group_class = type

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _shared_options()

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
            ctx.color = False
        if isinstance(sys.stdout, io.TextIOWrapper):
            # What a terminal's encoding does not have is no reason to end half-way.
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except RowlockError as exc:
            say(exc)
            ctx.exit(exit_code(exc))
        except click.UsageError as exc:
            lines = exc.format_message().expandtabs(4).split("\n")
            if any(logs.escape(line) != line for line in lines):
                raise click.UsageError("\n".join(map(logs.escape, lines)), exc.ctx) from exc
            raise
        except OSError as exc:
            # A reader that left has what it wanted. Nor is more to be told as Python ends.
            if not isinstance(exc, BrokenPipeError):
                say(RowlockError(str(exc)))
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(1)


def located(ctx: click.Context) -> Location:
    """The database of this run, stated on stderr."""
    run = ctx.ensure_object(Run)
    logs.configure("DEBUG" if run.verbose else os.environ.get("ROWLOCK_LOG_LEVEL", "WARNING"))
    if run.database_url == "":
        raise click.UsageError("--database-url is empty")
    location = _embedded(ctx, run) if run.embedded else client.resolve(run.database_url)
    click.echo(f"database: {location}", err=True)
    return location


def _embedded(ctx: click.Context, run: Run) -> Location:
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


def connected(ctx: click.Context) -> Client:
    conn = client.connect(located(ctx).url, "cli")
    ctx.call_on_close(conn.close)
    return Client(conn)


@contextmanager
def telling(done: Callable[[], str]) -> Iterator[None]:
    """Says what is done when the rest is not: an error, Ctrl-C, SIGTERM, a reader that left."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except BaseException:
        if words := done():
            click.echo(words, err=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def for_ever(url: str, application: str, turn: Callable[[Client], float]) -> None:
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
        except (InvalidArgument, NotAllowed, WrongState):
            raise
        except RowlockError as exc:
            if failures == 0:
                say(exc)
            failures += 1
            stop.wait(min(0.5 * 2 ** min(failures, 5), 15))
