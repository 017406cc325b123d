"""`rowlock queue`: queues, their pauses and their defaults."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pyworker import logs
from pyworker.cli.arguments import AUDIT_REASON, instant, settings, span
from pyworker.cli.output import print_one, print_rows, print_settings
from pyworker.cli.shared import Group, Run, connected
from pyworker.client import Client
from pyworker.durations import duration


@click.group(cls=Group)
def queue() -> None:
    """Look at queues, pause them, set their defaults."""


@queue.command("list")
@click.pass_context
def queue_list(ctx: click.Context) -> None:
    """Every queue with jobs or a policy.

    Counts stop at 1,001; of more than a hundred queues sooner.
    """
    columns = ["queue", "ready", "scheduled", "retrying", "running", "failed", "oldest_ready_age"]
    print_rows(ctx, connected(ctx).list_queues(), [*columns, "paused", "pause_reason"], "no queues")


@queue.command("pause")
@click.argument("name")
@click.option("--reason", help="Shown to whoever wonders.")
@click.option(
    "--for", "span", type=span, metavar="SPAN", help="Resume by itself after, such as 30m."
)
@click.option(
    "--until",
    type=instant,
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
        try:
            until = datetime.now(UTC) + span
        except OverflowError:
            raise click.UsageError("--for leads beyond the year 9999") from None
    db = connected(ctx)
    print_one(ctx, db.pause(name, reason, until))
    _tell_if_empty(db, name)


@queue.command("resume")
@click.argument("name")
@AUDIT_REASON
@click.pass_context
def queue_resume(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let a paused queue be claimed again."""
    db = connected(ctx)
    was_paused = db.resume(name, reason)
    if ctx.ensure_object(Run).output != "table":
        print_one(ctx, {"was_paused": was_paused})
    else:
        click.echo(f"{logs.escape(name)} " + ("resumed" if was_paused else "was not paused"))
    if not was_paused:
        _tell_if_empty(db, name)


@queue.command("policy")
@click.argument("name")
@click.pass_context
def queue_policy(ctx: click.Context, name: str) -> None:
    """What a queue has in place of the settings; nothing where they hold."""
    db = connected(ctx)
    print_settings(ctx, db.get_policy(name))
    _tell_if_empty(db, name)


@queue.command("set")
@click.argument("name")
@click.argument("values", nargs=-1, required=True, metavar="SETTING=VALUE...")
@AUDIT_REASON
@click.pass_context
def queue_set(ctx: click.Context, name: str, values: tuple[str, ...], reason: str | None) -> None:
    """Set a queue's own defaults.

    SETTING is lease, timeout, max_attempts, backoff_base, backoff_cap, finished_retention or
    failed_retention; nothing after the = goes back to the general setting.
    """
    given: dict[str, Any] = {}
    unset: list[str] = []
    for setting, value in settings(values).items():
        if setting not in _POLICY:
            raise click.UsageError(f"a queue has no {setting!r}; one of {', '.join(_POLICY)}")
        if not value:
            unset.append(setting)
        elif setting != "max_attempts":
            given[setting] = duration(value)
        elif re.fullmatch(r"-?[0-9]{1,9}", value):
            given[setting] = int(value)
        else:
            raise click.UsageError(f"max_attempts is a number from 1 to 100,000, not {value!r}")
    db = connected(ctx)
    print_settings(ctx, db.set_policy(name, **given, unset=unset, reason=reason))
    _tell_if_empty(db, name)


_POLICY = (
    *("lease", "timeout", "max_attempts", "backoff_base", "backoff_cap"),
    *("finished_retention", "failed_retention"),
)


def _tell_if_empty(db: Client, name: str) -> None:
    """Queues exist by being used: a slip of the pen is told by what is not there."""
    found = db.list_queues(0, [name])
    if not any(item.ready or item.scheduled or item.retrying or item.running for item in found):
        click.echo(f"no job waits or runs in {logs.escape(name)}", err=True)
