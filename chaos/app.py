"""Kinds of job that behave badly. Each run is noted in a file, when it begins and when it ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyworker.app import App
from pyworker.job import Cancel, Fail, Job, Retry, Snooze

app = App()

_FOLDER = os.environ.get("ROWLOCK_CHAOS_FOLDER")
_FILE = (
    os.open(f"{_FOLDER}/runs-{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    if _FOLDER
    else None
)


@contextmanager
def noted(job: Job) -> Iterator[None]:
    """One write a line, so that a line is whole or missing."""

    def note(what: str) -> None:
        if _FILE is not None:
            line = {"at": time.time(), "what": what, "job_id": job.id, "fence": job.fence}
            os.write(_FILE, (json.dumps(line | {"worker": job.worker}) + "\n").encode())

    note("began")
    try:
        yield
    finally:
        note("ended")


@app.job("chaos.sleep")
def sleep(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Takes its time."""
    with noted(job):
        time.sleep(payload["seconds"])
    return {"fence": job.fence}


@app.job("chaos.async_sleep")
async def async_sleep(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Takes its time on the event loop."""
    with noted(job):
        await asyncio.sleep(payload["seconds"])
    return {"fence": job.fence}


@app.job("chaos.progress")
def progress(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Says how far it is, and stops when asked to."""
    with noted(job):
        for step in range(1, 6):
            job.wait(payload["seconds"] / 5)
            job.progress(20 * step, f"step {step} \0 \U0001f4a5")
    return {"fence": job.fence}


@app.job("chaos.fail")
def fail(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Fails some times, with whatever a program can print."""
    with noted(job):
        if job.attempt <= payload["times"]:
            raise RuntimeError(f"attempt {job.attempt} \0 \ud800 " + "x" * payload.get("length", 1))
    return {"fence": job.fence}


@app.job("chaos.moody")
def moody(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Says in each way that it will not go on now."""
    with noted(job):
        if job.fence == 1:
            raise Snooze(payload["seconds"], "not yet")
        if job.fence == 2:
            raise Retry("again", in_=payload["seconds"])
        if payload["end"] == "fail":
            raise Fail("never")
        if payload["end"] == "cancel":
            raise Cancel("pointless")
    return {"fence": job.fence}


@app.job("chaos.deaf")
def deaf(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Outlasts its lease, and its timeout if it has one, whatever it is told."""
    with noted(job):
        time.sleep(payload["seconds"])
    return {"fence": job.fence}


@app.job("chaos.kill")
def kill(payload: dict[str, Any], job: Job) -> dict[str, Any]:
    """Kills its worker's process, some times or each time."""
    with noted(job):
        if job.attempt <= payload["times"]:
            os.kill(os.getpid(), signal.SIGKILL)
    return {"fence": job.fence}
