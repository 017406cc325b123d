"""Logging of the shell: one line a record, as text or JSON, with the job it concerns.

    ROWLOCK_LOG_LEVEL=DEBUG ROWLOCK_LOG_FORMAT=json rowlock worker ...

Whatever a handler or a job puts into a message stays one record: control characters are escaped.
Payloads are never logged.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import Any, TextIO

from pyworker.errors import InvalidArgument
from pyworker.job import current_job, log_fields

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FORMATS = ("text", "json")

# What a LogRecord has by itself; the rest came with `extra`.
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# C0 and C1 controls, line and paragraph separators, and marks that reorder text on a screen.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape(text: str) -> str:
    r"""`text` on one line: control characters as \n, \t, \x1b or \u202e."""
    return _UNSAFE.sub(lambda found: repr(found[0])[1:-1], text)


def configure(
    level: str | None = None, format: str | None = None, stream: TextIO | None = None
) -> None:
    """Sets up the root logger: to stderr, once.

    Without arguments ROWLOCK_LOG_LEVEL (INFO) and ROWLOCK_LOG_FORMAT (text) decide. The level is
    that of Rowlock's own loggers; others are kept at INFO or above. Raises InvalidArgument.
    """
    level = (level or os.environ.get("ROWLOCK_LOG_LEVEL") or "INFO").upper()
    format = (format or os.environ.get("ROWLOCK_LOG_FORMAT") or "text").lower()
    if level not in LEVELS:
        raise InvalidArgument(f"no such log level: {level}", hint=f"One of {', '.join(LEVELS)}.")
    if format not in FORMATS:
        raise InvalidArgument(f"no such log format: {format}", hint=f"One of {', '.join(FORMATS)}.")

    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(logging.INFO, logging.getLevelName(level)))
    logging.getLogger("rowlock").setLevel(level)


@functools.cache
def logger(name: str) -> logging.Logger:
    """A logger of Rowlock's own, whose calls raise nothing.

    A handler or a filter of the application's that fails costs a record, not the job that the
    record tells of or the thread that writes it.
    """
    found = logging.getLogger(name)
    handle = found.handle

    def guarded(record: logging.LogRecord) -> None:
        try:
            handle(record)
        except Exception:
            # As logging does with errors of its own handlers.
            if logging.raiseExceptions and sys.stderr is not None:
                with contextlib.suppress(OSError, ValueError):
                    traceback.print_exc(file=sys.stderr)

    found.handle = guarded  # type: ignore[method-assign]
    return found


def _context(record: logging.LogRecord) -> Mapping[str, Any]:
    """The record's own fields; inside a handler, those of its job too."""
    own = {
        name: value
        for name, value in vars(record).items()
        if name not in _OWN_FIELDS and not name.startswith("_")
    }
    job = current_job.get()
    return own if job is None or "job_id" in own else {**log_fields(job), **own}


class TextFormatter(logging.Formatter):
    """`2026-11-29T16:20:01.123Z INFO rowlock.worker message job_id=1 kind=email.send ...`"""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        parts = [
            f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
            record.levelname,
            record.name,
            escape(record.getMessage()),
        ]
        parts += [f"{name}={_value(value)}" for name, value in _context(record).items()]
        line = " ".join(parts)
        # A traceback keeps its lines; each is marked, so that none can pass for a record.
        for block in (_exception(record), record.stack_info):
            if block:
                line += "".join(f"\n  | {escape(each)}" for each in block.splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, msg, and the record's fields."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **_context(record),
        }
        exception = _exception(record)
        if exception:
            entry["exception"] = exception
        if record.stack_info:
            entry["stack"] = record.stack_info
        return json.dumps(entry, default=str)


def _value(value: Any) -> str:
    text = escape(f"{value:.6g}" if isinstance(value, float) else str(value))
    return json.dumps(text, ensure_ascii=False) if re.search(r'[\s"=]', text) or not text else text


_plain = logging.Formatter()


def _exception(record: logging.LogRecord) -> str | None:
    if record.exc_info and not record.exc_text:
        record.exc_text = _plain.formatException(record.exc_info)
    return record.exc_text


class Throttle:
    """Lets a repeated message through once in a while: for loops that may fail for hours."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._last: dict[str, float] = {}
        self._held_back: dict[str, int] = {}

    def admit(self, about: str) -> int | None:
        """How often it was held back since it last passed; None to hold it back now."""
        now = monotonic()
        last = self._last.get(about)
        if last is not None and now - last < self._seconds:
            self._held_back[about] = self._held_back.get(about, 0) + 1
            return None
        if len(self._last) > 1000:
            self._last.clear()
            self._held_back.clear()
        self._last[about] = now
        return self._held_back.pop(about, 0)
