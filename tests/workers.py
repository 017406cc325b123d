"""Workers for tests: in a thread of the test's process, or as real processes that can be killed.

`python -m tests.workers URL '{"threads": 4}'` runs one worker on `app`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pyworker import App, Client, Job, Worker, logs, worker
from pyworker.client import Job as JobRow
from pyworker.client import JobSummary, connect

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent

app = App()


def mark(payload: dict[str, Any], what: str) -> None:
    """Notes in the payload's file that a handler got so far."""
    with open(payload["file"], "a") as file:
        file.write(f"{what}\n")


@app.job("noop")
def noop(payload: dict[str, Any]) -> None:
    pass


@app.job("touch")
def touch(payload: dict[str, Any], job: Job) -> int:
    mark(payload, f"{job.attempt}")
    return job.attempt


@app.job("polite")
def polite(payload: dict[str, Any], job: Job) -> str:
    """Works for `seconds`, and stops when told to."""
    mark(payload, "begun")
    end = time.monotonic() + payload["seconds"]
    while time.monotonic() < end:
        job.wait(0.02)
        job.check()
    mark(payload, "done")
    return "done"


@app.job("deaf")
def deaf(payload: dict[str, Any], job: Job) -> str:
    """Works for `seconds`, whatever it is told."""
    mark(payload, "begun")
    time.sleep(payload["seconds"])
    mark(payload, "done")
    return f"attempt {job.attempt}"


@app.job("chatty")
def chatty(payload: dict[str, Any], job: Job) -> None:
    """Reports for `seconds`."""
    end = time.monotonic() + payload["seconds"]
    while time.monotonic() < end:
        job.progress(50, "half")
        job.wait(0.05)


@app.job("bad")
def bad(payload: dict[str, Any]) -> None:
    raise ValueError("no")


@app.job("killer")
def killer(payload: dict[str, Any]) -> None:
    mark(payload, "killed")
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("patient")
async def patient(payload: dict[str, Any], job: Job) -> str:
    mark(payload, "begun")
    await asyncio.sleep(payload["seconds"])
    return "done"


@app.job("parent")
def parent(payload: dict[str, Any]) -> int:
    """Forks; tells how its child ended."""
    pid = os.fork()
    if not pid:
        return child(payload["how"])
    if payload["how"] == "terminated":
        time.sleep(0.2)
        os.kill(pid, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@app.job("parent.async")
async def async_parent(payload: dict[str, Any]) -> int:
    pid = os.fork()
    if not pid:
        return child(payload["how"])
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def child(how: str) -> int:
    signal.alarm(20)
    if how == "exit":
        sys.exit(7)
    if how == "raise":
        raise ValueError("of the child")
    if how == "terminated":
        time.sleep(30)
    return 5


@app.job("closer")
def closer(payload: dict[str, Any]) -> None:
    for number in range(3):
        os.close(number)


@app.job("descriptors")
def descriptors(payload: dict[str, Any]) -> list[str]:
    """Which of the standard ones are sockets."""
    names = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
    return [name for name in names if name.startswith("socket:")]


def eventually(question: Callable[[], T | None], timeout: float = 20.0, what: str = "") -> T:
    """The first true answer; fails when there is none in time."""
    end = time.monotonic() + timeout
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what or question} (last: {answer!r})")
        time.sleep(0.02)


def status_of(client: Client, job_id: int) -> str:
    return client.get_job(job_id).status


def jobs(client: Client, **filter: Any) -> list[JobSummary]:
    """The first hundred jobs that match."""
    return client.list_jobs(filter, max_jobs=100).rows


def finished(client: Client, job_id: int, timeout: float = 20.0) -> JobRow:
    """The job, once it has ended."""

    def ended() -> JobRow | None:
        job = client.get_job(job_id)
        return job if job.status in ("succeeded", "failed", "cancelled") else None

    return eventually(ended, timeout, f"job {job_id} ends")


def events(client: Client, job_id: int) -> list[str]:
    return [event.event for event in client.list_events(job_id).rows]


@contextlib.contextmanager
def running(of: App, url: str, **options: Any) -> Iterator[Worker]:
    """A worker in a thread; stopped, and waited for, at the end."""
    worker = Worker(of, url, **options)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            worker.run()
        except BaseException as exc:
            failure.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(40)
    assert not thread.is_alive(), "the worker did not end"
    if failure:
        raise failure[0]


class Process:
    """A worker in a process of its own. Its log, JSON lines, is in `log`."""

    def __init__(self, url: str, folder: Path, **options: Any) -> None:
        self.log = folder / f"worker-{time.monotonic_ns()}.log"
        environment = {
            **os.environ,
            "ROWLOCK_LOG_LEVEL": "DEBUG",
            "ROWLOCK_LOG_FORMAT": "json",
            "PYTHONPATH": str(ROOT),
        }
        with open(self.log, "wb") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "tests.workers", url, json.dumps(options)],
                cwd=ROOT,
                env=environment,
                stderr=log,
                stdout=log,
            )

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def wait(self, timeout: float = 30.0) -> int:
        return self.popen.wait(timeout)

    def entries(self) -> list[dict[str, Any]]:
        lines = self.log.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def said(self, text: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries() if text in entry["msg"]]

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        self.popen.wait()


@contextlib.contextmanager
def process(url: str, folder: Path, **options: Any) -> Iterator[Process]:
    worker = Process(url, folder, **options)
    try:
        yield worker
    finally:
        worker.close()


def client_of(url: str) -> Client:
    return Client(connect(url, "test"))


def lines(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def main(url: str, options: dict[str, Any]) -> None:
    logs.configure()
    half_dead_after = options.pop("half_dead_after", None)
    if half_dead_after is not None:
        worker._HALF_DEAD_AFTER = half_dead_after
    Worker(app, url, **options).run_process()


if __name__ == "__main__":
    # Under nohup it is ignored, and stays so.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    main(sys.argv[1], json.loads(sys.argv[2]))
