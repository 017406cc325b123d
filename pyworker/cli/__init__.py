"""The command line: every command is one function of schema `queue`, called through `client.py`."""

from __future__ import annotations

import click

from pyworker.cli import (
    accounts,
    enqueue,
    events,
    health,
    jobs,
    migrate,
    processes,
    queues,
    settings,
    upkeep,
)
from pyworker.cli.shared import Group


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 error, 2 usage, 3 not found, 4 conflict or wrong state, "
    "5 database unreachable or not named, 6 denied, 7 unhealthy or differing.",
)
@click.version_option(package_name="rowlock")
def main() -> None:
    """Rowlock: a job queue that is a PostgreSQL schema."""


for _command in (
    migrate.migrate,
    migrate.version,
    migrate.completion,
    enqueue.enqueue,
    jobs.job,
    jobs.dead,
    events.events,
    queues.queue,
    settings.settings,
    health.stats,
    health.workers,
    health.health,
    health.doctor,
    upkeep.tick,
    upkeep.cron,
    accounts.account,
    accounts.token,
    accounts.audit,
    processes.worker,
    processes.web,
    processes.demo,
):
    main.add_command(_command)
