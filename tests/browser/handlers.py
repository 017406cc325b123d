"""What the workers of the browser tests run: `rowlock worker --app tests.browser.handlers:app`."""

from __future__ import annotations

import time
from typing import Any

from pyworker import App, Job

app = App()


class CardDeclinedError(Exception):
    pass


@app.job("report.render")
def render(payload: dict[str, Any], job: Job) -> dict[str, int]:
    """Goes from 0 to 100 % in `seconds`; stops when told to."""
    steps = 10
    for step in range(steps + 1):
        job.progress(100 * step // steps, f"page {step} of {steps}")
        job.wait(payload["seconds"] / steps)
    return {"pages": steps}


@app.job("card.charge")
def charge(payload: dict[str, Any]) -> None:
    raise CardDeclinedError("insufficient funds")


@app.job("slow.first")
def slow_first(payload: dict[str, Any], job: Job) -> str:
    """The first attempt does not end; a later one does at once."""
    while job.attempt == 1:
        time.sleep(1)
    return f"attempt {job.attempt}"


@app.job("noop")
def noop(payload: dict[str, Any]) -> None:
    pass
