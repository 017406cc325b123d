"""Workers as real processes: killed, stopped, drained, and left without a database."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pyworker import Client
from pyworker.errors import Unavailable
from tests.support.cluster import Cluster
from tests.workers import (
    Process,
    client_of,
    events,
    eventually,
    finished,
    jobs,
    lines,
    process,
    status_of,
)


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    client = client_of(url)
    yield client
    client.conn.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "marks"


# -- killed and stopped ------------------------------------------------------------------------


def test_a_job_outlives_its_worker(url: str, client: Client, tmp_path: Path, file: Path) -> None:
    job_id = client.enqueue(
        "polite", {"file": str(file), "seconds": 1}, lease=timedelta(seconds=2)
    ).job_id
    with process(url, tmp_path) as first:
        eventually(lambda: lines(file) == ["begun"])
        first.signal(signal.SIGKILL)
        first.wait()
        killed_at = time.monotonic()
        with process(url, tmp_path):
            eventually(lambda: "lease_expired" in events(client, job_id), 20)
            assert time.monotonic() - killed_at < 2 + 10
            job = finished(client, job_id)

    assert (job.status, job.attempt) == ("succeeded", 2)
    assert lines(file) == ["begun", "begun", "done"]


def test_an_idle_worker_of_another_queue_reaps_in_time(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    """Idle workers tick seldom; that somebody began to work is a reason to look again."""
    with (
        process(url, tmp_path, queues=["other"]) as idle,
        process(url, tmp_path, threads=2) as busy,
    ):
        eventually(lambda: idle.said("stand by: covered") and busy.said("stand by: covered"))
        eventually(lambda: _ticks_seldom(idle))
        job_id = client.enqueue(
            "deaf", {"file": str(file), "seconds": 60}, lease=timedelta(seconds=2)
        ).job_id
        eventually(lambda: lines(file) == ["begun"])
        time.sleep(3)
        busy.signal(signal.SIGKILL)
        killed_at = time.monotonic()
        eventually(lambda: "lease_expired" in events(client, job_id), 20)
        assert time.monotonic() - killed_at < 2 + 10


def _ticks_seldom(worker: Process) -> bool:
    ticks = worker.said("tick:")
    return bool(ticks) and float(ticks[-1]["msg"].split()[-2]) >= 30


def test_a_job_that_kills_its_worker_each_time_ends_failed(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    job_id = client.enqueue(
        "killer", {"file": str(file)}, lease=timedelta(seconds=1), max_attempts=2
    ).job_id
    for _ in range(2):
        with process(url, tmp_path) as worker:
            assert worker.wait(40) == -signal.SIGKILL
    with process(url, tmp_path):
        job = finished(client, job_id)
    assert (job.status, job.attempt, job.error_type) == ("failed", 2, "LeaseExpired")
    assert lines(file) == ["killed", "killed"]


def test_a_stopped_process_that_resumes_changes_nothing(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    job_id = client.enqueue(
        "deaf", {"file": str(file), "seconds": 3}, lease=timedelta(seconds=1)
    ).job_id
    with process(url, tmp_path) as first:
        eventually(lambda: lines(file) == ["begun"])
        first.signal(signal.SIGSTOP)
        with process(url, tmp_path) as second:
            eventually(lambda: lines(file) == ["begun", "begun"], 25)
            first.signal(signal.SIGCONT)
            job = finished(client, job_id)
            refused = eventually(lambda: first.said("the claim was lost"))
            assert not second.said("the claim was lost")

    assert (job.status, job.result) == ("succeeded", "attempt 2")
    assert (refused[0]["job_id"], refused[0]["fence"]) == (job_id, 1)
    assert events(client, job_id).count("succeeded") == 1


# -- what it says ------------------------------------------------------------------------------


def test_debug_shows_each_step_with_its_job(url: str, client: Client, tmp_path: Path) -> None:
    payload = {"file": str(tmp_path / "marks"), "seconds": 1, "secret": "hunter2"}
    job_id = client.enqueue("chatty", payload, lease=timedelta(seconds=1)).job_id
    bad = client.enqueue("bad", payload, max_attempts=2).job_id
    with process(url, tmp_path) as worker:
        finished(client, job_id)
        finished(client, bad)
        eventually(lambda: worker.said("poll:"))
        eventually(lambda: worker.said("tick:"))
        worker.signal(signal.SIGTERM)
        worker.wait()

    told = {
        "claimed": job_id,
        "renewed: held": job_id,
        "progress: held": job_id,
        "settled: complete": job_id,
        "failed: ValueError: no (attempt 1 of 2)": bad,
        "failed: ValueError: no (attempt 2 of 2)": bad,
    }
    for message, of in told.items():
        found = [entry for entry in worker.said(message) if entry.get("job_id") == of]
        assert found, message
        assert {"queue", "kind", "attempt", "fence", "worker"} <= found[0].keys(), message
    assert worker.said("claim: ")
    assert "hunter2" not in worker.log.read_text()


# -- what handlers do to their process ----------------------------------------------------------


def test_a_child_that_a_handler_forks_is_no_worker(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    with process(url, tmp_path, threads=2) as worker:
        for how, status in (("exit", 7), ("return", 0), ("raise", 1), ("terminated", -15)):
            job_id = client.enqueue("parent", {"how": how}).job_id
            assert finished(client, job_id).result == status, how
            assert events(client, job_id) == ["enqueued", "claimed", "succeeded"]
        job_id = client.enqueue("parent.async", {"how": "return"}).job_id
        assert finished(client, job_id).result == 0
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


def test_the_log_is_not_sent_to_the_server_where_standard_error_was_closed(
    url: str, client: Client, tmp_path: Path, conn: psycopg.Connection[Any]
) -> None:
    with process(url, tmp_path) as worker:
        assert finished(client, client.enqueue("closer").job_id).status == "succeeded"
        conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where application_name ~ '^rowlock:.*:(dispatcher|keeper|settler|waker)$'"
        )
        # What it logs at level DEBUG would break its connections, over and over.
        for _ in range(3):
            assert finished(client, client.enqueue("descriptors").job_id).result == []
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


# -- drained -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_drains(
    url: str, client: Client, tmp_path: Path, file: Path, number: signal.Signals
) -> None:
    job_id = client.enqueue("deaf", {"file": str(file), "seconds": 1.5}).job_id
    with process(url, tmp_path, threads=1) as worker:
        eventually(lambda: lines(file) == ["begun"])
        later = client.enqueue("noop").job_id
        worker.signal(number)
        assert worker.wait() == 0

    assert status_of(client, job_id) == "succeeded"
    assert status_of(client, later) == "queued", "claimed while draining"


def test_handlers_are_asked_to_stop_and_their_attempt_is_given_back(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    slow = {"file": str(file), "seconds": 60}
    ids = [client.enqueue(kind, slow).job_id for kind in ("polite", "patient")]
    with process(url, tmp_path, shutdown_budget=2) as worker:
        eventually(lambda: lines(file) == ["begun", "begun"])
        worker.signal(signal.SIGTERM)
        started = time.monotonic()
        assert worker.wait() == 0
        assert time.monotonic() - started < 4

    for job_id in ids:
        job = client.get_job(job_id)
        assert (job.status, job.attempt, job.worker) == ("queued", 0, None)
        assert events(client, job_id) == ["enqueued", "claimed", "released"]


def test_a_thread_that_does_not_end_cannot_keep_the_process(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    job_id = client.enqueue("deaf", {"file": str(file), "seconds": 60}).job_id
    with process(url, tmp_path, shutdown_budget=1) as worker:
        eventually(lambda: lines(file) == ["begun"])
        worker.signal(signal.SIGTERM)
        assert worker.wait(10) == 3
    job = client.get_job(job_id)
    assert (job.status, job.attempt) == ("queued", 0)
    assert events(client, job_id)[-1] == "released"


def test_a_second_signal_skips_the_waiting(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    job_id = client.enqueue("deaf", {"file": str(file), "seconds": 60}).job_id
    with process(url, tmp_path, shutdown_budget=60) as worker:
        eventually(lambda: lines(file) == ["begun"])
        worker.signal(signal.SIGTERM)
        eventually(lambda: worker.said("worker stops"))
        worker.signal(signal.SIGINT)
        started = time.monotonic()
        assert worker.wait(10) == 3
        assert time.monotonic() - started < 5
    assert events(client, job_id)[-1] == "released"


@pytest.mark.parametrize("after", [0.0, 0.01, 0.05, 0.2])
def test_a_signal_during_start_up_is_heeded(
    url: str, client: Client, tmp_path: Path, after: float
) -> None:
    with process(url, tmp_path) as worker:
        eventually(lambda: worker.said("worker starts"))
        time.sleep(after)
        worker.signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    assert not jobs(client, status="running")


def test_a_drain_without_a_database_is_bounded(
    own_cluster: Cluster, tmp_path: Path, file: Path
) -> None:
    database = own_cluster.create()
    client = client_of(database.url)
    client.enqueue("deaf", {"file": str(file), "seconds": 1})
    with process(database.url, tmp_path, shutdown_budget=3) as worker:
        eventually(lambda: lines(file) == ["begun"])
        assert own_cluster.server is not None
        own_cluster.server.stop("immediate")
        worker.signal(signal.SIGTERM)
        started = time.monotonic()
        assert worker.wait(20) == 1
        assert time.monotonic() - started < 10
        assert worker.said("could not be settled")
    own_cluster.server.start()
    client.conn.close()


# -- without a database ------------------------------------------------------------------------


def test_a_restart_of_the_server_is_survived(
    own_cluster: Cluster, tmp_path: Path, file: Path
) -> None:
    database = own_cluster.create()
    client = client_of(database.url)
    server = own_cluster.server
    assert server is not None
    with process(database.url, tmp_path) as worker:
        running = client.enqueue("deaf", {"file": str(file), "seconds": 4}).job_id
        eventually(lambda: lines(file) == ["begun"])
        waiting = [client.enqueue("noop", delay=timedelta(seconds=1)).job_id for _ in range(5)]
        server.stop("immediate")
        client.conn.close()
        time.sleep(2)
        assert worker.popen.poll() is None, "the worker ended with its database"
        server.start()

        client = _connected(database.url)
        for job_id in waiting:
            assert finished(client, job_id, 15).status == "succeeded"
        job = finished(client, running, 15)
        assert (job.status, job.result) == ("succeeded", "attempt 1")

        # Woken again, not only polling.
        eventually(lambda: _covered_since_restart(worker.entries()))
        time.sleep(2)
        probe = finished(client, client.enqueue("noop").job_id)
        assert probe.started_at is not None
        assert probe.started_at - probe.created_at < timedelta(seconds=0.5)
        assert len([e for e in worker.entries() if e["level"] == "WARNING"]) < 40
    client.conn.close()


def test_a_worker_finds_the_new_primary_by_itself(
    cluster: Cluster, own_cluster: Cluster, tmp_path: Path
) -> None:
    """After a failover the old one may be there still, read-only, its sessions with it."""
    old = own_cluster.create()
    new = cluster.create(old.name)
    before, after = client_of(old.url), client_of(new.url)
    hosts, ports = (
        ",".join(str(getattr(client.conn.info, field)) for client in (before, after))
        for field in ("host", "port")
    )
    url = f"postgresql://postgres@/{old.name}?host={hosts}&port={ports}"
    with process(url, tmp_path) as worker:
        assert finished(before, before.enqueue("noop").job_id).status == "succeeded"
        before.conn.execute("alter system set default_transaction_read_only = on")
        before.conn.execute("select pg_reload_conf()")
        demoted_at = time.monotonic()
        assert finished(after, after.enqueue("noop").job_id, 25).status == "succeeded"
        assert time.monotonic() - demoted_at < 15
        # Woken there too, not only polling.
        eventually(lambda: worker.said("stand by: covered")[1:])
        assert worker.popen.poll() is None
    before.conn.close()
    after.conn.close()
    cluster.drop(new)


def test_a_worker_started_before_its_database_waits_for_it(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    database = own_cluster.create()
    server = own_cluster.server
    assert server is not None
    client = client_of(database.url)
    job_id = client.enqueue("noop").job_id
    client.conn.close()
    server.stop("fast")
    with process(database.url, tmp_path) as worker:
        eventually(lambda: worker.said("Unavailable"))
        server.start()
        client = _connected(database.url)
        assert finished(client, job_id, 15).status == "succeeded"
        client.conn.close()


def test_terminations_in_a_storm_lose_nothing(
    url: str, client: Client, conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    file = tmp_path / "marks"
    made = [client.enqueue("touch", {"file": str(file)}).job_id for _ in range(300)]
    with process(url, tmp_path, threads=8), process(url, tmp_path, threads=8):
        for _ in range(15):
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'rowlock:%:%' and random() < 0.5"
                " and application_name not like '%:test'"
            )
            time.sleep(0.1)
        for job_id in made:
            assert finished(client, job_id, 60).status == "succeeded"
    assert not jobs(client, status="running")
    # A claim whose answer was lost comes back when its lease ends; nothing ends twice.
    for job_id in made:
        assert events(client, job_id).count("succeeded") == 1


# -- a wire that can be cut --------------------------------------------------------------------


class Wire:
    """A TCP proxy to a server's socket. `freeze()`: accepts and swallows, never answers."""

    def __init__(self, socket_path: str) -> None:
        self._target = socket_path
        self._frozen = threading.Event()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._frozen.set()

    def thaw(self) -> None:
        """What was connected while frozen stays dead; new connections work."""
        self._frozen.clear()

    def close(self) -> None:
        self._listener.close()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._sockets += [near, far]
            state = {"dead": self._frozen.is_set()}
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink, state), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, state: dict[str, bool]) -> None:
        try:
            while data := source.recv(65536):
                state["dead"] = state["dead"] or self._frozen.is_set()
                if not state["dead"]:
                    sink.sendall(data)
            if not state["dead"]:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def test_a_wire_that_swallows_everything_is_left_for_another(
    url: str, client: Client, tmp_path: Path, file: Path
) -> None:
    info = client.conn.info
    wire = Wire(os.path.join(info.host, f".s.PGSQL.{info.port}"))
    through = f"postgresql://postgres@127.0.0.1:{wire.port}/{info.dbname}"
    try:
        job_id = client.enqueue("deaf", {"file": str(file), "seconds": 2}).job_id
        with process(through, tmp_path, half_dead_after=3) as worker:
            eventually(lambda: lines(file) == ["begun"])
            wire.freeze()
            eventually(lambda: lines(file) == ["begun", "done"])
            time.sleep(1)
            assert status_of(client, job_id) == "running"
            wire.thaw()
            job = finished(client, job_id, 45)
            assert (job.status, job.attempt) == ("succeeded", 1)
            assert worker.said("hanging up")
    finally:
        wire.close()


def _connected(url: str) -> Client:
    def connect() -> Client | None:
        try:
            return client_of(url)
        except Unavailable:
            return None

    return eventually(connect)


def _covered_since_restart(entries: list[dict[str, Any]]) -> bool:
    covered = [i for i, entry in enumerate(entries) if entry["msg"] == "stand by: covered"]
    failed = [i for i, entry in enumerate(entries) if "waker: Unavailable" in entry["msg"]]
    return bool(covered and failed and covered[-1] > failed[0])
