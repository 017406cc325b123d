"""Keeps leases alive, carries progress reports, and learns who has to stop."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import monotonic

from pyworker.claims import Claims
from pyworker.client import MAX_BATCH
from pyworker.errors import RowlockError, Unavailable
from pyworker.job import Job, StopReason, log_fields
from pyworker.loop import Backoff, Link, Loop
from pyworker.metrics import Metrics

PROGRESS_EVERY = 1.0
"""Seconds between two reports of one job."""

# The database's clock and this one may differ by the time that a claim took to travel.
_SLACK = 1.0


class Keeper(Loop):
    """Renews every claim held, those whose outcome is not durable yet included, in one call each
    third of the shortest lease. A connection of its own: nothing makes a renewal wait.
    """

    def __init__(
        self,
        worker: str,
        link: Link,
        claims: Claims,
        metrics: Metrics,
        told_to_stop: Callable[[Job, StopReason], None],
        settle: Callable[[Job], None],
    ) -> None:
        super().__init__("keeper", worker)
        # Leases may be as short as a second.
        self._backoff = Backoff(base=0.05, cap=1.0)
        self._link = link
        self._claims = claims
        self._metrics = metrics
        self._told_to_stop = told_to_stop
        self._settle = settle
        self._lock = threading.Lock()
        self._renew_at = math.inf
        self._reporting: dict[tuple[int, int], Job] = {}
        self._ended: deque[Job] = deque()

    def watch(self, jobs: Iterable[Job], claimed_at: float) -> None:
        """New claims: renewed in time for the shortest lease of them."""
        due = claimed_at + (min([job._lease_until for job in jobs]) - claimed_at) / 3
        with self._lock:
            sooner = due < self._renew_at
            if sooner:
                self._renew_at = due
        if sooner:
            self.ring()

    def report(self, job: Job) -> None:
        """A handler has progress to tell. Cheap: called as often as handlers like."""
        if job.key not in self._reporting:
            self._reporting[job.key] = job
            self.ring()

    def last_report(self, job: Job) -> None:
        """A handler has ended with a report unsent: that one first, then its answer."""
        self._ended.append(job)
        self.ring()

    def step(self) -> None:
        self._bell.clear()
        # Before the first claim needs it: where connections are scarce, none is to be claimed that
        # could not be renewed.
        self._link.open()
        if monotonic() >= self._renew_at:
            self._renew()
        while self._ended and monotonic() < self._renew_at:
            self._send_last()
        next_report = self._send_reports()
        if not self._ended:
            self._wait(min(self._renew_at, next_report) - monotonic())

    # -- leases

    def _renew(self) -> None:
        jobs = [job for job in self._claims.held() if not job._lost]
        for start in range(0, len(jobs), MAX_BATCH):
            self._renew_some(jobs[start : start + MAX_BATCH])

        now = monotonic()
        # Claims made meanwhile are looked at too: setting the time below must not undo `watch`.
        with self._lock:
            held = self._claims.held()
            shortest = min((job.lease.total_seconds() for job in held), default=math.inf)
            self._renew_at = now + shortest / 3

    def _renew_some(self, jobs: list[Job]) -> None:
        asked_at = monotonic()
        answers = self._link.call(
            lambda client: client.renew([job.id for job in jobs], [job.fence for job in jobs])
        )
        verdicts = {(answer.job_id, answer.fence): answer.verdict for answer in answers}
        debug = self.log.isEnabledFor(logging.DEBUG)
        for job in jobs:
            verdict = verdicts.get(job.key)
            if verdict is None:
                continue
            self._metrics.renewals[verdict] += 1
            if debug:
                self.log.debug("renewed: %s", verdict, extra=log_fields(job))
            if verdict != "lost":
                job._lease_until = asked_at + job.lease.total_seconds()
                job._not_lost_after_all()
            self._heed(job, verdict)

    def _heed(self, job: Job, verdict: str) -> None:
        if verdict == "held" or not self._claims.is_open(job):
            # A claim that was answered a moment ago reads as lost: its outcome says more.
            return
        if verdict == "lost":
            job._lost = True
            self._told_to_stop(job, "lost")
        elif job._deadline is not None and monotonic() >= job._deadline - _SLACK:
            self._told_to_stop(job, "timeout")
        else:
            self._told_to_stop(job, "cancel")

    # -- progress

    def _send_reports(self) -> float:
        """Sends what is due; returns when the next report is."""
        next_report = math.inf
        for job in list(self._reporting.values()):
            if monotonic() >= self._renew_at:
                return 0.0
            due = job._progress_sent_at + PROGRESS_EVERY
            if monotonic() < due:
                next_report = min(next_report, due)
                continue
            # Taken off the list first: a report made from here on puts it back.
            self._reporting.pop(job.key, None)
            if self._claims.is_open(job):
                try:
                    self._send(job)
                except Unavailable:
                    self._reporting.setdefault(job.key, job)
                    raise
        return next_report

    def _send_last(self) -> None:
        job = self._ended[0]
        job._last_report_tries += 1
        try:
            self._send(job)
        except RowlockError as exc:
            if isinstance(exc, Unavailable) and job._last_report_tries < 3:
                raise
            self.log.warning("its last progress report is lost: %s", exc, extra=log_fields(job))
        self._ended.popleft()
        self._settle(job)

    def _send(self, job: Job) -> None:
        report = job._progress
        if report is None or report is job._progress_sent:
            return
        percent, message = report
        job._progress_sent_at = monotonic()
        verdict = self._link.call(
            lambda client: client.progress(job.id, job.fence, percent, message)
        )
        job._progress_sent = report
        self._metrics.progress_reports += 1
        if self.log.isEnabledFor(logging.DEBUG):
            extra = log_fields(job) | {"percent": percent}
            self.log.debug("progress: %s", verdict, extra=extra)
        self._heed(job, verdict)
