"""The worker processes: `rowlock worker`, replaced when they die, never outliving this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

# Asks for the kernel's help before anything else: a worker dies with whoever started it.
_LAUNCH = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(sys.argv.pop(1)):
    sys.exit("the starting process is gone")
from pyworker.cli import main
main()
"""


_STARTING = 5.0
"""Seconds that a new process may take until it can end in order."""


class WorkerProcess:
    """One `rowlock worker`, its log in a file of its own."""

    def __init__(self, url: str, queues: list[str], threads: int, folder: Path) -> None:
        command = [sys.executable, "-c", _LAUNCH, str(os.getpid()), "worker"]
        command += ["--app", "chaos.app:app", "--threads", str(threads), "--json-logs"]
        for queue in queues:
            command += ["--queue", queue]
        draft = folder / f"starting-{time.monotonic_ns()}.log"
        self._log: IO[bytes] = draft.open("ab")
        self.process = subprocess.Popen(
            command,
            env={
                **os.environ,
                "ROWLOCK_DATABASE_URL": url,
                "ROWLOCK_LOG_LEVEL": "DEBUG",
                "ROWLOCK_CHAOS_FOLDER": str(folder),
            },
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        draft.rename(folder / f"worker-{self.process.pid}.log")
        self.is_stopped = False
        self.is_asked_to_end = False
        self.is_young = False
        self.started_at = time.monotonic()
        self.gone_at: float | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def claims_as(self, worker: str | None) -> bool:
        """Whether a claim is this process's: a worker id reads host-pid-random."""
        return worker is not None and worker.split("-")[-2] == str(self.pid)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.gone_at = time.time()

    def ask_to_end(self) -> None:
        self.is_asked_to_end = True
        self.is_young = time.monotonic() - self.started_at < _STARTING
        self.process.terminate()

    @property
    def has_left(self) -> bool:
        """Whether it ended as it was asked to, and was not killed."""
        return self.is_asked_to_end and self.process.returncode == 0

    @property
    def has_died_young(self) -> bool:
        """Whether the word to end came before it could hear: Python itself was still starting."""
        return self.is_young and self.process.returncode == -signal.SIGTERM

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    def close(self) -> None:
        self._log.close()


class Fleet:
    """So many workers at all times."""

    def __init__(self, url: str, queues: list[str], size: int, threads: int, folder: Path) -> None:
        self._arguments = (url, queues, threads, folder)
        self.workers = [WorkerProcess(*self._arguments) for _ in range(size)]
        self.gone: list[WorkerProcess] = []
        self.ended: list[str] = []
        """Processes that ended though nobody killed them."""

    def replace(self) -> None:
        """Starts a new process for each that is gone."""
        for worker in list(self.workers):
            if worker.is_alive:
                continue
            if worker.gone_at is None:
                worker.gone_at = time.time()
                if not (
                    worker.has_left
                    or worker.has_died_young
                    or worker.process.returncode == -signal.SIGKILL
                ):
                    self.ended.append(f"worker {worker.pid} ended by {worker.process.returncode}")
            worker.close()
            self.workers.remove(worker)
            self.gone.append(worker)
            self.workers.append(WorkerProcess(*self._arguments))

    def wake(self) -> None:
        for worker in self.workers:
            if worker.is_stopped and worker.is_alive:
                worker.go_on()

    def terminate(self, patience: float = 40.0) -> None:
        """Asks all to end, as an orderly shutdown does, and insists in the end."""
        self.wake()
        for worker in self.workers:
            with contextlib.suppress(ProcessLookupError):
                worker.ask_to_end()
        end = time.monotonic() + patience
        for worker in self.workers:
            try:
                code = worker.process.wait(max(0.1, end - time.monotonic()))
                if code != 0 and not worker.has_died_young:
                    self.ended.append(f"worker {worker.pid} ended by {code} when asked to end")
            except subprocess.TimeoutExpired:
                self.ended.append(f"worker {worker.pid} did not end within {patience:.0f} s")
                worker.kill()
            worker.close()

    def close(self) -> None:
        for worker in self.workers:
            if worker.is_alive:
                worker.kill()
            worker.close()
