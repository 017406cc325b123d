"""`rowlock web`, `account`, `token`: where it listens, who is let in, what the commands print."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner, Result

from pyworker.cli import main
from pyworker.client import Client, connect
from pyworker.errors import InvalidArgument, NotAllowed
from webui import auth, server
from webui.config import Config

PASSWORD = "correct horse battery"


@contextmanager
def _serving(url: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process; yields its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pyworker.cli", "web", "--port", "0", *options],
        env={**os.environ, "ROWLOCK_DATABASE_URL": url},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        said = ""
        while not (found := re.search(r"dashboard: (http://\S+)/\n", said)):
            line = process.stderr.readline()
            assert line, said
            said += line
        yield found[1], process
    finally:
        process.kill()
        process.wait()
        if process.stderr:
            process.stderr.close()


def test_it_serves_until_it_is_told_to_end(url: str) -> None:
    with _serving(url, "--base-path", "/queue") as (address, process):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/queue", address)
        with urllib.request.urlopen(f"{address}/sign-in", timeout=10) as page:
            assert page.status == 200
            assert "waitress" not in page.headers["Server"]
        foreign = urllib.request.Request(f"{address}/sign-in", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(foreign, timeout=10)
        assert refused.value.code == 400, "on loopback only its own names are answered to"
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_nothing_but_loopback_without_an_account(url: str) -> None:
    config = Config(database_url=url)
    with pytest.raises(NotAllowed, match="while there is no account"):
        server.Server(config, "0.0.0.0", 0)
    with connect(url, "test") as conn:
        Client(conn).create_account("ada", "admin")
    server.Server(config, "0.0.0.0", 0).close()
    with connect(url, "test") as conn:
        Client(conn).set_account("ada", disabled=True)
    with pytest.raises(NotAllowed):
        server.Server(config, "0.0.0.0", 0)


def test_the_production_login_can_tell_whether_there_are_accounts(
    url: str, database: object
) -> None:
    login = database.url_as("queue_web")  # type: ignore[attr-defined]
    made = server.Server(Config(database_url=login), "127.0.0.1", 0)
    assert not made.has_accounts
    made.close()


def test_a_port_that_is_taken_is_named(url: str) -> None:
    first = server.Server(Config(database_url=url), "127.0.0.1", 0)
    port = int(first.address.rsplit(":", 1)[1])
    with pytest.raises(InvalidArgument, match=f"cannot serve on 127.0.0.1:{port}"):
        server.Server(Config(database_url=url), "127.0.0.1", port)
    first.close()


@pytest.mark.parametrize("host", ["banana.invalid", "a" * 64, "::x"])
def test_a_host_that_is_none_is_a_usage_error(url: str, host: str) -> None:
    with connect(url, "test") as conn:
        Client(conn).create_account("ada", "admin")
    result = CliRunner().invoke(main, ["web", "--database-url", url, "--host", host, "--port", "0"])
    assert result.exit_code == 2, result.exception
    assert f"rowlock: cannot serve on {host}:0: {host!r} is no host\n" in result.stderr


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_what_is_loopback(host: str, expected: bool) -> None:
    assert server.is_loopback(host) is expected


@pytest.mark.parametrize(
    "environment",
    [{"ROWLOCK_INSTANCE_COLOUR": "puce"}, {"ROWLOCK_PROXIES": "-1"}, {"ROWLOCK_PROXIES": "many"}],
)
def test_a_configuration_that_cannot_be_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        Config.from_environment("", environment)
    with pytest.raises(InvalidArgument):
        Config.from_environment("", {}, base_path="queue/")


@pytest.mark.parametrize(
    ("value", "expected"), [("", False), ("0", False), ("1", True), ("yes", None), ("true", None)]
)
def test_secure_cookies_are_on_off_or_refused(value: str, expected: bool | None) -> None:
    environment = {"ROWLOCK_SECURE_COOKIES": value}
    if expected is not None:
        assert Config.from_environment("", environment).secure_cookies is expected
        return
    with pytest.raises(InvalidArgument, match=f"ROWLOCK_SECURE_COOKIES is '{value}'") as refused:
        Config.from_environment("", environment)
    assert refused.value.hint == "0 or 1."


def test_a_configuration_from_the_environment() -> None:
    config = Config.from_environment(
        "postgresql://x",
        {
            "ROWLOCK_INSTANCE": "prod", "ROWLOCK_INSTANCE_COLOUR": "red",
            "ROWLOCK_SECURE_COOKIES": "1", "ROWLOCK_TRUSTED_HOSTS": "a.example, b.example",
            "ROWLOCK_PROXIES": "2",
        },
    )  # fmt: skip
    assert (config.instance, config.colour, config.secure_cookies) == ("prod", "red", True)
    assert (config.trusted_hosts, config.proxies) == (("a.example", "b.example"), 2)
    assert "postgresql" not in repr(config), "the URL may hold a password"


def test_the_demo_opens_with_a_link_that_signs_in(url: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "pyworker.cli", "demo", "--database-url", url, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        address = next(
            line.removeprefix("dashboard: ").strip()
            for line in process.stdout
            if line.startswith("dashboard: ")
        )
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address, timeout=10).close()
        with opener.open(urllib.request.Request(address, method="POST"), timeout=10) as page:
            text = page.read().decode()
        assert "<h1>Overview</h1>" in text
        assert "demo" in text
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


# -- the commands


def _run(url: str, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments, "--database-url", url], input=stdin)


def test_an_account_from_the_command_line(url: str) -> None:
    made = _run(url, "account", "add", "ada", "--role", "admin", "--password-stdin", stdin=PASSWORD)
    assert made.exit_code == 0, made.output
    assert PASSWORD not in made.output
    with connect(url, "test") as conn:
        queue = Client(conn)
        assert auth.password_is_right(PASSWORD, queue.check_password("ada", "here"))
        typed = "another one, longer"
        changed = _run(url, "account", "passwd", "ada", stdin=f"{typed}\n{typed}\n")
        assert changed.exit_code == 0, changed.output
        assert auth.password_is_right(typed, queue.check_password("ada", "here"))

        assert _run(url, "account", "role", "ada", "viewer", "--reason", "left").exit_code == 0
        assert _run(url, "account", "disable", "ada").exit_code == 0
        (account,) = queue.list_accounts()
        assert (account.role, account.disabled_at is None) == ("viewer", False)
        assert _run(url, "account", "enable", "ada").exit_code == 0
        assert "left" in {item.reason for item in queue.list_audit()}

        link = _run(url, "account", "link", "ada", "--url", "https://queue.example/")
        address = link.stdout.strip()
        assert address.startswith("https://queue.example/sign-in/link/")
        assert queue.redeem_link(address.rsplit("/", 1)[1])
    assert "ada" in _run(url, "account", "list").stdout


def test_an_account_by_link_needs_no_password(url: str) -> None:
    made = _run(url, "account", "add", "bob", "--link")
    assert re.fullmatch(r"http://127\.0\.0\.1:8000/sign-in/link/\w+\n", made.stdout)


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (("account", "add", "ada", "--password-stdin"), "short", 2),
        (("account", "add", "No Name", "--link"), None, 2),
        (("account", "add", "ada", "--role", "owner", "--link"), None, 2),
        (("account", "disable", "nobody"), None, 3),
        (("token", "revoke", "999"), None, 3),
        (("token", "create", "ci"), None, 2),
    ],
)
def test_a_command_that_cannot_be_exits_as_documented(
    url: str, arguments: tuple[str, ...], stdin: str | None, code: int
) -> None:
    assert _run(url, *arguments, stdin=stdin).exit_code == code


def test_a_token_from_the_command_line(url: str) -> None:
    made = _run(url, "token", "create", "ci", "--role", "worker", "--lifetime", "1h")
    secret = made.stdout.strip()
    assert secret.startswith("rowlock_")
    listed = _run(url, "token", "list").stdout
    assert "ci" in listed
    assert secret not in listed
    with connect(url, "test") as conn:
        holder = Client(conn).check_token(secret)
        assert holder is not None
        assert _run(url, "token", "revoke", str(holder.id)).exit_code == 0
        assert Client(conn).check_token(secret) is None
