"""`rowlock account`, `token`, `audit`: who may use the dashboard and the HTTP API, who did what."""

from __future__ import annotations

import getpass
import sys
import warnings
from datetime import timedelta

import click

from pyworker import logs
from pyworker.cli.arguments import AUDIT_REASON, ID, span
from pyworker.cli.output import cell_of, print_one, print_pages, print_rows
from pyworker.cli.shared import Command, Group, Run, connected
from pyworker.client import Action, Page

_DASHBOARD_ROLES = ("viewer", "operator", "admin")
_ROLE = click.option(
    "--role", type=click.Choice(_DASHBOARD_ROLES), default="viewer", show_default=True
)
_PASSWORD_STDIN = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input, not a prompt."
)
_DASHBOARD = click.option(
    "--url", default="http://127.0.0.1:8000", show_default=True, help="Where the dashboard is."
)


def _password_hash(from_stdin: bool) -> str:
    from webui.auth import hash_password

    if from_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", getpass.GetPassWarning)
                password = click.prompt(
                    "Password", hide_input=True, confirmation_prompt=True, err=True
                )
        except getpass.GetPassWarning:
            raise click.UsageError(
                "no terminal to ask for the password: --password-stdin reads it"
            ) from None
    return hash_password(password)


def sign_in_link(url: str, secret: str) -> str:
    return f"{url.rstrip('/')}/sign-in/link/{secret}"


@click.group(cls=Group)
def account() -> None:
    """Who may sign in to the dashboard."""


@account.command("add")
@click.argument("name")
@_ROLE
@_PASSWORD_STDIN
@click.option("--link", "by_link", is_flag=True, help="No password: print a sign-in link instead.")
@_DASHBOARD
@AUDIT_REASON
@click.pass_context
def account_add(
    ctx: click.Context,
    name: str,
    role: str,
    password_stdin: bool,
    by_link: bool,
    url: str,
    reason: str | None,
) -> None:
    """Let somebody sign in. The password has 12 characters or more."""
    db = connected(ctx)
    password_hash = None if by_link else _password_hash(password_stdin)
    db.create_account(name, role, password_hash, reason)
    click.echo(f"account {logs.escape(name)} may sign in as {role}", err=True)
    if by_link:
        click.echo(sign_in_link(url, db.create_link(name, timedelta(days=1))))


@account.command("passwd")
@click.argument("name")
@_PASSWORD_STDIN
@AUDIT_REASON
@click.pass_context
def account_passwd(ctx: click.Context, name: str, password_stdin: bool, reason: str | None) -> None:
    """Give an account another password. Ends its sessions."""
    db = connected(ctx)
    db.set_account(name, password_hash=_password_hash(password_stdin), reason=reason)
    click.echo(f"account {logs.escape(name)} has a new password", err=True)


@account.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(_DASHBOARD_ROLES))
@AUDIT_REASON
@click.pass_context
def account_role(ctx: click.Context, name: str, role: str, reason: str | None) -> None:
    """Give an account another role. Ends its sessions."""
    connected(ctx).set_account(name, role=role, reason=reason)
    click.echo(f"account {logs.escape(name)} is {role}", err=True)


@account.command("disable")
@click.argument("name")
@AUDIT_REASON
@click.pass_context
def account_disable(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let an account sign in no more. Ends its sessions."""
    connected(ctx).set_account(name, disabled=True, reason=reason)
    click.echo(f"account {logs.escape(name)} is disabled", err=True)


@account.command("enable")
@click.argument("name")
@AUDIT_REASON
@click.pass_context
def account_enable(ctx: click.Context, name: str, reason: str | None) -> None:
    """Let a disabled account sign in again."""
    connected(ctx).set_account(name, disabled=False, reason=reason)
    click.echo(f"account {logs.escape(name)} is enabled", err=True)


@account.command("list")
@click.pass_context
def account_list(ctx: click.Context) -> None:
    """Every account."""
    columns = ["account", "role", "has_password", "disabled_at", "sessions", "seen_at"]
    print_rows(ctx, connected(ctx).list_accounts(), columns, "no accounts")


@account.command("link")
@click.argument("name")
@click.option("--lifetime", type=span, metavar="SPAN", default="10m", show_default=True)
@_DASHBOARD
@click.pass_context
def account_link(ctx: click.Context, name: str, lifetime: timedelta, url: str) -> None:
    """Print a link that signs an account in, once."""
    click.echo(sign_in_link(url, connected(ctx).create_link(name, lifetime)))


@click.command(cls=Command)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.option("--cursor", type=ID, help="Go on where an earlier list ended.")
@click.pass_context
def audit(ctx: click.Context, limit: int, cursor: int | None) -> None:
    """What was done to queues, settings and accounts, newest first."""
    db = connected(ctx)

    def fetch(cursor: str | None, most: int) -> Page[Action]:
        found = db.list_audit(None if cursor is None else int(cursor), most)
        return Page(found, str(found[-1].id) if len(found) == most else None)

    columns = ["at", "action", "queue", "actor", "session_user_name", "reason", "detail"]
    start = None if cursor is None else str(cursor)
    print_pages(ctx, fetch, start, limit, 1000, columns, "nothing was done")


@click.group(cls=Group)
def token() -> None:
    """Secrets of programs that use the HTTP API."""


@token.command("create")
@click.argument("name")
@click.option("--role", type=click.Choice(("producer", "worker", *_DASHBOARD_ROLES)), required=True)
@click.option("--lifetime", type=span, metavar="SPAN", default="90d", show_default=True)
@AUDIT_REASON
@click.pass_context
def token_create(
    ctx: click.Context, name: str, role: str, lifetime: timedelta, reason: str | None
) -> None:
    """Print a new token. It is shown this once."""
    made = connected(ctx).create_token(name, role, lifetime, reason)
    until = f", until {cell_of(made.expires_at)}" if made.expires_at else ""
    click.echo(f"token {made.id} with role {role}{until}", err=True)
    if ctx.ensure_object(Run).output == "table":
        click.echo(made.secret)
    else:
        print_one(ctx, made)


@token.command("list")
@click.pass_context
def token_list(ctx: click.Context) -> None:
    """Every token, without its secret."""
    columns = ["id", "name", "role", "created_by", "expires_at", "revoked_at", "used_at"]
    print_rows(ctx, connected(ctx).list_tokens(), columns, "no tokens")


@token.command("revoke")
@click.argument("token_id", type=ID)
@AUDIT_REASON
@click.pass_context
def token_revoke(ctx: click.Context, token_id: int, reason: str | None) -> None:
    """Refuse a token from now on."""
    connected(ctx).revoke_token(token_id, reason)
    click.echo(f"token {token_id} is revoked", err=True)
