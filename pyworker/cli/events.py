"""`rowlock events`: what happened to jobs, and what happens."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from pyworker import client
from pyworker.cli.arguments import pairs
from pyworker.cli.output import Lines, print_pages, say_where
from pyworker.cli.shared import Command, Run, connected, for_ever, located
from pyworker.client import Client, Event, Page


@click.command(cls=Command)
@click.argument("terms", nargs=-1, metavar="[FILTER]...")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
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
    wanted = pairs(terms)
    if cursor is not None and not re.fullmatch(r"[0-9]{1,18}", cursor):
        raise click.UsageError(f"not a cursor of this list: {cursor!r}")
    db = connected(ctx)

    def fetch(cursor: str | None, most: int) -> Page[Event]:
        return db.list_events(filter=wanted, cursor=cursor, max_events=most)

    print_pages(ctx, fetch, cursor, limit, 1000, columns, "no events match")


def _follow_events(ctx: click.Context, cursor: str | None, columns: Sequence[str]) -> None:
    output = ctx.ensure_object(Run).output
    if output == "json":
        raise click.UsageError("--follow has no end, and -o json needs one: take -o jsonl")
    lines = Lines(output, columns)

    def turn(db: Client) -> float:
        nonlocal cursor
        page = db.read_events(cursor)
        for event in page.rows:
            lines.print(event)
        cursor = page.next_cursor
        return 1 if len(page.rows) < client.MAX_BATCH else 0

    try:
        for_ever(located(ctx).url, "events", turn)
    finally:
        say_where(cursor)
