"""Claims jobs for free slots and hands them to those that run them."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from time import monotonic

from pyworker import runner
from pyworker.app import Handler
from pyworker.claims import Claims
from pyworker.client import MAX_BATCH
from pyworker.errors import InvalidArgument, NotAllowed, RowlockError
from pyworker.executor import EventLoop, Threads
from pyworker.job import Job, Snooze, log_fields
from pyworker.keeper import Keeper
from pyworker.logs import Throttle
from pyworker.loop import Link, Loop
from pyworker.metrics import Metrics
from pyworker.runner import Answer
from pyworker.waker import Waker

POLL_FIRST = 1.0
POLL_LONGEST = 15.0
BURST_TRIES = 6
"""How often a burst asks a database that has not answered yet: for some five seconds."""

UNKNOWN_KIND_DELAY = 30.0
"""Seconds that a job waits for a worker which has a handler for its kind."""

# After a claim, for each job that it found: time for more to come, so that a dense stream of single
# jobs is claimed by handfuls. Where wake-ups tell of more, the look is at what will be due.
_BREATH = 0.005
_LONGEST_BREATH = 0.02
# Claims in a row that found something, but not enough: work comes steadily, nobody need be woken.
_STEADY = 8


class Dispatcher(Loop):
    """Never claims more than there are free slots: a claimed job that waits uses up its lease."""

    def __init__(
        self,
        worker: str,
        queues: list[str],
        link: Link,
        claims: Claims,
        metrics: Metrics,
        handlers: dict[str, Handler[object]],
        threads: Threads,
        event_loop: EventLoop,
        keeper: Keeper,
        waker: Waker,
        answered: Callable[[Job, Answer | None], None],
        *,
        burst: bool = False,
        max_jobs: int | None = None,
        done: Callable[[], None],
        can_keep: Callable[[], bool],
    ) -> None:
        super().__init__("dispatcher", worker)
        self._queues = queues
        self._link = link
        self._claims = claims
        self._metrics = metrics
        self._handlers = handlers
        self._threads = threads
        self._event_loop = event_loop
        self._keeper = keeper
        self._waker = waker
        self._answered = answered
        self._burst = burst
        self._left = max_jobs
        self._done = done
        self._can_keep = can_keep
        self._unknown = Throttle(30.0)

        self._is_wanted = True
        # The last claim was filled: there is more, look again whenever a slot is free.
        self._is_hungry = False
        self._in_a_row = 0
        self._poll = POLL_FIRST
        self._look_at = 0.0
        self._due_at: float | None = None
        self._looks_at_nothing = 0
        self._has_ended = False
        self._failures = 0
        self.refusal: RowlockError | None = None
        """Why nothing was ever claimed: to try again would not help."""

    def look(self) -> None:
        """There may be work. Called by the waker."""
        self._is_wanted = True
        self.ring()

    def step(self) -> None:
        self._bell.clear()
        # Nothing to hand over, but for threads that could not be started the last time.
        self._give((), ())
        if not self._can_keep():
            if self._burst:
                self._link.open()  # Raises while the database is away, which `failed` counts.
            self._wait(0.1)
            return

        free = min(self._claims.free, MAX_BATCH)
        if self._left is not None:
            free = min(free, self._left)
            if self._left == 0 and not len(self._claims):
                self._end()
        if free <= 0:
            self._wait(self.patience)
            return

        now = monotonic()
        if self._is_wanted or self._is_hungry:
            self._claim(free)
        elif now >= self._look_at:
            # A poll asks the cheaper question first, unless the answer is known.
            if self._due_at is not None and self._due_at <= now:
                self._claim(free)
            else:
                self._poll_once(free)
        else:
            self._wait(self._look_at - now)

    def _poll_once(self, free: int) -> None:
        due = self._ask()
        if due is not None and due <= timedelta(0):
            if not self._in_a_row:
                # Found by asking, though somebody should have said so.
                self._waker.doubt()
            self._claim(free)
        else:
            self._in_a_row = 0
            self._waker.idle()
            self._plan(due)

    def _end(self) -> None:
        """There is nothing more to do for a worker that was to end then."""
        if not self._has_ended:
            self._has_ended = True
            self._done()

    def _claim(self, wanted: int) -> None:
        was_woken, self._is_wanted = self._is_wanted, False
        claimed_at = monotonic()
        try:
            claims = self._link.call(
                lambda client: client.claim_rows(self._worker, self._queues, wanted)
            )
        except Exception:
            self._is_wanted = True
            raise
        self._metrics.claim_seconds.observe(monotonic() - claimed_at)
        self._metrics.claim_batch.observe(len(claims))
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug(
                "claim: %d of %d wanted",
                len(claims),
                wanted,
                extra={"worker": self._worker, "queue": ",".join(self._queues)},
            )

        if not claims:
            self._found_nothing(was_woken)
            return

        self._is_hungry = len(claims) == wanted
        self._in_a_row += 1
        self._looks_at_nothing = 0
        self._poll = POLL_FIRST
        now = monotonic()
        self._due_at = None if self._waker.cover == "covered" else now
        self._look_at = now + min(_BREATH * len(claims), _LONGEST_BREATH)
        if self._left is not None:
            self._left -= len(claims)
        if self._is_hungry or self._in_a_row >= _STEADY:
            self._waker.busy()
        report = self._keeper.report
        self._hand_over(
            [Job(each, self._worker, claimed_at, report) for each in claims], claimed_at
        )

    def _found_nothing(self, was_woken: bool) -> None:
        self._is_hungry = False
        self._in_a_row = 0
        if was_woken:
            self._poll = POLL_FIRST
        # Standing by begins now if it had not: the waker has this look once more when it has.
        self._waker.idle()

        due: timedelta | None = None
        if self._burst or self._waker.cover == "covered":
            due = self._ask()
        self._plan(due)

    def _ask(self) -> timedelta | None:
        due = self._link.call(lambda client: client.next_due(self._queues))
        if self.log.isEnabledFor(logging.DEBUG):
            self.log.debug(
                "poll: next due in %s",
                due,
                extra={"worker": self._worker, "queue": ",".join(self._queues)},
            )
        return due

    def _plan(self, due: timedelta | None) -> None:
        """Nothing was found: when to look again. `due` is when something will be, if known."""
        self._looks_at_nothing += 1
        is_due = due is not None and due <= timedelta(0)
        # Due and not to be had: somebody has it locked. A few looks more, then it is theirs.
        looked_enough = self._looks_at_nothing > (10 if is_due else 1)
        if self._burst and looked_enough and not len(self._claims):
            self._end()

        now = monotonic()
        cover = self._waker.cover
        if self._burst:
            wait = 0.1
        elif cover == "uncovered":
            wait = random.uniform(0.1, 0.25)
        elif cover == "polling":
            wait = POLL_FIRST * random.uniform(0.8, 1.2)
        else:
            wait = self._poll * random.uniform(0.93, 1.0)
            self._poll = min(POLL_LONGEST, self._poll * 2)
        self._due_at = None
        if due is not None and timedelta(0) < due < timedelta(seconds=wait):
            wait = due.total_seconds()
            self._due_at = now + wait
        self._look_at = now + wait

    def failed(self, exc: Exception) -> None:
        """Before the first answer a refusal is a mistake in how this worker was started. Later it
        is an operator's doing, such as a migration's, and passes."""
        if self._link.answered_at is None and isinstance(exc, RowlockError):
            self._failures += 1
            is_refused = isinstance(exc, InvalidArgument | NotAllowed)
            if is_refused or (self._burst and self._failures == BURST_TRIES):
                self.refusal = exc
                self.finish()
                self._end()
                return
        super().failed(exc)

    # -- what became of a claim

    def _hand_over(self, jobs: list[Job], claimed_at: float) -> None:
        self._claims.add(jobs)
        self._keeper.watch(jobs, claimed_at)
        self._metrics.claimed.update([job.queue for job in jobs])
        if self.log.isEnabledFor(logging.DEBUG):
            for job in jobs:
                self.log.debug("claimed", extra=log_fields(job))

        if self._finish.is_set():
            # The word to stop came while the claim was on its way.
            for job in jobs:
                self._answered(job, runner.released(job, "the worker shuts down"))
            return

        plain: list[Job] = []
        coroutines: list[Job] = []
        for job in jobs:
            handler = self._handlers.get(job.kind)
            if handler is None:
                self._answered(job, self._unknown_kind(job))
            elif handler.is_async:
                coroutines.append(job)
            else:
                plain.append(job)
        self._give(coroutines, plain)

    def _give(self, coroutines: Sequence[Job], plain: Sequence[Job]) -> None:
        try:
            self._event_loop.hand_over(coroutines)
        finally:
            self._threads.hand_over(plain)

    def _unknown_kind(self, job: Job) -> Answer:
        self._metrics.unknown_kinds[job.kind] += 1
        held_back = self._unknown.admit(job.kind)
        if held_back is not None:
            self.log.error(
                "no handler for kind %s in this worker: its jobs are put back for %.0f s%s",
                job.kind,
                UNKNOWN_KIND_DELAY,
                f" [{held_back} more]" if held_back else "",
                extra=log_fields(job),
            )
        delay = UNKNOWN_KIND_DELAY * random.uniform(0.8, 1.2)
        reason = f"no handler for kind {job.kind} in {self._worker}"
        return runner.snoozed(job, Snooze(delay, reason))

    def close(self) -> None:
        self._link.drop()
