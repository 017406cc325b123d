"""The jobs in this process's hands."""

from __future__ import annotations

from collections.abc import Iterable

from pyworker.job import Job


class Claims:
    """Claims from the moment they are made until their outcome is durable, one slot each.

    A slot is free again only when the database has the outcome: when it has not for long, no new
    work is taken. Shared by the worker's threads without a lock: each operation is one operation
    on a dict.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._held: dict[tuple[int, int], Job] = {}
        self._unanswered: dict[tuple[int, int], Job] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return self.slots - len(self._held)

    @property
    def running(self) -> int:
        """How many have no outcome yet."""
        return len(self._unanswered)

    def held(self) -> list[Job]:
        return list(self._held.values())

    def unanswered(self) -> list[Job]:
        return list(self._unanswered.values())

    def add(self, jobs: Iterable[Job]) -> None:
        given = {job.key: job for job in jobs}
        self._unanswered.update(given)
        self._held.update(given)

    def answer(self, job: Job) -> bool:
        """Whether the caller is the one that may say how the job ended: the first to ask is."""
        return self._unanswered.pop(job.key, None) is not None

    def is_open(self, job: Job) -> bool:
        return job.key in self._unanswered

    def drop(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._unanswered.pop(job.key, None)
            self._held.pop(job.key, None)
