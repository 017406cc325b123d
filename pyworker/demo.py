"""`rowlock demo`: a queue at work, with workers that fail, freeze and are killed.

Worker processes are those of `rowlock worker`, and the jobs are ordinary jobs; nothing is simulated
but the accidents, which the jobs cause themselves: one kind stops its worker's process past its
lease, one kills it. What is printed at the end is counted from the database's events and jobs and
from the workers' own metrics.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import click

from pyworker.app import App
from pyworker.client import MAX_BATCH, Client, Event, JobSummary, NewJob, connect
from pyworker.job import Job

LEASE = timedelta(seconds=3)
"""Short, so that a worker that was stopped or killed is noticed while one watches."""

_PARENT = "ROWLOCK_DEMO_PARENT"
_FINISHED = ("succeeded", "failed", "cancelled")
_GIVE_UP = 120.0
_LIVE_PACE = 8.0

Say = Callable[[str], None]

# --------------------------------------------------------------------------------------------
# The kinds
# --------------------------------------------------------------------------------------------

app = App()


@app.job("demo.sleep")
def sleep(payload: dict[str, Any]) -> dict[str, Any]:
    """Takes its time."""
    time.sleep(payload["seconds"])
    return {"slept": payload["seconds"]}


@app.job("demo.progress")
def progress(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Says how far it is."""
    steps = payload["steps"]
    for step in range(1, steps + 1):
        job.wait(payload["seconds"] / steps)
        job.progress(percent=100 * step / steps, message=f"step {step} of {steps}")
    return {"steps": steps}


@app.job("demo.flake")
def flake(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Fails a few times before it succeeds."""
    if job.attempt <= payload["failures"]:
        raise ConnectionError(f"the service did not answer (attempt {job.attempt})")
    return {"attempt": job.attempt}


@app.job("demo.fail")
def fail(payload: dict[str, Any]) -> None:
    """Never succeeds."""
    raise ValueError("this cannot work")


@app.job("demo.freeze")
def freeze(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Stops its worker's process, as a machine without memory or a paused VM does.

    What this attempt answers when it goes on comes too late.
    """
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    return {"attempt": job.attempt}


@app.job("demo.kill")
def kill(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Kills its worker's process, as the kernel does when memory runs out."""
    if job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"attempt": job.attempt}


def _mixed(chance: random.Random, queue: str, pace: float = 1.0) -> NewJob:
    """Some job of the harmless kinds; at a pace of 1 it takes less than a second or two."""
    seconds = round(pace * chance.uniform(0.05, 0.4), 3)
    options: list[dict[str, Any]] = [
        {"kind": "demo.sleep", "payload": {"seconds": seconds}},
        {
            "kind": "demo.sleep",
            "payload": {"seconds": seconds},
            "delay": timedelta(seconds=chance.uniform(1, 5)),
        },
        {"kind": "demo.progress", "payload": {"seconds": 3 * seconds, "steps": 10}},
        {"kind": "demo.flake", "payload": {"failures": chance.choice([1, 1, 2])}},
        {"kind": "demo.fail", "max_attempts": 2},
    ]
    (chosen,) = chance.choices(options, weights=[55, 10, 20, 10, 5])
    return NewJob(queue=queue, priority=chance.choice([3, 5, 5, 5, 7]), lease=LEASE, **chosen)


def _accident(kind: str, queue: str) -> NewJob:
    return NewJob(kind=kind, queue=queue, priority=9, lease=LEASE)


# --------------------------------------------------------------------------------------------
# The workers
# --------------------------------------------------------------------------------------------


class _WorkerProcess:
    """One `rowlock worker`."""

    def __init__(self, number: int, url: str, queue: str, threads: int, log: Path) -> None:
        self.number = number
        self.stale = 0
        self.is_frozen = False
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"127.0.0.1:{probe.getsockname()[1]}"
        command = [sys.executable, "-c", "from pyworker.cli import main; main()", "worker"]
        command += ["--app", "pyworker.demo:app", "--queue", queue, "--threads", str(threads)]
        command += ["--health-addr", self._address]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, "ROWLOCK_DATABASE_URL": url, _PARENT: str(os.getpid())},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # a Ctrl-C is for the demo, which then stops its workers
            )

    @property
    def name(self) -> str:
        return f"worker {self.number} (process {self.process.pid})"

    @property
    def exit_code(self) -> int | None:
        return self.process.returncode

    def look(self) -> None:
        """Learns whether the process has ended, or was stopped."""
        if self.process.returncode is not None:
            return
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                return
            if os.WIFSTOPPED(status):
                self.is_frozen = True
            else:
                self.process.returncode = os.waitstatus_to_exitcode(status)

    def holds(self, job: JobSummary) -> bool:
        """Whether the job's claim is this process's: a worker id reads host-pid-random."""
        return job.worker is not None and job.worker.split("-")[-2] == str(self.process.pid)

    def go_on(self) -> None:
        self.is_frozen = False
        self.process.send_signal(signal.SIGCONT)

    def count_stale(self) -> int:
        """How many of its answers the database has refused, as its metrics have it."""
        if self.process.returncode is None and not self.is_frozen:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"http://{self._address}/metrics", timeout=2) as page,
            ):
                lines = page.read().decode().splitlines()
                name = "rowlock_stale_writes_total"
                self.stale = sum(int(float(at.split()[-1])) for at in lines if at.startswith(name))
        return self.stale


class _Fleet:
    """So many workers at all times: one that dies is replaced, one that froze is woken again."""

    def __init__(
        self, client: Client, url: str, queue: str, size: int, threads: int, log: Path, say: Say
    ) -> None:
        self.killed = 0
        self.froze = 0
        self._client = client
        self._arguments = (url, queue, threads, log)
        self._queue = queue
        self._say = say
        self.workers = [_WorkerProcess(number, *self._arguments) for number in range(1, size + 1)]
        self.gone: list[_WorkerProcess] = []

    @property
    def frozen(self) -> int:
        return sum(worker.is_frozen for worker in self.workers)

    @property
    def stale(self) -> int:
        return sum(worker.count_stale() for worker in self.workers + self.gone)

    def look(self) -> None:
        for worker in list(self.workers):
            was_frozen = worker.is_frozen
            worker.look()
            if worker.exit_code is not None:
                self._replace(worker)
            elif worker.is_frozen and not was_frozen:
                self.froze += 1
                self._say(f"{worker.name} is stopped, with jobs in hand")
            elif worker.is_frozen and not any(map(worker.holds, self._running())):
                self._say(f"{worker.name} goes on; its leases ran out, its jobs were taken from it")
                worker.go_on()

    def _running(self) -> list[JobSummary]:
        return self._client.list_jobs(
            {"queue": self._queue, "status": "running"}, max_jobs=200
        ).rows

    def _replace(self, worker: _WorkerProcess) -> None:
        self.workers.remove(worker)
        self.gone.append(worker)
        if worker.exit_code == -signal.SIGKILL:
            self.killed += 1
            self._say(f"{worker.name} was killed; another takes its place")
        else:
            self._say(f"{worker.name} ended with {worker.exit_code}; another takes its place")
        number = max(each.number for each in [worker, *self.workers]) + 1
        self.workers.append(_WorkerProcess(number, *self._arguments))

    def stop(self, patience: float) -> None:
        """Lets the workers finish what they have, then has them give it back."""
        for worker in self.workers:
            worker.look()
            if worker.is_frozen:
                worker.go_on()
        for send, seconds in (
            (subprocess.Popen.terminate, patience),
            (subprocess.Popen.terminate, 10.0),
            (subprocess.Popen.kill, 10.0),
        ):
            give_up = time.monotonic() + seconds
            for worker in self.workers:
                send(worker.process)
            while time.monotonic() < give_up:
                if all(worker.process.poll() is not None for worker in self.workers):
                    return
                time.sleep(0.05)


def _end_with_parent(parent: int) -> None:
    """A worker whose demo was killed has nothing to work for; a stopped one would stay for ever."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL), 0, 0, 0)
    else:

        def watch() -> None:
            while os.getppid() == parent:
                time.sleep(1)
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


if os.environ.get(_PARENT, "").isdigit():
    _end_with_parent(int(os.environ[_PARENT]))


# --------------------------------------------------------------------------------------------
# What happened
# --------------------------------------------------------------------------------------------


class _History:
    """The events of one queue from now on, each exactly once."""

    def __init__(self, client: Client, queue: str) -> None:
        self.counts: Counter[str] = Counter()
        self.status: dict[int, str] = {}
        self.successes: Counter[int] = Counter()
        self._client = client
        self._queue = queue
        self._cursor = client.read_events().next_cursor
        self._last: dict[int, int] = {}

    def read(self) -> list[Event]:
        """What is new."""
        new: list[Event] = []
        while True:
            page = self._client.read_events(self._cursor, 1000)
            self._cursor = page.next_cursor
            if not page.rows:
                return new
            for event in page.rows:
                if event.queue == self._queue:
                    self.counts[event.event] += 1
                    self.successes[event.job_id] += event.event == "succeeded"
                    # Pages are in the order of transactions; a job's own events in that of ids.
                    if event.id > self._last.get(event.job_id, 0):
                        self._last[event.job_id] = event.id
                        self.status[event.job_id] = event.to_status
                    new.append(event)

    @property
    def finished(self) -> int:
        return sum(status in _FINISHED for status in self.status.values())


def _statuses(client: Client, queue: str) -> dict[int, str]:
    """Of every job of a queue, from the jobs themselves."""
    found: dict[int, str] = {}
    cursor = None
    while True:
        page = client.list_jobs({"queue": queue}, cursor, 200)
        found.update((job.id, job.status) for job in page.rows)
        cursor = page.next_cursor
        if cursor is None:
            return found


# --------------------------------------------------------------------------------------------
# Once
# --------------------------------------------------------------------------------------------


def once(url: str, *, jobs: int = 500, workers: int = 3, threads: int = 8, seed: int = 1) -> int:
    """Runs so many jobs to their end, through a killed and a stopped worker; prints the summary.

    Returns 0 when no job was lost, none succeeded twice, and both accidents happened.
    """
    queue = f"demo.{secrets.token_hex(4)}"
    chance = random.Random(seed)
    log = _log_file()
    code = 1
    try:
        with _terminable(), connect(url, "demo") as conn:
            client = Client(conn)
            history = _History(client, queue)
            fleet = _Fleet(client, url, queue, workers, threads, log, click.echo)
            try:
                made = [
                    client.enqueue_many([_mixed(chance, queue) for _ in range(size)])
                    for size in _batches(jobs - 2)
                ]
                click.echo(f"{jobs} jobs for {workers} workers with {threads} threads each")
                acknowledged = [each.job_id for batch in made for each in batch]
                acknowledged += _run_to_the_end(client, queue, history, fleet, jobs)
            finally:
                fleet.stop(patience=20.0)
            history.read()
            code = _sum_up(client, queue, history, fleet, acknowledged)
    finally:
        if code == 0:
            log.unlink()
        else:
            click.echo(f"the workers' log: {log}", err=True)
    return code


def _batches(count: int) -> list[int]:
    return [min(MAX_BATCH, count - start) for start in range(0, count, MAX_BATCH)]


def _run_to_the_end(
    client: Client, queue: str, history: _History, fleet: _Fleet, jobs: int
) -> list[int]:
    """Adds the two accidents, one after the other; returns when every job is finished."""
    accidents: list[int] = []
    began = time.monotonic()
    told = began
    while time.monotonic() < began + _GIVE_UP:
        fleet.look()
        history.read()
        if not accidents and history.finished >= jobs // 10:
            accidents.append(client.enqueue_many([_accident("demo.kill", queue)])[0].job_id)
        elif len(accidents) == 1 and fleet.killed:
            accidents.append(client.enqueue_many([_accident("demo.freeze", queue)])[0].job_id)
        if history.finished == jobs and not fleet.frozen and fleet.stale:
            return accidents
        if time.monotonic() - told >= 2:
            told = time.monotonic()
            click.echo(f"  {history.finished} of {jobs} jobs finished")
        time.sleep(0.1)
    click.echo(f"not finished within {_GIVE_UP:.0f} s", err=True)
    return accidents


def _sum_up(
    client: Client, queue: str, history: _History, fleet: _Fleet, acknowledged: list[int]
) -> int:
    statuses = _statuses(client, queue)
    lost = [job_id for job_id in acknowledged if statuses.get(job_id) not in _FINISHED]
    twice = [job_id for job_id, times in history.successes.items() if times > 1]
    summary = {
        "enqueued": len(acknowledged),
        "succeeded": sum(status == "succeeded" for status in statuses.values()),
        "failed": sum(status == "failed" for status in statuses.values()),
        "retried": history.counts["retry_scheduled"],
        "lease_expired": history.counts["lease_expired"],
        "stale_rejected": fleet.stale,
        "lost": len(lost),
    }
    wrong = {
        "were not finished": lost,
        "succeeded twice": twice,
        "differ between their row and their last event": [
            job_id for job_id, status in statuses.items() if history.status.get(job_id) != status
        ],
    }
    for what, job_ids in wrong.items():
        if job_ids:
            click.echo(f"jobs that {what}: {job_ids[:20]}", err=True)
    happened = bool(fleet.killed and fleet.froze and fleet.stale)
    if not happened:
        click.echo("not every accident happened: a kill, a stop, answers refused", err=True)
    click.echo(json.dumps(summary))
    return 0 if happened and not any(wrong.values()) else 1


# --------------------------------------------------------------------------------------------
# Live
# --------------------------------------------------------------------------------------------


def live(
    url: str, *, workers: int = 3, threads: int = 8, attach: str = "", dashboard: str = ""
) -> int:
    """Makes jobs and shows what becomes of them, until Ctrl-C.

    `attach` is how another terminal reaches the same database, `dashboard` how a browser does.
    """
    queue = "demo"
    chance = random.Random()
    recent: deque[str] = deque(maxlen=200)
    log = _log_file()
    with _terminable(), connect(url, "demo") as conn:
        client = Client(conn)
        client.set_policy(
            queue,
            finished_retention=timedelta(hours=1),
            failed_retention=timedelta(hours=1),
            reason="the demo leaves nothing for long",
        )
        history = _History(client, queue)
        if dashboard:
            click.echo(f"dashboard: {dashboard}")
        screen = _Screen(attach, log, dashboard) if sys.stdout.isatty() else None
        say: Say = recent.append if screen else click.echo
        fleet = _Fleet(client, url, queue, workers, threads, log, say)
        try:
            client.enqueue_many([_mixed(chance, queue, _LIVE_PACE) for _ in range(20)])
            turn = 0
            while True:
                fleet.look()
                for event in history.read():
                    say(_line(event))
                if turn % 4 == 0:
                    size = chance.randint(1, 12)
                    client.enqueue_many([_mixed(chance, queue, _LIVE_PACE) for _ in range(size)])
                if turn % 80 == 20:
                    client.enqueue_many([_accident("demo.kill", queue)])
                if turn % 80 == 50:
                    client.enqueue_many([_accident("demo.freeze", queue)])
                if screen:
                    screen.draw(client, queue, history, fleet, recent)
                turn += 1
                time.sleep(0.25)
        except KeyboardInterrupt:
            pass
        finally:
            if screen:
                screen.leave()
            click.echo("stopping the workers", err=True)
            fleet.stop(patience=1.0)
    log.unlink()
    return 0


_COLOURS = {
    "succeeded": "green",
    "failed": "red",
    "lease_expired": "magenta",
    "retry_scheduled": "yellow",
    "retried": "yellow",
}


def _line(event: Event) -> str:
    detail = event.detail or {}
    more = detail.get("error_message") or detail.get("progress_message") or detail.get("reason")
    about = f"{event.at:%H:%M:%S}  {event.job_id:>7}  {event.kind:<14} {event.event:<16}"
    tail = f" attempt {event.attempt}" + (f"  {more}" if more else "")
    return click.style(about, fg=_COLOURS.get(event.event)) + tail


class _Screen:
    """The live view: redrawn in place, on the terminal's other screen."""

    def __init__(self, attach: str, log: Path, dashboard: str) -> None:
        self._attach = attach
        self._dashboard = dashboard
        self._log = log
        sys.stdout.write("\x1b[?1049h\x1b[?25l")

    def leave(self) -> None:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()

    def draw(
        self, client: Client, queue: str, history: _History, fleet: _Fleet, recent: deque[str]
    ) -> None:
        width, height = shutil.get_terminal_size()
        lines = [*self._head(client, queue, history), "", *self._workers(client, queue, fleet), ""]
        lines += list(recent)[-max(0, height - len(lines) - 1) :]
        # Each line ends with "clear to its end", the last with "clear what is below".
        body = "\x1b[K\n".join(_cut(line, width) for line in lines[: height - 1])
        sys.stdout.write(f"\x1b[H{body}\x1b[J")
        sys.stdout.flush()

    def _head(self, client: Client, queue: str, history: _History) -> Iterator[str]:
        yield click.style("Rowlock", bold=True) + f"  Ctrl-C ends it. Look too: {self._attach}"
        if self._dashboard:
            yield f"Dashboard: {self._dashboard}"
        yield f"workers log to {self._log}"
        yield ""
        found = next(iter(client.list_queues(10_000, [queue])), None)
        if found is not None:
            yield (
                f"ready {found.ready:>5}   scheduled {found.scheduled:>5}   retrying "
                f"{found.retrying:>4}   running {found.running:>4}   dead {found.failed:>4}"
            )
        counts = history.counts
        yield (
            f"since the start: {counts['enqueued']} enqueued, {counts['succeeded']} succeeded, "
            f"{counts['failed']} failed, {counts['retry_scheduled']} retried, "
            f"{counts['lease_expired']} leases expired"
        )

    def _workers(self, client: Client, queue: str, fleet: _Fleet) -> Iterator[str]:
        running = client.list_jobs({"queue": queue, "status": "running"}, max_jobs=200).rows
        for worker in fleet.workers:
            held = [job for job in running if worker.holds(job)]
            state = click.style("stopped", fg="red") if worker.is_frozen else "runs   "
            refused = f"  {worker.count_stale()} answers refused" if worker.count_stale() else ""
            yield f"{worker.name:<28} {state}  {len(held):>2} jobs{refused}"
        shown = sorted(
            (job for job in running if job.progress is not None),
            key=lambda job: job.id,
        )
        for job in shown[:4]:
            filled = round((job.progress or 0) / 5)
            bar = "#" * filled + "-" * (20 - filled)
            yield f"  {job.id:>7}  {job.kind}  [{bar}] {job.progress:>3} %  {job.progress_message}"


def _cut(line: str, width: int) -> str:
    """At most `width` characters; one that would be cut loses its colour."""
    plain = click.unstyle(line)
    return line if len(plain) <= width and not os.environ.get("NO_COLOR") else plain[:width]


# --------------------------------------------------------------------------------------------


def _log_file() -> Path:
    handle, name = tempfile.mkstemp(prefix="rowlock-demo-", suffix=".log")
    os.close(handle)
    return Path(name)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, its workers with it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
