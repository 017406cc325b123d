"""One browser and one dashboard for all tests here, a browser context of its own for each.

What every page is watched for, whatever its test is about: errors in the console, violations of
the content security policy, dialogs that a script opened, requests that leave 127.0.0.1.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

import pytest

from pyworker.client import Client, Connection, connect
from tests.support.cluster import Cluster, Database
from tests.support.processes import Dashboard, Process

if find_spec("playwright") is None and os.environ.get("ROWLOCK_REQUIRE_BROWSER") != "1":
    warnings.warn("tests/browser is skipped: playwright is not installed", stacklevel=1)
    collect_ignore_glob = ["test_*.py"]
else:
    from playwright.sync_api import (
        Browser,
        BrowserContext,
        ConsoleMessage,
        Dialog,
        Page,
        Request,
        expect,
    )

    from tests.support import browsers

    expect.set_options(timeout=15_000)

ROLES = ("viewer", "operator", "admin")
PASSWORD = "correct horse battery"

_numbers = itertools.count(1)

_WATCH = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy violated: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


@dataclass
class Board:
    """A dashboard, and its database as the superuser sees it."""

    dashboard: Dashboard
    database: Database
    queue: Client
    conn: Connection
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.dashboard.address

    def session(self, role: str) -> str:
        """A session of the account that is named after its role."""
        if role not in self.secrets:
            self.secrets[role] = self.queue.start_session(role)
        return self.secrets[role]

    def events(self, job_id: int) -> list[tuple[str, str | None, str | None]]:
        """What happened to a job: event, who, why."""
        return [
            (event.event, event.actor, (event.detail or {}).get("reason"))
            for event in self.queue.list_events(job_id).rows
        ]

    def fail(self, queue: str, error: str = "insufficient funds", kind: str = "card.charge") -> int:
        """A job that has failed for good."""
        made = self.queue.enqueue(kind, {"user_id": 42}, queue, max_attempts=1)
        (claim,) = self.queue.claim("tester-1-ab", [queue])
        assert claim.job_id == made.job_id
        self.queue.fail(claim.job_id, claim.fence, "CardDeclined", error)
        return claim.job_id

    def count(self) -> None:
        """Brings the counters up to now."""
        while self.queue.roll_up().more:
            pass


@contextmanager
def board_on(database: Database, **environment: str) -> Iterator[Board]:
    """A dashboard on a migrated database, with an account for each role."""
    from webui.auth import hash_password

    with connect(database.url, "test") as conn:
        client = Client(conn)
        for role in ROLES:
            client.create_account(role, role, hash_password(PASSWORD))
        dashboard = Dashboard(database.url_as("queue_web"), **environment)
        try:
            yield Board(dashboard, database, client, conn)
        finally:
            dashboard.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with the tests here: while it runs, the thread has an event loop, which others mind."""
    path = browsers.find_browser()
    if path is None:
        browsers.lacking("no Chromium is installed")
    with browsers.launched(path) as browser:
        yield browser


@pytest.fixture(scope="package")
def shared_database(cluster: Cluster) -> Iterator[Database]:
    database = cluster.create()
    yield database
    cluster.drop(database)


@pytest.fixture(scope="package")
def board(browser: Browser, shared_database: Database) -> Iterator[Board]:
    """The dashboard that most tests look at, on queues of their own."""
    with board_on(shared_database, ROWLOCK_INSTANCE="test") as board:
        board.queue.set_settings({"tick_interval": "1 s"})
        yield board


@pytest.fixture
def own_board(browser: Browser, database: Database) -> Iterator[Board]:
    """One with a database in which nothing has happened yet."""
    with board_on(database) as board:
        yield board


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses."""
    return f"queue-{os.getpid()}-{next(_numbers)}"


class Watch:
    """What went wrong in a browser context."""

    def __init__(self, context: BrowserContext, expected: frozenset[int]) -> None:
        self.problems: list[str] = []
        self._expected = tuple(f"status of {code} " for code in expected)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.problems.append(f"error: {error.error}"))
        context.on("dialog", self._dialog)
        context.on("request", self._request)
        context.add_init_script(_WATCH)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        if "Failed to load resource" in message.text:
            if any(code in message.text for code in self._expected):
                return
            if "ERR_" in message.text and self._expected:
                return  # the page was left, or its server stopped, while it polled
        self.problems.append(f"console: {message.text} ({message.location.get('url')})")

    def _dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"a script opened a dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme not in {"data", "blob"} and parts.hostname != "127.0.0.1":
            self.problems.append(f"left this machine: {request.url}")


Opener = Callable[..., "Page"]


@pytest.fixture
def visit(browser: Browser, board: Board) -> Iterator[Opener]:
    """`visit(role, path)` opens a page in a context of its own, signed in; None is nobody.

    `expect` names the HTTP statuses from 400 up that the test means to see.
    """
    opened: list[tuple[BrowserContext, Watch]] = []

    def open_page(
        role: str | None = "operator",
        path: str | None = None,
        *,
        on: Board = board,
        expect: tuple[int, ...] = (),
        **options: Any,
    ) -> Page:
        options = {"base_url": on.address, "viewport": {"width": 1280, "height": 800}, **options}
        context = browser.new_context(**options)
        context.set_default_timeout(20_000)
        opened.append((context, Watch(context, frozenset(expect))))
        if role is not None:
            context.add_cookies(
                [{"name": "rowlock", "value": on.session(role), "url": on.address + "/"}]
            )
        page = context.new_page()
        if path is not None:
            page.goto(path)
        return page

    yield open_page
    for context, _ in opened:
        context.close()
    assert [problem for _, watch in opened for problem in watch.problems] == []


Workers = Callable[..., AbstractContextManager[Process]]


@pytest.fixture
def worker(board: Board) -> Workers:
    """`with worker(queue):` runs a real worker of that queue."""
    url = board.database.url_as("queue_worker")

    @contextmanager
    def run(queue: str, threads: int = 2) -> Iterator[Process]:
        words = ("--app", "tests.browser.handlers:app", "--queue", queue, "--threads", str(threads))
        process = Process(url, "worker", *words)
        try:
            yield process
        finally:
            process.close()

    return run
