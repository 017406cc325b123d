"""`rowlock migrate`, `version`, `completion`: what is installed, and where."""

from __future__ import annotations

from datetime import timedelta

import click
from click.shell_completion import get_completion_class

from pyworker import deploy, logs
from pyworker.cli.arguments import span
from pyworker.cli.output import print_one, print_rows
from pyworker.cli.shared import UNHEALTHY, Command, located
from pyworker.client import Location
from pyworker.errors import Unavailable


@click.command(cls=Command)
@click.option("--check", is_flag=True, help="Change nothing; say what differs. Exit 7 if any.")
@click.option("--sql", is_flag=True, help="Print the SQL that would be run.")
@click.option("--roles", is_flag=True, help="Print the roles script for an administrator.")
@click.option("--migrator", metavar="LOGIN", help="With --roles: the login that will migrate.")
@click.option("--uninstall", is_flag=True, help="Remove the schema with every job in it.")
@click.option("--downgrade", is_flag=True, help="Replace functions of a later version.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--wait",
    type=span,
    metavar="SPAN",
    default="10m",
    show_default=True,
    help="How long for another migration to end.",
)
@click.pass_context
def migrate(
    ctx: click.Context,
    check: bool,
    sql: bool,
    roles: bool,
    migrator: str | None,
    uninstall: bool,
    downgrade: bool,
    yes: bool,
    wait: timedelta,
) -> None:
    """Bring the database to this version: roles, tables, functions."""
    if check + sql + roles + uninstall > 1:
        raise click.UsageError("--check, --sql, --roles and --uninstall exclude each other")
    if migrator and not roles:
        raise click.UsageError("--migrator is for --roles, whose script makes one of that login")
    if yes and not uninstall:
        raise click.UsageError("--yes is for --uninstall, which alone asks")

    if roles:
        click.echo(deploy.roles_script(migrator))
    elif sql:
        click.echo(deploy.sql_script(_applied(ctx)))
    elif check:
        found = deploy.check(located(ctx).url, wait=wait, report=_report)
        lines = [{"difference": line} for line in found]
        print_rows(ctx, lines, ["difference"], "nothing differs", widest=2000)
        if found:
            ctx.exit(UNHEALTHY)
    elif uninstall:
        _uninstall(located(ctx), yes, wait)
    else:
        done = deploy.migrate(located(ctx).url, downgrade=downgrade, wait=wait, report=_report)
        click.echo("migrated" if done.changed else "nothing to do", err=True)


def _report(line: str) -> None:
    click.echo(f"  {logs.escape(line)}", err=True)


def _applied(ctx: click.Context) -> frozenset[str]:
    """Nothing where no database is named: the script is then for a fresh one."""
    try:
        location = located(ctx)
    except Unavailable:
        return frozenset()
    return deploy.applied(location.url)


def _uninstall(location: Location, yes: bool, wait: timedelta) -> None:
    if not yes:
        click.confirm(
            "Drop schema queue with every job, event and setting in it?", abort=True, err=True
        )
    done = deploy.uninstall(location.url, wait=wait, report=_report)
    for line in done.left:
        click.echo(f"  left {logs.escape(line)}", err=True)
    click.echo("uninstalled" if done.removed else "there was nothing", err=True)


@click.command(cls=Command)
@click.pass_context
def version(ctx: click.Context) -> None:
    """The version of this Rowlock and of its SQL."""
    source = deploy.Source.found()
    print_one(ctx, {"rowlock": source.version(), "functions": source.digest()})


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a shell's completions: eval "$(rowlock completion bash)"."""
    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(ctx.find_root().command, {}, "rowlock", "_ROWLOCK_COMPLETE").source())
