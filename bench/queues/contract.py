"""What a queue must offer to be measured."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


class NotDoneOnceError(Exception):
    """A job was lost, done twice, or did not end in time: the figure would be worth nothing."""


class PartlyDoneError(NotDoneOnceError):
    """Of a measure's parts the first gave a figure."""

    def __init__(self, figure: dict[str, float], reason: str) -> None:
        super().__init__(reason)
        self.figure = figure


PATIENCE = 300.0
"""Seconds after which a drain, or any one call, has failed."""


def patience(*watched: subprocess.Popen[bytes], seconds: float | None = None) -> Callable[[], None]:
    """A look that raises when the time is over, or one of these processes."""
    until = time.monotonic() + (seconds or PATIENCE)

    def look() -> None:
        if any(each.poll() is not None for each in watched):
            raise NotDoneOnceError("a worker ended by itself")
        if time.monotonic() > until:
            raise NotDoneOnceError(f"not done in {seconds or PATIENCE:.0f} s")

    return look


class Queue(Protocol):
    """A queue in a database of its own, and a bench's connections to it.

    Work is done by processes of the queue's own, at the settings that its documentation calls the
    best for one process. There are two kinds of job: one that does nothing, and one that notes
    when it begins (`worker`). The payload of every job is `{"n": i}`, from 0 in each call.
    """

    def enqueue_singly(self, number: int) -> float:
        """Seconds that so many jobs take which do nothing, each durable before the next."""

    def enqueue(self, *, noted: bool = False) -> int:
        """One job due now; CLOCK_MONOTONIC, in nanoseconds, when it is durable."""

    def enqueue_bulk(self, number: int, size: int = 0) -> float:
        """Seconds that so many jobs take which do nothing, by the best call over one connection.

        With a size the payload has that many bytes more.
        """

    def worker(
        self, notes: int | None = None, record: Path | None = None
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """A worker process for as long as the context lasts.

        A noted job writes CLOCK_MONOTONIC as it begins, nanoseconds, decimal, a line a job, to the
        file descriptor `notes`. When it ends, each process that ran other jobs leaves a file
        `<pid>.json` in the folder `record`: when it began its first, and the n of all.
        """

    def await_drained(self, number: int, look: Callable[[], object]) -> int:
        """CLOCK_MONOTONIC when the jobs enqueued in bulk last are all done, in nanoseconds.

        Calls `look` now and then, which raises when it is waited for in vain. Raises
        NotDoneOnceError unless each was done once, by the queue's own records.
        """

    def add_finished(self, number: int) -> None:
        """Jobs that were done an hour ago, kept as the queue keeps them."""

    def add_later(self, number: int) -> None:
        """Jobs of the highest priority that are due tomorrow."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Contender:
    """A queue by name, and what is measured of it."""

    name: str
    open: Callable[[str], Queue]
    """The queue in a database, given its URL."""
    install: Callable[[str], object]
    """Puts the queue's tables into an empty database."""
    prepare: Callable[[], str]
    """Installs what the queue runs on, if it must; its version."""
    needs: Literal["postgresql", "redis"] = "postgresql"
    drains: int = 50_000
    """Jobs of a drain: fewer where they would take half a minute."""
    besides: str = ""
    """Which of E to K can be measured."""
