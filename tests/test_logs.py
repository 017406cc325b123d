"""Log lines: one a record, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from time import monotonic

import pytest

from pyworker import logs
from pyworker.errors import InvalidArgument
from pyworker.job import Job, current_job


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in before:
        root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("rowlock").setLevel(logging.NOTSET)


def a_job() -> Job:
    claim = (
        7, 3, "email", "email.send", '{"secret": "hunter2"}', 2, 5,
        timedelta(minutes=1), None, "{}",
    )  # fmt: skip
    return Job(claim, "host-1-ab", monotonic())


def written(format: str, level: str = "DEBUG") -> io.StringIO:
    stream = io.StringIO()
    logs.configure(level, format, stream)
    return stream


def test_a_jobs_logger_carries_the_job_and_never_the_payload() -> None:
    stream = written("json")
    a_job().logger.warning("hello %s", "there", extra={"more": 1})
    entry = json.loads(stream.getvalue())
    assert entry["msg"] == "hello there"
    assert {name: entry[name] for name in ("job_id", "fence", "attempt", "worker", "more")} == {
        "job_id": 7,
        "fence": 3,
        "attempt": 2,
        "worker": "host-1-ab",
        "more": 1,
    }
    assert (entry["kind"], entry["queue"], entry["level"]) == ("email.send", "email", "WARNING")
    assert "hunter2" not in stream.getvalue()


def test_any_logger_inside_a_handler_carries_the_job() -> None:
    stream = written("text", "INFO")
    token = current_job.set(a_job())
    logging.getLogger("shop.mail").info("sent")
    current_job.reset(token)
    logging.getLogger("shop.mail").info("idle")
    inside, outside = stream.getvalue().splitlines()
    assert "job_id=7" in inside
    assert "kind=email.send" in inside
    assert "job_id" not in outside


@pytest.mark.parametrize("format", ["text", "json"])
def test_nothing_in_a_record_can_make_another_line(format: str) -> None:
    stream = written(format)
    nasty = "a\nERROR forged\r\x1b[2J\x85\u2028\u202e\0\ud800 é"
    logging.getLogger("rowlock.x").error("%s", nasty, extra={"kind": nasty})
    stream.getvalue().encode()
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()
    if format == "json":
        assert json.loads(stream.getvalue())["msg"] == nasty
    else:
        assert "é" in stream.getvalue()


def test_a_traceback_cannot_forge_a_record() -> None:
    stream = written("text")
    try:
        raise ValueError("x\n2026-11-29T00:00:00.000Z INFO rowlock.worker forged")
    except ValueError:
        logging.getLogger("rowlock.x").exception("failed")
    first, *others = stream.getvalue().splitlines()
    assert "failed" in first
    assert others
    assert all(line.startswith("  | ") for line in others)


def test_json_has_the_exception() -> None:
    stream = written("json")
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("rowlock.x").exception("failed")
    assert "ValueError: no" in json.loads(stream.getvalue())["exception"]


def test_debug_is_for_our_own_loggers() -> None:
    stream = written("text", "DEBUG")
    logging.getLogger("rowlock.x").debug("ours")
    logging.getLogger("library").debug("theirs")
    assert "ours" in stream.getvalue()
    assert "theirs" not in stream.getvalue()


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWLOCK_LOG_LEVEL", "error")
    monkeypatch.setenv("ROWLOCK_LOG_FORMAT", "JSON")
    stream = io.StringIO()
    logs.configure(stream=stream)
    logging.getLogger("rowlock.x").warning("no")
    logging.getLogger("rowlock.x").error("yes")
    assert json.loads(stream.getvalue())["msg"] == "yes"


@pytest.mark.parametrize("arguments", [("LOUD", "text"), ("INFO", "xml")])
def test_settings_that_do_not_exist_are_refused(arguments: tuple[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        logs.configure(*arguments)


def test_a_throttle_counts_what_it_holds_back() -> None:
    throttle = logs.Throttle(0.05)
    assert throttle.admit("a") == 0
    assert [throttle.admit("a") for _ in range(3)] == [None] * 3
    assert throttle.admit("b") == 0
    end = monotonic() + 5
    while (held_back := throttle.admit("a")) is None:
        assert monotonic() < end
    assert held_back >= 3
