"""`rowlock tick`, `rowlock cron`: who does the maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pyworker.cli.output import print_one, print_rows
from pyworker.cli.shared import Command, Group, connected, for_ever, located
from pyworker.client import Client


@click.command(cls=Command)
@click.option("--loop", is_flag=True, help="For ever, as workers do.")
@click.pass_context
def tick(ctx: click.Context, loop: bool) -> None:
    """Do the maintenance that is due: reap, prune, rotate events."""
    if loop:
        _tick_for_ever(located(ctx).url)
        return
    db = connected(ctx)

    def steps() -> Iterator[Any]:
        more = True
        while more:
            step = db.tick()
            more = step.more
            if step.step is not None:
                yield step

    print_rows(ctx, steps(), ["step", "processed"], "nothing is due")


def _tick_for_ever(url: str) -> None:
    def turn(db: Client) -> float:
        step = db.tick()
        if step.step is not None:
            click.echo(f"{datetime.now(UTC):%H:%M:%S} {step.step} {step.processed}")
        if step.more:
            return 0
        return min(max((step.due_in or timedelta(seconds=5)).total_seconds(), 0.5), 30)

    for_ever(url, "tick", turn)


@click.group(cls=Group)
def cron() -> None:
    """Let pg_cron do the ticking."""


@cron.command("install")
@click.pass_context
def cron_install(ctx: click.Context) -> None:
    """Schedule tick() in pg_cron.

    Which must be installed in this database.
    """
    print_rows(ctx, connected(ctx).install_cron(), ["job", "schedule"], "nothing was scheduled")


@cron.command("remove")
@click.pass_context
def cron_remove(ctx: click.Context) -> None:
    """Take back what `cron install` scheduled."""
    print_one(ctx, {"removed": connected(ctx).uninstall_cron()})
