"""The handlers that Rowlock's workers run."""

from __future__ import annotations

import os
import time
from typing import Any

from pyworker.app import App

app = App()

_NOTES = int(os.environ.get("ROWLOCK_BENCH_NOTES", "-1"))


@app.job("bench.nothing")
def nothing(payload: Any) -> None:
    """Does nothing."""


@app.job("bench.note")
def note(payload: Any) -> None:
    """Notes when it begins: one write, so that a line is whole."""
    os.write(_NOTES, b"%d\n" % time.monotonic_ns())
