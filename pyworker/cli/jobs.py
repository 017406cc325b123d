"""`rowlock job`, `rowlock dead`: jobs one by one, and many by what they have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import chain
from typing import Any

import click

from pyworker import client
from pyworker.cli.arguments import ATTEMPTS, ID, PRIORITY, REASON, instant, job_filter, span
from pyworker.cli.output import members_of, print_one, print_pages, print_rows
from pyworker.cli.shared import Command, Group, Run, connected, exit_code, say, telling
from pyworker.client import BulkOutcome, Client, JobSummary, Page
from pyworker.errors import JobNotFound, RowlockError, WrongState


@click.group(cls=Group)
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
    wanted = job_filter(terms)
    db = connected(ctx)

    def fetch(cursor: str | None, most: int) -> Page[JobSummary]:
        return db.list_jobs(wanted, cursor, most)

    columns = ["id", "kind", "queue", "label", "attempt", "priority", "created_at"]
    columns += ["worker", "error_type"]
    print_pages(ctx, fetch, cursor, limit, 200, columns, "no jobs match")


@job.command("show")
@click.argument("job_id", type=ID)
@click.pass_context
def job_show(ctx: click.Context, job_id: int) -> None:
    """Everything about one job."""
    print_one(ctx, connected(ctx).get_job(job_id))


@job.command("events")
@click.argument("job_id", type=ID)
@click.pass_context
def job_events(ctx: click.Context, job_id: int) -> None:
    """The history of one job, oldest first."""
    db = connected(ctx)

    def rows() -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = db.list_events(job_id, cursor=cursor, max_events=1000)
            yield from page.rows
            cursor = page.next_cursor
            if cursor is None:
                return

    columns = ["at", "event", "to_status", "attempt", "fence", "worker", "actor", "detail"]
    found = _or_not_found(db, job_id, rows())
    print_rows(ctx, found, columns, "no events: they are older than events_retention")


@job.command("attempts")
@click.argument("job_id", type=ID)
@click.pass_context
def job_attempts(ctx: click.Context, job_id: int) -> None:
    """Each claim of a job, who held it, how it ended. The first 1,000."""
    db = connected(ctx)
    columns = ["fence", "attempt", "worker", "started_at", "elapsed", "outcome", "error_type"]
    found = _or_not_found(db, job_id, iter(db.job_attempts(job_id)))
    print_rows(ctx, found, [*columns, "error_message"], "no claims")


def _or_not_found(db: Client, job_id: int, rows: Iterator[Any]) -> Iterator[Any]:
    """The rows, which outlive a job for a while; JobNotFound when there are neither."""
    first = next(rows, None)
    if first is None:
        db.get_job(job_id)
        return iter(())
    return chain([first], rows)


def _each(ctx: click.Context, job_ids: Iterable[int], change: Callable[[int], Any]) -> None:
    """Changes one job after the other; one that is refused does not keep the rest from it, and
    whatever ends it, what was done is told."""
    changed: list[Any] = []
    failures: list[RowlockError] = []
    try:
        for job_id in job_ids:
            try:
                changed.append(change(job_id))
            except (JobNotFound, WrongState) as exc:
                failures.append(exc)
    finally:
        if changed:
            columns = [name for name in members_of(changed[0]) if name != "id"]
            print_rows(ctx, changed, ["id", *columns], "")
        for failure in failures:
            say(failure)
    if failures:
        ctx.exit(exit_code(failures[0]))


_JOB_IDS = click.argument("job_ids", type=ID, nargs=-1, required=True, metavar="JOB_ID...")


@job.command("retry")
@_JOB_IDS
@click.option("--extra-attempts", type=ATTEMPTS, default=1, show_default=True, help="Runs granted.")
@click.option("--in", "delay", type=span, metavar="SPAN", help="Due in, such as 5m.")
@REASON
@click.pass_context
def job_retry(
    ctx: click.Context,
    job_ids: tuple[int, ...],
    extra_attempts: int,
    delay: timedelta | None,
    reason: str | None,
) -> None:
    """Queue failed or cancelled jobs again."""
    db = connected(ctx)
    _each(ctx, job_ids, lambda job_id: db.retry(job_id, extra_attempts, delay, reason))


@job.command("cancel")
@_JOB_IDS
@REASON
@click.pass_context
def job_cancel(ctx: click.Context, job_ids: tuple[int, ...], reason: str | None) -> None:
    """Cancel queued jobs; ask running ones to stop."""
    db = connected(ctx)
    _each(ctx, job_ids, lambda job_id: db.cancel(job_id, reason))


@job.command("run-now")
@_JOB_IDS
@REASON
@click.pass_context
def job_run_now(ctx: click.Context, job_ids: tuple[int, ...], reason: str | None) -> None:
    """Make queued jobs due now."""
    db = connected(ctx)
    _each(ctx, job_ids, lambda job_id: db.run_now(job_id, reason))


@job.command("discard")
@_JOB_IDS
@REASON
@click.pass_context
def job_discard(ctx: click.Context, job_ids: tuple[int, ...], reason: str | None) -> None:
    """Remove finished jobs before their retention does. Their events stay."""
    db = connected(ctx)
    _each(ctx, job_ids, lambda job_id: {"id": job_id, "was": db.discard(job_id, reason)})


@job.command("reprioritize")
@click.argument("job_id", type=ID)
@click.argument("priority", type=PRIORITY)
@REASON
@click.pass_context
def job_reprioritize(ctx: click.Context, job_id: int, priority: int, reason: str | None) -> None:
    """Give a queued job another priority, 0 to 9, higher first."""
    db = connected(ctx)
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
@click.option("--extra-attempts", type=ATTEMPTS, help="retry: runs granted [default: 1].")
@click.option("--in", "delay", type=span, metavar="SPAN", help="retry: due in, such as 5m.")
@click.option(
    "--spread", type=span, metavar="SPAN", help="retry: due spread evenly over this time."
)
@click.option("--priority", type=PRIORITY, help="reprioritize: 0 to 9, higher first.")
@REASON
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
    wanted = job_filter(terms)
    if bool(wanted) == take_all:
        raise click.UsageError("say which jobs with a FILTER, or --all without one")
    if action == "reprioritize" and options["priority"] is None:
        raise click.UsageError("reprioritize wants --priority, 0 to 9")
    given = {name: value for name, value in options.items() if value is not None}
    db = connected(ctx)

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
        if not matched:
            click.echo("no jobs match", err=True)
            return
        many = f"more than {_COUNTED:,}" if matched > _COUNTED else f"{matched:,}"
        click.confirm(f"{action} {many} jobs?", abort=True, err=True)
    _print_outcomes(ctx, rows(dry_run, limit))


# Jobs that are counted before a question.
_COUNTED = 10_000


def _print_outcomes(ctx: click.Context, outcomes: Iterator[BulkOutcome]) -> None:
    counts: Counter[tuple[str, str | None]] = Counter()

    def counted() -> Iterator[BulkOutcome]:
        for item in outcomes:
            # A note names its job, which would be a line each.
            counts[item.outcome, item.note and re.sub(r"^job [0-9]+ ", "", item.note)] += 1
            yield item

    def told() -> str:
        done = ", ".join(f"{number} {outcome}" for (outcome, _), number in counts.items())
        return f"before this: {done}" if done else ""

    with telling(told):
        if ctx.ensure_object(Run).output != "table":
            print_rows(ctx, counted(), [], "")
            return
        for _ in counted():
            pass
    summary = [
        {"outcome": outcome, "note": note, "jobs": number}
        for (outcome, note), number in counts.most_common()
    ]
    print_rows(ctx, summary, ["outcome", "note", "jobs"], "no jobs match")


@click.command(cls=Command)
@click.option("-q", "--queue", help="Of one queue.")
@click.option("--kind", help="Of one kind.")
@click.option(
    "--since", type=instant, metavar="TIME", help="Failed since, such as 2027-01-31T12:00:00Z."
)
@click.option("--limit", "max_groups", type=click.IntRange(1, 200), default=50, show_default=True)
@click.pass_context
def dead(ctx: click.Context, /, **options: Any) -> None:
    """What failed for good, by kind and error.

    `job list error_group:...` has the jobs of a group, `job bulk retry error_group:...` queues them
    again.
    """
    columns = ["error_group", "kind_of_job", "error_type", "error_message", "jobs"]
    print_rows(
        ctx,
        connected(ctx).failure_groups(**options),
        [*columns, "last_hour", "last_day", "last_at", "sample_id"],
        "no job has failed",
    )
