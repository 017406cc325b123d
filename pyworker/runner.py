"""From a handler's end to the answer that the database is given: the one place that maps them."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from contextvars import copy_context
from datetime import timedelta
from typing import Any, NamedTuple

from pyworker.app import Handler
from pyworker.client import JsonText, Outcome, OutcomeVerb
from pyworker.errors import ClaimLost, InvalidArgument, TooLarge
from pyworker.job import (
    Cancel,
    Cancelled,
    Fail,
    Job,
    Retry,
    ShuttingDown,
    Snooze,
    Stopped,
    StopReason,
    TimedOut,
    current_job,
    log_fields,
)
from pyworker.logs import logger
from pyworker.payloads import PayloadInvalid

# A result over 1 MiB is refused by the database; one of another order of magnitude is not sent.
_LONGEST_RESULT = 16 * 2**20
_LONGEST_TRACEBACK = 30_000
_LOGGED_MESSAGE = 500

log = logger("rowlock.worker")


class Answer(NamedTuple):
    """How a run ended: a verb of `settle` and that outcome as JSON."""

    verb: OutcomeVerb
    text: JsonText
    error_type: str | None = None
    message: str | None = None
    """The start of a failure's message, for the log."""


def run(handler: Handler[Any], job: Job) -> Answer | None:
    """Runs a plain handler. None when there is nothing left to say: the claim is lost for good.

    Raises nothing. What the handler leaves in context variables is gone with it, as a coroutine's
    is with its task.
    """
    return copy_context().run(_run, handler, job)


def _run(handler: Handler[Any], job: Job) -> Answer | None:
    if job.stop_reason is not None:
        return stopped(job, job.stop_reason)
    current_job.set(job)
    try:
        try:
            payload = handler.type.load(job.payload)
        except PayloadInvalid as exc:
            return payload_invalid(job, exc)
        value = handler.function(payload, job) if handler.takes_job else handler.function(payload)
    except BaseException as exc:
        return raised(job, exc)
    return returned(job, value)


async def run_async(handler: Handler[Any], job: Job) -> Answer | None:
    """Runs a coroutine handler, in a task of its own. Raises nothing."""
    if job.stop_reason is not None:
        return stopped(job, job.stop_reason)
    current_job.set(job)
    try:
        try:
            payload = handler.type.load(job.payload)
        except PayloadInvalid as exc:
            return payload_invalid(job, exc)
        value = await (
            handler.function(payload, job) if handler.takes_job else handler.function(payload)
        )
    except BaseException as exc:
        return raised(job, exc)
    return returned(job, value)


def returned(job: Job, value: Any) -> Answer:
    """complete; or a failure for good when the result cannot be stored."""
    if value is None:
        return Answer(
            "complete",
            JsonText(f'{{"job_id":{job.id},"fence":{job.fence},"outcome":"complete"}}'),
        )
    try:
        outcome = Outcome(job_id=job.id, fence=job.fence, outcome="complete", result=value)
        text = outcome.to_json()
        if len(text) > _LONGEST_RESULT:
            raise TooLarge(f"the result is {len(text):,} characters of JSON; 1 MiB is the most")
    except InvalidArgument as exc:
        if inspect.iscoroutine(value) or inspect.isgenerator(value):
            return _never_began(job, value)
        return failed(job, "ResultInvalid", str(exc), fatal=True)
    except TooLarge as exc:
        return failed(job, "ResultTooLarge", str(exc), fatal=True)
    except BaseException as exc:
        # The value's own code ran: a dict or str subclass of the handler's.
        return failed(job, "ResultInvalid", _text_of(exc), fatal=True)
    return Answer("complete", text)


def _never_began(job: Job, value: Any) -> Answer:
    """A decorator hid what kind of function the handler is. None of it ran: it may be retried."""
    value.close()
    return failed(
        job,
        "TypeError",
        f"the handler returned a {type(value).__name__}, which nobody runs: declare an async def "
        "or a plain function, and decorate it with what keeps it one",
    )


def raised(job: Job, exc: BaseException) -> Answer | None:
    """What an exception means."""
    try:
        return _raised(job, exc)
    except BaseException as trouble:
        # The exception's own code ran, or memory ran out: it must not cost the job its answer.
        what = f"what it raised cannot be told: {type(trouble).__name__}"
        return failed(job, type(exc).__name__, what)


def _raised(job: Job, exc: BaseException) -> Answer | None:
    if log.isEnabledFor(logging.DEBUG):
        log.debug("the handler raised %s", _error_type(exc), exc_info=exc, extra=log_fields(job))
    match exc:
        case Snooze():
            return snoozed(job, exc)
        case Cancel():
            return _answer(job, "accept_cancel", reason=exc.reason or "the handler cancelled it")
        case Retry():
            return failed(
                job,
                _error_type(exc.__cause__ or exc),
                _message(exc, exc.__cause__),
                detail=_detail(exc),
                retry_in=exc.in_,
            )
        case Fail():
            return failed(
                job,
                _error_type(exc.__cause__ or exc),
                _message(exc, exc.__cause__),
                detail=_detail(exc),
                fatal=True,
            )
        case Cancelled():
            return stopped(job, "cancel")
        case TimedOut():
            return stopped(job, "timeout")
        case ShuttingDown():
            return stopped(job, "shutdown")
        case ClaimLost() if job.stop_reason == "lost":
            return stopped(job, "lost")
        case asyncio.CancelledError() | Stopped() if job.stop_reason is not None:
            return stopped(job, job.stop_reason)
    return failed(job, _error_type(exc), _text_of(exc), detail=_detail(exc))


def stopped(job: Job, reason: StopReason) -> Answer | None:
    """The handler stopped because it was told to."""
    match reason:
        case "cancel":
            return _answer(job, "accept_cancel", reason="the handler stopped on request")
        case "timeout":
            return timed_out(job, "the handler stopped")
        case "shutdown":
            return released(job, "the worker shuts down")
        case "lost" if job._lost:
            return None
        case "lost":
            return released(job, "the lease ran out before it could be renewed")


def timed_out(job: Job, what: str) -> Answer:
    limit = f" of {job.timeout}" if job.timeout is not None else ""
    return failed(job, "TimedOut", f"the job ran past its timeout{limit}: {what}")


def released(job: Job, reason: str) -> Answer:
    return _answer(job, "release", reason=reason)


def snoozed(job: Job, snooze: Snooze) -> Answer:
    return _answer(job, "snooze", delay=snooze.delay, reason=snooze.reason)


def payload_invalid(job: Job, exc: PayloadInvalid) -> Answer:
    return failed(job, "PayloadInvalid", str(exc), fatal=True)


def failed(
    job: Job,
    error_type: str,
    message: str,
    *,
    detail: Any = None,
    retry_in: timedelta | None = None,
    fatal: bool = False,
) -> Answer:
    return _answer(
        job,
        "fail",
        error_type=error_type,
        message=message,
        detail=detail,
        retry_in=retry_in,
        fatal=fatal or None,
    )


def _answer(job: Job, verb: OutcomeVerb, **arguments: Any) -> Answer:
    outcome = Outcome(job_id=job.id, fence=job.fence, outcome=verb, **arguments)
    message = arguments.get("message")
    return Answer(
        verb, outcome.to_json(), arguments.get("error_type"), message and message[:_LOGGED_MESSAGE]
    )


def _error_type(exc: BaseException) -> str:
    return type(exc).__qualname__


def _message(exc: BaseException, cause: BaseException | None) -> str:
    own = _text_of(exc)
    if cause is None:
        return own
    return f"{own}: {_text_of(cause)}" if own else _text_of(cause)


def _text_of(exc: BaseException) -> str:
    try:
        return str(exc)
    except BaseException:
        return "(the exception has no text: its __str__ failed)"


def _detail(exc: BaseException) -> dict[str, str]:
    try:
        lines = "".join(traceback.format_exception(exc))
    except BaseException:
        return {}
    # The end tells most; what is above is frames of ours.
    return {"traceback": lines[-_LONGEST_TRACEBACK:]}
