"""What a handler's end means: the answer that the database is given, without a database."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from pyworker import (
    App,
    Cancelled,
    Fail,
    Job,
    Retry,
    ShuttingDown,
    Snooze,
    Stopped,
    TimedOut,
    runner,
)
from pyworker.errors import ClaimLost, InvalidArgument
from pyworker.job import StopReason


@dataclass
class Pair:
    a: int


EXPECTED: dict[StopReason, tuple[str, type[Exception]]] = {
    "cancel": ("accept_cancel", Cancelled),
    "timeout": ("fail", TimedOut),
    "shutdown": ("release", ShuttingDown),
    "lost": ("release", ClaimLost),
}


def a_job(payload: Any = None, timeout: timedelta | None = None) -> Job:
    text = json.dumps({} if payload is None else payload)
    claim = (7, 3, "default", "k", text, 1, 5, timedelta(minutes=1), timeout, "{}")
    return Job(claim, "w", time.monotonic())


def answer_of(function: Any, job: Job) -> runner.Answer | None:
    handler = App().job("k")(function)
    if handler.is_async:
        return asyncio.run(runner.run_async(handler, job))
    return runner.run(handler, job)


def sent(answer: runner.Answer | None) -> dict[str, Any]:
    assert answer is not None
    found: dict[str, Any] = json.loads(answer.text)
    assert (found["job_id"], found["fence"]) == (7, 3)
    assert found["outcome"] == answer.verb
    return found


@pytest.mark.parametrize("reason", list(EXPECTED))
def test_a_handler_that_stops_when_told(reason: StopReason) -> None:
    verb, raised = EXPECTED[reason]

    def handler(payload: Any, job: Job) -> None:
        job._tell_to_stop(reason)
        with pytest.raises(raised):
            job.check()
        job.progress(1)

    async def coroutine(payload: Any, job: Job) -> None:
        job._tell_to_stop(reason)
        raise asyncio.CancelledError

    for function in (handler, coroutine):
        assert sent(answer_of(function, a_job()))["outcome"] == verb


@pytest.mark.parametrize("reason", list(EXPECTED))
def test_a_job_told_to_stop_before_it_began_is_not_run(reason: StopReason) -> None:
    def handler(payload: Any) -> None:
        raise AssertionError("must not run")

    async def coroutine(payload: Any) -> None:
        raise AssertionError("must not run")

    for function in (handler, coroutine):
        job = a_job()
        job._tell_to_stop(reason)
        assert sent(answer_of(function, job))["outcome"] == EXPECTED[reason][0]


def test_a_claim_that_is_lost_for_good_leaves_nothing_to_say() -> None:
    def handler(payload: Any, job: Job) -> None:
        job._lost = True
        job._tell_to_stop("lost")
        job.check()

    assert answer_of(handler, a_job()) is None


def test_what_a_handler_finishes_is_said_whatever_it_was_told() -> None:
    def handler(payload: Any, job: Job) -> str:
        job._lost = True
        job._tell_to_stop("lost")
        return "done all the same"

    assert sent(answer_of(handler, a_job()))["result"] == "done all the same"


def test_stopping_without_being_told() -> None:
    def raises(exc: BaseException) -> dict[str, Any]:
        def handler(payload: Any) -> None:
            raise exc

        return sent(answer_of(handler, a_job()))

    assert raises(Cancelled())["outcome"] == "accept_cancel"
    assert raises(ShuttingDown())["outcome"] == "release"
    assert raises(Stopped("odd"))["error_type"] == "Stopped"
    # Of a call of the handler's own, about another job.
    assert raises(ClaimLost("other"))["error_type"] == "ClaimLost"
    assert raises(asyncio.CancelledError())["error_type"] == "CancelledError"
    assert raises(KeyboardInterrupt())["error_type"] == "KeyboardInterrupt"


def test_retry_and_fail_take_the_error_of_their_cause() -> None:
    def chained(exc: Exception) -> dict[str, Any]:
        def handler(payload: Any) -> None:
            try:
                raise TimeoutError("upstream")
            except TimeoutError as cause:
                raise exc from cause

        return sent(answer_of(handler, a_job()))

    retry = chained(Retry(in_="90s"))
    assert (retry["error_type"], retry["retry_in"]) == ("TimeoutError", "90000000 microseconds")
    assert "fatal" not in retry
    fail = chained(Fail("given up"))
    assert (fail["error_type"], fail["message"]) == ("TimeoutError", "given up: upstream")
    assert fail["fatal"] is True
    assert "TimeoutError: upstream" in fail["detail"]["traceback"]
    assert chained(Fail())["message"] == "upstream"


def test_a_result_that_only_its_own_code_can_spoil() -> None:
    class Odd(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no items")

    for value in (Odd(a=1), {1, 2}, float("inf"), "x" * 20_000_000):
        answer = sent(answer_of(lambda payload, value=value: value, a_job()))
        assert answer["outcome"] == "fail"
        assert answer["fatal"] is True
        assert answer["error_type"] in ("ResultInvalid", "ResultTooLarge")
    loop: list[Any] = []
    loop.append(loop)
    assert sent(answer_of(lambda payload: loop, a_job()))["error_type"] == "ResultInvalid"


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Undecided:
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __str__(self) -> str:
        return "an array"


class Spiteful(list[int]):
    def __iter__(self) -> Any:
        raise KeyboardInterrupt


def test_what_a_handlers_own_code_does_to_its_answer_costs_no_answer() -> None:
    def unspeakable(payload: Any) -> None:
        raise UnspeakableError

    def undecided(payload: Any) -> None:
        raise Fail(Undecided()) from ValueError("why")

    async def unspeakable_too(payload: Any) -> None:
        raise UnspeakableError

    for function in (unspeakable, unspeakable_too):
        answer = sent(answer_of(function, a_job()))
        assert (answer["outcome"], answer["error_type"]) == ("fail", "UnspeakableError")
    assert sent(answer_of(undecided, a_job()))["message"] == "an array: why"
    spiteful = sent(answer_of(lambda payload: Spiteful([1]), a_job()))
    assert (spiteful["error_type"], spiteful["fatal"]) == ("ResultInvalid", True)


def test_an_answer_that_cannot_be_made_is_a_plain_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(exc: BaseException) -> dict[str, str]:
        raise MemoryError

    monkeypatch.setattr(runner, "_detail", no_memory)
    answer = sent(answer_of(lambda payload: 1 / 0, a_job()))
    assert (answer["error_type"], answer["message"]) == (
        "ZeroDivisionError",
        "what it raised cannot be told: MemoryError",
    )


def test_what_was_returned_to_be_run_says_that_nothing_ran() -> None:
    async def work() -> int:
        return 1

    for value in (lambda: work(), lambda: (n for n in range(3))):
        answer = sent(answer_of(lambda payload, value=value: value(), a_job()))
        assert "which nobody runs" in answer["message"]
        # Mended and deployed, it may run after all.
        assert "fatal" not in answer


def test_context_variables_do_not_pass_from_job_to_job() -> None:
    tenant: ContextVar[str | None] = ContextVar("tenant", default=None)

    def handler(payload: Any) -> str | None:
        before = tenant.get()
        tenant.set("one's own")
        return before

    assert "result" not in sent(answer_of(handler, a_job()))
    assert "result" not in sent(answer_of(handler, a_job()))
    assert tenant.get() is None


def test_a_traceback_is_cut_to_what_tells_most() -> None:
    def deep(payload: Any, n: int = 0) -> None:
        if n == 200:
            raise ValueError("x" * 50_000 + "the end")
        deep(payload, n + 1)

    traceback = sent(answer_of(deep, a_job()))["detail"]["traceback"]
    assert len(traceback) <= 30_000
    assert traceback.rstrip().endswith("the end")


def test_a_bad_payload_of_a_coroutine() -> None:
    async def coroutine(payload: Pair) -> None:
        raise AssertionError("must not run")

    answer = sent(answer_of(coroutine, a_job({"a": "b"})))
    assert (answer["error_type"], answer["fatal"]) == ("PayloadInvalid", True)


def test_a_timeout_says_how_long_it_was() -> None:
    job = a_job(timeout=timedelta(seconds=90))
    assert job.seconds_left is not None
    assert 89 < job.seconds_left <= 90
    assert "timeout of 0:01:30" in sent(runner.timed_out(job, "it sleeps"))["message"]


def test_waiting_ends_when_told() -> None:
    job = a_job()
    assert not job.wait(0.01)
    threading.Timer(0.05, job._tell_to_stop, ["cancel"]).start()
    started = time.monotonic()
    assert job.wait(10)
    assert time.monotonic() - started < 5
    assert job.cancel_requested
    assert job.wait(10), "at once"


def test_waiting_does_not_block_the_event_loop() -> None:
    async def handler(payload: Any, job: Job) -> None:
        job.wait(60)

    answer = sent(answer_of(handler, a_job()))
    assert answer["message"] == "job.wait() blocks the event loop: await asyncio.sleep() instead"


def test_the_first_reason_stands_but_a_lost_claim_outranks_it() -> None:
    job = a_job()
    assert job._tell_to_stop("shutdown")
    assert not job._tell_to_stop("cancel")
    assert job.stop_reason == "shutdown"
    assert [job._tell_to_stop("lost"), job._tell_to_stop("lost")] == [True, False]
    with pytest.raises(ClaimLost):
        job.check()


def test_a_snooze_needs_a_length() -> None:
    with pytest.raises(InvalidArgument):
        Snooze(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument):
        Retry(in_="soon")
