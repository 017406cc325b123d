"""`rowlock queue`: queues, their pauses and their defaults."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pyworker import logs
from pyworker.cli.arguments import instant, span
from pyworker.cli.output import print_one, print_rows
from pyworker.cli.shared import Group, Run, connected
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
    for item in db.list_queues(0, [name]):
        if not (item.ready or item.scheduled or item.retrying or item.running):
            click.echo(f"no job waits or runs in {logs.escape(name)}", err=True)


@queue.command("resume")
@click.argument("name")
@click.option("--reason", help="Kept in the audit.")
@click.pass_context
def queue_resume(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let a paused queue be claimed again."""
    was_paused = connected(ctx).resume(name, reason)
    if ctx.ensure_object(Run).output != "table":
        print_one(ctx, {"was_paused": was_paused})
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
    policy = connected(ctx).set_policy(name, **given, unset=unset, reason=reason)
    print_rows(ctx, policy, ["name", "value"], "")
