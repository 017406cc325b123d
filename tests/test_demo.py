"""The demo: what it prints is what happened, and it leaves nothing running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from pyworker import Client, demo

Connection = psycopg.Connection[Any]

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


@contextmanager
def rowlock_demo(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    # As from a terminal: what a shell starts in the background is deaf to Ctrl-C, its heirs too.
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    process = subprocess.Popen(
        [sys.executable, "-c", f"{start}from pyworker.cli import main; main()", "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes that this demo has started and that live."""
    mark = f"ROWLOCK_DEMO_PARENT={process.pid}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def eventually_none(process: subprocess.Popen[str], seconds: float = 10) -> bool:
    give_up = time.monotonic() + seconds
    while workers_of(process):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.1)
    return True


@on_linux
def test_500_jobs_come_to_their_end_through_a_killed_and_a_stopped_worker(
    url: str, conn: Connection
) -> None:
    with rowlock_demo("--once", "--database-url", url) as process:
        output, errors = process.communicate(timeout=150)

        assert process.returncode == 0, output + errors
        assert eventually_none(process)
    *story, last = output.splitlines()
    summary = json.loads(last)
    assert list(summary) == [
        "enqueued", "succeeded", "failed", "retried", "lease_expired", "stale_rejected", "lost",
    ]  # fmt: skip
    assert any("was killed" in line for line in story)
    assert any("goes on; its leases ran out" in line for line in story)

    def count(sql: str) -> int:
        row = conn.execute(f"select count(*) from queue.{sql}").fetchone()
        assert row is not None
        return int(row[0])

    assert summary["enqueued"] == count("jobs") == 500
    assert summary["succeeded"] == count("jobs where status = 'succeeded'")
    assert summary["failed"] == count("jobs where status = 'failed'")
    assert summary["retried"] == count("job_events where event = 'retry_scheduled'")
    assert summary["lease_expired"] == count("job_events where event = 'lease_expired'")
    assert summary["lost"] == count("jobs where status in ('queued', 'running')") == 0
    # The killed worker's job and the stopped one's; the latter answered when it went on.
    assert summary["lease_expired"] >= 2
    assert summary["stale_rejected"] >= 1
    assert summary["retried"] > 0
    assert summary["succeeded"] + summary["failed"] == 500


@on_linux
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_live_demo_runs_jobs_until_it_is_ended_and_leaves_no_worker(
    how: signal.Signals, url: str, conn: Connection
) -> None:
    with rowlock_demo("--database-url", url, "--workers", "2", "--threads", "4") as process:
        assert process.stdout is not None
        assert any("succeeded" in line for line in iter(process.stdout.readline, ""))
        assert len(workers_of(process)) == 2

        process.send_signal(how)
        process.communicate(timeout=30)

        assert process.returncode == (0 if how is not signal.SIGKILL else -signal.SIGKILL)
        assert eventually_none(process)
    assert Client(conn).list_queues()[0].queue == "demo"


def told(fleet: Any, client: Client, acknowledged: list[int], capsys: Any) -> tuple[int, Any]:
    history = demo._History(client, "q")
    history.status = demo._statuses(client, "q")
    code = demo._sum_up(client, "q", history, cast(demo._Fleet, fleet), acknowledged)
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


ACCIDENTS = SimpleNamespace(killed=1, froze=1, stale=1)


def test_a_job_that_is_not_finished_or_gone_is_lost(
    conn: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(conn)
    ids = [client.enqueue("k", queue="q").job_id for _ in range(3)]
    (first, second) = client.claim("w", ["q"], 2)
    client.complete(first.job_id, first.fence)
    client.fail(second.job_id, second.fence, "E", fatal=True)

    code, summary = told(ACCIDENTS, client, [*ids, 999_999], capsys)

    assert code == 1
    assert (summary["succeeded"], summary["failed"], summary["lost"]) == (1, 1, 2)


def test_without_an_accident_there_is_nothing_to_be_proud_of(
    conn: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client(conn)
    done = client.enqueue("k", queue="q").job_id
    (claim,) = client.claim("w", ["q"])
    client.complete(claim.job_id, claim.fence)

    assert told(ACCIDENTS, client, [done], capsys)[0] == 0
    for name in ("killed", "froze", "stale"):
        fleet = SimpleNamespace(**{**vars(ACCIDENTS), name: 0})
        assert told(fleet, client, [done], capsys)[0] == 1


def test_events_count_once_and_the_last_one_of_a_job_tells_its_status(conn: Connection) -> None:
    client = Client(conn)
    history = demo._History(client, "q")
    for _ in range(3):
        client.enqueue("k", queue="q", max_attempts=1)
    client.enqueue("k", queue="another")
    for claim in client.claim("w", ["q"], 2):
        client.complete(claim.job_id, claim.fence)

    assert len(history.read()) == 7
    assert history.read() == []
    assert history.counts == {"enqueued": 3, "claimed": 2, "succeeded": 2}
    assert history.finished == 2


def test_workers_of_a_demo_that_is_gone_do_not_start() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import pyworker.demo; print('alive')"],
        env={**os.environ, "ROWLOCK_DEMO_PARENT": "1"},
        capture_output=True,
        text=True,
    )

    assert (done.returncode, done.stdout) == (1, "")
