"""What a handler is given beside its payload, and what it may raise.

A handler that returns completes its job. One that raises `Retry`, `Snooze`, `Cancel` or `Fail`
says what should happen instead; any other exception is a failure that the database may retry.
"""

# Named after what they tell, without a suffix.
# ruff: noqa: N818

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, MutableMapping
from contextvars import ContextVar
from datetime import timedelta
from time import monotonic
from typing import Any, Literal

from pyworker.client import ClaimRow, JsonText, decode_headers, decode_json
from pyworker.durations import optional_duration
from pyworker.errors import ClaimLost, InvalidArgument
from pyworker.payloads import PayloadInvalid

StopReason = Literal["cancel", "lost", "shutdown", "timeout"]

current_job: ContextVar[Job | None] = ContextVar("rowlock_current_job", default=None)
"""The job whose handler runs in this thread or task: log records carry it."""


class Retry(Exception):
    """Fails this attempt: to be run again after `in_`, or after the usual backoff without it.

    Raised `from` another exception, that one names the error.
    """

    def __init__(self, message: str = "", *, in_: str | float | timedelta | None = None) -> None:
        super().__init__(message or "the handler asked for a retry")
        self.in_ = optional_duration(in_)


class Snooze(Exception):
    """Not yet: run again after `delay`. No attempt is used up."""

    def __init__(self, delay: str | float | timedelta, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for a later time")
        span = optional_duration(delay)
        if span is None:
            raise InvalidArgument("a snooze needs a delay")
        self.delay: timedelta = span
        self.reason = reason


class Cancel(Exception):
    """The job is pointless now: it ends as cancelled."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__(reason or "the handler cancelled its job")
        self.reason = reason


class Fail(Exception):
    """The job cannot succeed, however often it runs: it ends as failed, attempts left or not.

    Raised `from` another exception, that one names the error.
    """


class Stopped(Exception):
    """The handler was told to stop. Raised by `progress()` and `check()`; let it pass."""


class Cancelled(Stopped):
    """An operator asked for the job to be cancelled."""


class TimedOut(Stopped):
    """The job ran longer than its timeout."""


class ShuttingDown(Stopped):
    """The worker is about to exit; the job goes back to the queue with its attempt given back."""


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry the job."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**(self.extra or {}), **(kwargs.get("extra") or {})}
        return msg, kwargs


class Job:
    """One claimed run of a job. `(id, fence)` is its token; `attempt` counts from 1.

    Cheap on purpose: thousands pass through a worker each second.
    """

    __slots__ = (
        "__weakref__",
        "_answer",
        "_deadline",
        "_ended",
        "_event",
        "_headers",
        "_headers_text",
        "_last_report_tries",
        "_lease_until",
        "_lost",
        "_on_progress",
        "_payload",
        "_payload_text",
        "_progress",
        "_progress_sent",
        "_progress_sent_at",
        "_refusals",
        "_runner",
        "_settle_tries",
        "_started",
        "_stop_reason",
        "_verb",
        "attempt",
        "fence",
        "id",
        "key",
        "kind",
        "lease",
        "max_attempts",
        "queue",
        "timeout",
        "worker",
    )

    def __init__(
        self,
        claim: ClaimRow,
        worker: str,
        claimed_at: float,
        on_progress: Callable[[Job], None] | None = None,
    ) -> None:
        (
            self.id, self.fence, self.queue, self.kind, text, self.attempt,
            self.max_attempts, lease, timeout, self._headers_text,
        ) = claim  # fmt: skip
        self.worker = worker
        self.key = (self.id, self.fence)
        self.lease: timedelta = lease
        self.timeout: timedelta | None = timeout

        # Decoded when asked for, by whoever runs the job.
        self._payload: Any = None
        self._payload_text: str | None = text
        self._headers: dict[str, Any] | None = None
        # Instants of this machine's monotonic clock, counted from before the claim was asked for:
        # never later than the database's own.
        self._lease_until = claimed_at + lease.total_seconds()
        self._deadline = claimed_at + timeout.total_seconds() if timeout is not None else None
        self._on_progress = on_progress
        self._started: float | None = None
        self._ended: float | None = None
        self._stop_reason: StopReason | None = None
        self._event: threading.Event | None = None
        self._lost = False
        self._progress: tuple[int | None, str | None] | None = None
        # Written by whoever sends it; the report above by the handler only. Different: to be sent.
        self._progress_sent: tuple[int | None, str | None] | None = None
        self._progress_sent_at = 0.0
        self._last_report_tries = 0
        self._runner: Any = None
        self._verb = ""
        self._answer = JsonText()
        self._refusals = 0
        self._settle_tries = 0

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.kind} attempt={self.attempt} fence={self.fence}>"

    @property
    def payload(self) -> Any:
        """The payload as JSON gives it; the handler's first argument is made from it.

        Raises PayloadInvalid for what Python cannot hold.
        """
        if self._payload_text is not None:
            try:
                self._payload = decode_json(self._payload_text)
            except ValueError as exc:
                raise PayloadInvalid(str(exc)) from exc
            self._payload_text = None
        return self._payload

    @property
    def headers(self) -> dict[str, Any]:
        """Trace context and tags, as the producer gave them."""
        if self._headers is None:
            self._headers = decode_headers(self._headers_text)
        return self._headers

    @property
    def seconds_left(self) -> float | None:
        """Until the timeout, by this machine's clock; None where there is no timeout."""
        return None if self._deadline is None else max(0.0, self._deadline - monotonic())

    @property
    def logger(self) -> JobLogger:
        return JobLogger(logging.getLogger("rowlock.job"), log_fields(self))

    # -- being told to stop

    @property
    def should_stop(self) -> bool:
        return self._stop_reason is not None

    @property
    def stop_reason(self) -> StopReason | None:
        """cancel, lost (the claim may be someone else's by now), shutdown or timeout."""
        return self._stop_reason

    @property
    def cancel_requested(self) -> bool:
        return self._stop_reason == "cancel"

    def check(self) -> None:
        """Raises Cancelled, TimedOut, ShuttingDown or ClaimLost once the handler should stop."""
        reason = self._stop_reason
        if reason is None:
            return
        if reason == "lost":
            raise ClaimLost(
                f"the claim on job {self.id} (fence {self.fence}) is lost",
                hint="Stop: whatever this attempt answers counts no more.",
            )
        raise {"cancel": Cancelled, "timeout": TimedOut, "shutdown": ShuttingDown}[reason](
            f"job {self.id} was told to stop: {reason}"
        )

    def wait(self, seconds: float) -> bool:
        """Sleeps, but not past a request to stop. True when there is one.

        For handlers in threads: it would block the event loop. A coroutine awaits asyncio.sleep(),
        which a request to stop cancels.
        """
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("job.wait() blocks the event loop: await asyncio.sleep() instead")
        event = self._event
        if event is None:
            event = self._event = threading.Event()
        # Made before looked at: a request that came in between has either set it or is seen here.
        if self._stop_reason is None:
            event.wait(seconds)
        return self._stop_reason is not None

    def progress(self, percent: int | float | None = None, message: str | None = None) -> None:
        """Reports how far the handler is; raises as `check()` does.

        Never waits for the database: the newest report is sent within a second, and the last one
        always before the outcome. `percent` is 0 to 100.
        """
        if percent is not None:
            if not 0 <= percent <= 100:
                raise InvalidArgument(f"progress must be 0 to 100, not {percent!r}")
            percent = int(percent)
        self._progress = (percent, None if message is None else str(message))
        if self._on_progress is not None:
            self._on_progress(self)
        self.check()

    def _tell_to_stop(self, reason: StopReason) -> bool:
        """False when it was told already. A lost claim outranks the other reasons."""
        if self._stop_reason is not None and (reason != "lost" or self._stop_reason == "lost"):
            return False
        self._stop_reason = reason
        if self._event is not None:
            self._event.set()
        return True

    def _not_lost_after_all(self) -> None:
        """The database still has the claim, though the lease had run out by this clock."""
        if self._stop_reason == "lost" and not self._lost:
            self._stop_reason = None
            self._event = None


def log_fields(job: Job) -> dict[str, Any]:
    """What every log record about a job carries."""
    return {
        "job_id": job.id,
        "queue": job.queue,
        "kind": job.kind,
        "attempt": job.attempt,
        "fence": job.fence,
        "worker": job.worker,
    }
