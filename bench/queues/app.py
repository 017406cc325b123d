"""The handlers that Rowlock's workers run."""

from __future__ import annotations

import atexit
import json
import os
import time
from pathlib import Path
from typing import Any

from pyworker.app import App

app = App()

_NOTES = int(os.environ.get("BENCH_NOTES", "-1"))
_RECORD = os.environ.get("BENCH_RECORD")

_began: list[int] = []
_done: list[int] = []


@app.job("bench.nothing")
def nothing(payload: Any) -> None:
    """Does nothing; without a record to leave not even that, for the worker's memory's sake."""
    if _RECORD:
        if not _done:
            _began.append(time.monotonic_ns())
        _done.append(payload["n"])


@app.job("bench.note")
def note(payload: Any) -> None:
    """Notes when it begins: one write, so that a line is whole."""
    os.write(_NOTES, b"%d\n" % time.monotonic_ns())


@atexit.register
def _leave_record() -> None:
    if _RECORD and _done:
        told = json.dumps({"began": min(_began), "done": _done})
        Path(_RECORD, f"{os.getpid()}.json").write_text(told)
