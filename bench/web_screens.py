"""Every screen of the dashboard through the application: how long an answer takes, and its size."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from flask.testing import FlaskClient

from bench.figures import cpu_of, percentile
from pyworker.client import Client, Connection, connect
from webui import create_app
from webui.config import Config

SCREEN = 300.0
"""Milliseconds at p95 that are aimed at."""

LIST = 200_000
"""Bytes of a list page, however large the payloads are."""

ACCOUNT = "bench"


@dataclass(frozen=True)
class Screen:
    name: str
    path: str
    live: bool = False


def screens(client: Client) -> Iterator[Screen]:
    for span in ("15m", "1h", "6h", "24h", "7d"):
        yield Screen(f"overview, {span}", f"/?range={span}")
    yield Screen("overview of one queue", "/?queue=billing")
    yield Screen("overview, live part", "/", live=True)

    yield Screen("jobs", "/jobs")
    yield Screen("jobs, 200 a page", "/jobs?size=200")
    yield Screen("jobs, live part", "/jobs", live=True)
    for name in ("ready", "scheduled", "retrying"):
        yield Screen(f"jobs, {name}", f"/jobs?label={name}")
    for name in ("running", "succeeded", "failed", "cancelled"):
        yield Screen(f"jobs, {name}", f"/jobs?status={name}")
    cursor = client.list_jobs({"status": "queued"}).next_cursor
    yield Screen("jobs, queued, page 2", f"/jobs?status=queued&cursor={quote(cursor or '')}")
    yield Screen("jobs of one queue and kind", "/jobs?queue=sync&kind=sync.notify")
    yield Screen("jobs by payload", "/jobs?q=payload.user_id:42")
    yield Screen("jobs by payload, none", "/jobs?status=queued&q=payload.user_id:nobody")
    yield Screen("jobs of 1 MB each", "/jobs?queue=archive&status=queued&size=200")

    failed = client.list_jobs({"status": "failed"}, None, 1).rows[0]
    large = client.list_jobs({"status": "queued", "queue": "archive"}, None, 1).rows[0]
    yield Screen("a failed job", f"/jobs/{failed.id}")
    yield Screen("a failed job, live part", f"/jobs/{failed.id}", live=True)
    yield Screen("a job of 1 MB", f"/jobs/{large.id}")
    yield Screen("a new job", "/jobs/new")
    yield Screen("bulk retry, preview", "/jobs/bulk?action=retry&queue=billing&all=1")
    yield Screen("bulk cancel, preview", "/jobs/bulk?action=cancel&kind=billing.process&all=1")
    yield Screen("dead letters", "/dead")
    yield Screen("dead letters of a group", f"/jobs?status=failed&error_group={failed.error_group}")

    yield Screen("queues", "/queues")
    yield Screen("a queue", "/queues/billing")
    yield Screen("workers", "/workers")
    yield Screen("events", "/events")
    yield Screen("events, failed", "/events?event=failed")
    yield Screen("events of a job", f"/events?job={failed.id}")
    for name in ("", "/maintenance", "/accounts", "/tokens", "/audit"):
        yield Screen(f"settings{name}", f"/settings{name}")

    yield Screen("API: jobs", "/api/v1/jobs")
    yield Screen("API: stats", "/api/v1/stats")
    yield Screen("API: queues", "/api/v1/queues")
    yield Screen("API: groups of failures", "/api/v1/dead/groups")
    yield Screen("metrics", "/metrics")


def screens_of_many(client: Client) -> Iterator[Screen]:
    """With a thousand queues."""
    yield Screen("overview, 1,000 queues", "/")
    yield Screen("jobs, 1,000 queues", "/jobs")
    yield Screen("jobs of one of 1,000 queues", "/jobs?queue=customer-7")
    yield Screen("queues, 100 of 1,000", "/queues")
    yield Screen("API: queues, 1,000", "/api/v1/queues")
    yield Screen("metrics, 1,000 queues", "/metrics")


def measure(
    url: str,
    screens: Callable[[Client], Iterator[Screen]],
    only: str,
    rounds: int,
    say: Callable[[str], None],
) -> None:
    with connect(url, "bench") as conn:
        client = Client(conn)
        if ACCOUNT not in {account.account for account in client.list_accounts()}:
            client.create_account(ACCOUNT, "admin")
        secret = client.start_session(ACCOUNT)
        shown = [screen for screen in screens(client) if re.search(only, screen.name)]

    conn = connect(url, "bench")
    browser = create_app(Config(database_url=url)).test_client()
    browser.set_cookie("rowlock", secret)
    say("\n| screen | p50 ms | p95 ms | CPU ms | kB | |")
    say("|---|---|---|---|---|---|")
    for screen in shown:
        say(_line(browser, conn, screen, rounds))


def _cpu(conn: Connection) -> float:
    """Of this process and of the dashboard's sessions."""
    sessions = conn.execute(
        "select pid from pg_stat_activity"
        " where application_name = 'rowlock:web' and datname = current_database()"
    ).fetchall()
    return time.process_time() * 1000 + cpu_of(pid for (pid,) in sessions)


def _line(browser: FlaskClient, conn: Connection, screen: Screen, rounds: int) -> str:
    headers = {"X-Live": "1"} if screen.live else {}
    spent: list[float] = []
    cpu = 0.0
    for number in range(rounds + 1):
        if number == 1:
            cpu = -_cpu(conn)
        began = time.perf_counter()
        answer = browser.get(screen.path, headers=headers)
        size = len(answer.data)
        taken = (time.perf_counter() - began) * 1000
        if number > 0:  # the first warms the cache
            spent.append(taken)
        if number >= 5 and sum(spent) > 10_000:
            break
    cpu += _cpu(conn)
    misses = [f"over {SCREEN:g} ms"] if percentile(spent, 0.95) > SCREEN else []
    if screen.name.startswith("jobs") and size > LIST:
        misses.append(f"over {LIST // 1000} kB")
    if answer.status_code != 200:
        misses.append(answer.status)
    return (
        f"| {screen.name} | {percentile(spent, 0.5):.0f} | {percentile(spent, 0.95):.0f} |"
        f" {cpu / len(spent):.0f} | {size / 1000:.1f} | {', '.join(misses)} |"
    )
