"""`rowlock settings`: the defaults of all queues."""

from __future__ import annotations

import click

from pyworker.cli import arguments
from pyworker.cli.arguments import AUDIT_REASON
from pyworker.cli.output import print_settings
from pyworker.cli.shared import Group, connected


@click.group(cls=Group)
def settings() -> None:
    """The defaults of all queues, and how long things are kept."""


@settings.command("show")
@click.pass_context
def settings_show(ctx: click.Context) -> None:
    """The settings as they are."""
    db = connected(ctx)
    print_settings(ctx, db.get_settings())


@settings.command("set")
@click.argument("values", nargs=-1, required=True, metavar="NAME=VALUE...")
@AUDIT_REASON
@click.pass_context
def settings_set(ctx: click.Context, values: tuple[str, ...], reason: str | None) -> None:
    """Change settings, all those given or none; print what holds now.

    NAME is lease, max_attempts, backoff_base, backoff_cap, finished_retention, failed_retention,
    events_retention, tick_interval or claim_floor. Durations are written 90s, 5m, 1h30m or 2d.
    """
    given = arguments.settings(values)
    db = connected(ctx)
    print_settings(ctx, db.set_settings(given, reason))
