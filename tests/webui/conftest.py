"""A dashboard on a migrated database of its own, signed in to its login as in production."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql
from werkzeug.test import TestResponse

from pyworker.client import Client, Connection, Job, connect
from tests.support.cluster import Database
from webui import auth, create_app
from webui.config import Config

ORIGIN = "http://localhost"
ROLES = ("viewer", "operator", "admin")


class Browser:
    """Somebody's browser: it keeps cookies, and its forms carry their token."""

    def __init__(self, client: FlaskClient, secret: str | None) -> None:
        self.client = client
        self.secret = secret

    @property
    def form_token(self) -> str:
        return auth.form_token(self.secret or "")

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.client.get(path, **options)

    def live(self, path: str, etag: str | None = None) -> TestResponse:
        headers = {"X-Live": "part"} | ({"If-None-Match": etag} if etag else {})
        return self.client.get(path, headers=headers)

    def post(self, path: str, data: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        options.setdefault("headers", {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"})
        return self.client.post(
            path, data={"form_token": self.form_token, **(data or {})}, **options
        )

    def follow(self, answer: TestResponse) -> TestResponse:
        assert answer.status_code == 303, answer.text
        return self.client.get(answer.headers["Location"])


_TABLES = (
    "jobs", "job_events", "policies", "settings", "accounts", "tokens", "sign_in_links",
)  # fmt: skip


@dataclass
class Site:
    """A dashboard, and what its database says, asked as the superuser."""

    app: Flask
    database: Database
    queue: Client
    conn: Connection
    browsers: dict[str, Browser] = field(default_factory=dict)

    def browser(self, role: str | None) -> Browser:
        """Of an account with that role, named after it; of nobody."""
        if role is None:
            return Browser(self.app.test_client(), None)
        if role not in self.browsers:
            self.queue.create_account(role, role)
            secret = self.queue.start_session(role)
            client = self.app.test_client()
            client.set_cookie("rowlock", secret)
            self.browsers[role] = Browser(client, secret)
        return self.browsers[role]

    def job(self, job_id: int) -> Job:
        return self.queue.get_job(job_id)

    def events(self, job_id: int) -> list[tuple[str, str | None, str | None]]:
        """What happened to a job: event, who, why."""
        return [
            (event.event, event.actor, (event.detail or {}).get("reason"))
            for event in self.queue.list_events(job_id).rows
        ]

    def fail(self, kind: str = "pay", queue: str = "default", error: str = "boom") -> int:
        """A job that has failed for good."""
        job_id = self.queue.enqueue(kind, {"n": 1}, queue, priority=9, max_attempts=1).job_id
        (claim,) = self.queue.claim("tester-1-ab", [queue])
        assert claim.job_id == job_id
        self.queue.fail(
            job_id, claim.fence, "ValueError", error, {"traceback": "Traceback\n  here"}
        )
        return job_id

    def count(self) -> None:
        """Brings the counters up to now."""
        while self.queue.roll_up().more:
            pass

    def state(self) -> tuple[Any, ...]:
        """Everything an action could change, to compare."""
        rows = "select count(*), md5(string_agg(t::text, '' order by t::text)) from {} as t"
        return tuple(
            self.conn.execute(sql.SQL(rows).format(sql.Identifier("queue", table))).fetchone()
            for table in _TABLES
        )


@pytest.fixture
def site(database: Database) -> Iterator[Site]:
    config = Config(database_url=database.url_as("queue_web"), instance="test")
    app = create_app(config)
    with connect(database.url, "test") as conn:
        yield Site(app, database, Client(conn), conn)


@pytest.fixture
def viewer(site: Site) -> Browser:
    return site.browser("viewer")


@pytest.fixture
def operator(site: Site) -> Browser:
    return site.browser("operator")


@pytest.fixture
def admin(site: Site) -> Browser:
    return site.browser("admin")


@pytest.fixture
def nobody(site: Site) -> Browser:
    return site.browser(None)
