"""A worker behind pgbouncer in transaction mode: no session state, hence polling only."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pyworker import App, Client, Job
from tests.workers import client_of, events, eventually, finished, running, status_of

BINARY = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(BINARY is None, reason="pgbouncer is not installed")


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    client = client_of(url)
    yield client
    client.conn.close()


@pytest.fixture
def pooled(client: Client) -> Iterator[str]:
    """The URL of this test's database through pgbouncer, with few server connections."""
    assert BINARY is not None
    info = client.conn.info
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="rowlock-pgbouncer-"))
    (folder / "users").write_text('"postgres" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n"
        f"* = host={info.host} port={info.port} user=postgres\n"
        f"[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {folder}/users\n"
        f"pool_mode = transaction\ndefault_pool_size = 3\n"
        f"ignore_startup_parameters = extra_float_digits\n"
    )
    as_user = []
    if os.geteuid() == 0:
        # It refuses to run as root, like the server.
        user = pwd.getpwnam("postgres")
        shutil.chown(folder, user.pw_uid)
        as_user = ["-u", "postgres"]
    process = subprocess.Popen(
        [BINARY, "-q", *as_user, str(folder / "ini")],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("wb"),
    )
    try:
        through = f"postgresql://postgres@127.0.0.1:{port}/{info.dbname}"
        eventually(lambda: _answers(through), 10, (folder / "log").read_text())
        yield through
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=2):
            return True
    except psycopg.OperationalError:
        return False


def test_a_pooled_worker_polls_and_says_so(
    pooled: str, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(pooled)

    @app.job("steps", lease="1s")
    def steps(payload: dict[str, Any], job: Job) -> int:
        job.progress(50)
        job.wait(2.5)
        return job.attempt

    app.job("good")(lambda payload: "good")

    @app.job("cancelled", lease="1s")
    def cancelled(payload: dict[str, Any], job: Job) -> None:
        job.wait(20)
        job.check()

    with caplog.at_level("WARNING", "rowlock"), running(app, pooled, threads=20) as worker:
        ids = [app.enqueue("good", {}).job_id for _ in range(50)]
        long = steps.enqueue({}).job_id
        stop = app.enqueue("cancelled", {}).job_id
        for job_id in ids:
            assert finished(client, job_id).status == "succeeded"
        eventually(lambda: status_of(client, stop) == "running")
        client.cancel(stop)
        assert finished(client, stop).status == "cancelled"
        assert finished(client, long).result == 1, "its lease was not renewed"

        # Through the pooler and past it, found by polling.
        for made in (app.enqueue("good", {}), client.enqueue("good")):
            job = finished(client, made.job_id)
            assert job.started_at is not None
            assert job.started_at - job.created_at < timedelta(seconds=2)
        assert worker.cover == "polling"
        eventually(lambda: worker.metrics.ticks > 0)
        assert {loop.last_error for loop in worker.loops} == {None}
    assert "polling only" in caplog.text
    assert events(client, long).count("claimed") == 1
    held = client.conn.execute(
        "select count(*) from pg_locks join pg_database on pg_database.oid = database"
        " where locktype = 'advisory' and datname = current_database()"
    ).fetchone()
    assert held == (0,), "a lock was left in somebody else's session"
    app.close()
