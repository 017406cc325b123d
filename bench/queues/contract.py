"""What a queue must offer to be measured: one adapter a module, named as its queue."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import ClassVar, Protocol


class NotDoneOnceError(Exception):
    """A job was lost, done twice, or did not end in time: the figure would be worth nothing."""


class Queue(Protocol):
    """A queue in a database of its own, and a bench's connections to it.

    Work is done by processes of the queue's own, at the settings that its documentation calls the
    best for one process. There are two kinds of job: one that does nothing, and one that notes
    when it begins (`worker`).
    """

    name: ClassVar[str]

    def __init__(self, url: str) -> None: ...

    @staticmethod
    def install(url: str) -> None:
        """Puts the queue's tables into an empty database."""

    def enqueue(self, *, noted: bool = False) -> None:
        """One job due now, durable when this returns."""

    def enqueue_bulk(self, number: int) -> None:
        """So many jobs that do nothing, over one connection, durable when this returns."""

    def worker(self, notes: int | None = None) -> AbstractContextManager[None]:
        """A worker process for as long as the context lasts.

        A noted job writes CLOCK_MONOTONIC as it begins, nanoseconds, decimal, a line a job, to the
        file descriptor `notes`.
        """

    def await_drained(self, number: int) -> float:
        """Seconds from the first claim to the last outcome of the jobs enqueued in bulk last.

        Raises NotDoneOnceError unless each was done once, by the queue's own records.
        """

    def add_finished(self, number: int) -> None:
        """Jobs that were done an hour ago, kept as the queue keeps them."""

    def add_later(self, number: int) -> None:
        """Jobs of the highest priority that are due tomorrow."""

    def time_claim(self) -> float:
        """Milliseconds that a claim of one job takes; the job is then completed."""

    def close(self) -> None: ...
