"""Tells the database how jobs ended: many in one call, again until it has each answer."""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections import deque
from collections.abc import Callable
from time import monotonic, sleep

from pyworker import runner
from pyworker.claims import Claims
from pyworker.client import SettlementRow
from pyworker.errors import InvalidArgument, NotAllowed, RowlockError, TooLarge, Unavailable
from pyworker.job import Job, log_fields
from pyworker.logs import Throttle
from pyworker.loop import Link, Loop
from pyworker.metrics import Metrics

LINGER = 0.002
"""Seconds to wait for more answers while handlers still run."""

# Half the slots, so that claims for the one half overlap with outcomes of the other.
_FEWEST_JOBS, _MOST_JOBS = 50, 500
_MOST_CHARACTERS = 4 * 2**20

# SQLSTATE classes that blame what was sent: data exceptions, integrity, program limits.
_BAD_DATA = ("21", "22", "23", "44", "54")
# A migration is under way, or was forgotten.
_SCHEMA_AWAY = ("0A000", "3F000", "42883", "42P01")
# An error that blames nobody in particular is somebody's after so many tries alone.
_MOST_TRIES = 5


class Settler(Loop):
    """Answers go out together; each is kept, and its lease alive, until it is durable."""

    def __init__(
        self,
        worker: str,
        link: Link,
        claims: Claims,
        metrics: Metrics,
        slots_freed: Callable[[], None],
    ) -> None:
        super().__init__("settler", worker)
        self._link = link
        self._claims = claims
        self._metrics = metrics
        self._slots_freed = slots_freed
        self._answers: deque[Job] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._numbers = itertools.count()
        self._full = min(_MOST_JOBS, max(_FEWEST_JOBS, claims.slots // 2))
        self._most = self._full
        self._stale = Throttle(1.0)

    def put(self, job: Job) -> None:
        """Called by handler threads, with the answer on the job."""
        self._answers.append(job)
        if not self._bell.is_set():
            self._bell.set()

    def step(self) -> None:
        self._bell.clear()
        self._link.open()
        now = monotonic()
        while self._later and self._later[0][0] <= now:
            self._answers.append(heapq.heappop(self._later)[2])
        if not self._answers:
            self._wait(self._later[0][0] - now if self._later else self.patience)
            return

        if self._claims.running and len(self._answers) < self._most:
            sleep(LINGER)
        self._settle(self._take())

    def _take(self) -> list[Job]:
        batch: list[Job] = []
        characters = 0
        while self._answers and len(batch) < self._most:
            characters += len(self._answers[0]._answer)
            if batch and characters > _MOST_CHARACTERS:
                break
            batch.append(self._answers.popleft())
        return batch

    def _settle(self, batch: list[Job]) -> None:
        answers = [job._answer for job in batch]
        try:
            verdicts = self._link.call(lambda client: client.settle_rows(answers))
        except Exception as exc:
            self._failed_to_settle(batch, exc)
            return
        self._most = min(self._full, self._most * 2)
        self._note(batch, verdicts)

    def _failed_to_settle(self, batch: list[Job], exc: Exception) -> None:
        """Asks again, unless it is an answer that cannot be stored: that one is looked for."""
        blames_the_data = _blames_the_data(exc)
        if len(batch) > 1 and (blames_the_data or not _is_transient(exc)):
            half = len(batch) // 2
            try:
                self._settle(batch[:half])
            except Exception:
                self._answers.extend(batch[half:])
                raise
            self._settle(batch[half:])
            return

        if not _is_transient(exc):
            batch[0]._settle_tries += 1
            if blames_the_data or batch[0]._settle_tries >= _MOST_TRIES:
                self._refused(batch[0], str(exc))
                return

        # Perhaps it was done and the word of it lost: asking again gives the same answer. At the
        # end of the line, so that what cannot be settled now holds up nothing else.
        self._answers.extend(batch)
        self._most = max(1, len(batch) // 2)
        raise exc

    def _note(self, batch: list[Job], verdicts: list[SettlementRow]) -> None:
        jobs = {job.key: job for job in batch}
        accepted: list[Job] = []
        for job_id, fence, verdict, reason in verdicts:
            job = jobs.pop((job_id, fence), None)
            if job is None:
                continue
            if verdict == "accepted":
                accepted.append(job)
            elif verdict == "lost":
                self._claims.drop([job])
                self._metrics.stale(job)
                self._log_stale(job)
            elif verdict == "busy":
                self._ask_again(job)
            else:
                self._refused(job, reason or "no reason given")
        self._claims.drop(accepted)
        self._metrics.settled(accepted)
        if self.log.isEnabledFor(logging.DEBUG):
            for job in accepted:
                self.log.debug("settled: %s", job._verb, extra=log_fields(job) | _seconds_run(job))
        for job in jobs.values():
            self._ask_again(job)
        self._slots_freed()

    def _ask_again(self, job: Job) -> None:
        self.log.debug("busy: will ask again", extra=log_fields(job))
        delay = random.uniform(0.05, 0.25)
        heapq.heappush(self._later, (monotonic() + delay, next(self._numbers), job))

    def _refused(self, job: Job, reason: str) -> None:
        """The answer itself cannot be stored: fails the job instead, with a named error."""
        self._metrics.refused(job)
        job._refusals += 1
        if job._refusals > 1:
            self.log.error(
                "cannot settle, its lease will run out: %s", reason, extra=log_fields(job)
            )
            self._claims.drop([job])
            self._slots_freed()
            return

        self.log.error("the %s was refused: %s", job._verb, reason, extra=log_fields(job))
        error_type = "OutcomeRefused"
        if job._verb == "complete":
            error_type = "ResultInvalid"
            if len(job._answer.encode()) > 2**20:
                error_type, reason = "ResultTooLarge", f"{reason}; 1 MiB of JSON is the most"
        answer = runner.failed(job, error_type, reason, fatal=True)
        job._verb, job._answer = answer.verb, answer.text
        self.put(job)

    def _log_stale(self, job: Job) -> None:
        held_back = self._stale.admit("stale")
        if held_back is not None:
            self.log.warning(
                "refused: the claim was lost, %s changed nothing%s",
                job._verb,
                f" [{held_back} more like it]" if held_back else "",
                extra=log_fields(job),
            )


def _blames_the_data(exc: Exception) -> bool:
    if isinstance(exc, RowlockError):
        if exc.sqlstate is not None and not exc.sqlstate.startswith("RL"):
            return exc.sqlstate[:2] in _BAD_DATA
        return isinstance(exc, InvalidArgument | TooLarge)
    return isinstance(exc, ValueError)


def _is_transient(exc: Exception) -> bool:
    if isinstance(exc, RowlockError):
        return isinstance(exc, Unavailable | NotAllowed) or exc.sqlstate in _SCHEMA_AWAY
    return not isinstance(exc, ValueError)


def _seconds_run(job: Job) -> dict[str, float]:
    if job._started is None or job._ended is None:
        return {}
    return {"seconds": round(job._ended - job._started, 6)}
