"""What the Python peers' programs share. It runs beside their packages: standard library alone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

_NOTES = int(os.environ.get("BENCH_NOTES", "-1"))

_BATCH = 1_000

_EVERY = 0.01
"""Seconds between two looks at whether all is done."""


class Handlers:
    """The two kinds of job, and a record of what was done in this process."""

    def __init__(self) -> None:
        self._began: int | None = None
        self._done: list[int] = []

    def nothing(self, n: int) -> None:
        if self._began is None:
            self._began = time.monotonic_ns()
        self._done.append(n)

    def note(self) -> None:
        """Notes when it begins: one write, so that a line is whole."""
        os.write(_NOTES, b"%d\n" % time.monotonic_ns())

    def write_record(self) -> None:
        """The process is about to end."""
        if self._done and "BENCH_RECORD" in os.environ:
            path = Path(os.environ["BENCH_RECORD"], f"{os.getpid()}.json")
            path.write_text(json.dumps({"began": self._began, "done": self._done}))


class Driver(Protocol):
    """A producer's connection, and a look at what became of its jobs."""

    async def enqueue(self, handler: str, payload: dict[str, Any]) -> None:
        """One job due now, durable when this returns."""

    async def enqueue_bulk(self, payloads: Sequence[dict[str, Any]]) -> None:
        """A thousand jobs that do nothing, by the best call over one connection."""

    async def is_drained(self) -> bool:
        """Whether every job due is done. Raises when one failed; costs next to nothing before."""


async def serve(driver: Driver) -> None:
    """Answers requests, one a line, until standard input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = await _answer(driver, **request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


async def _answer(driver: Driver, call: str, **arguments: Any) -> dict[str, Any]:
    match call:
        case "enqueue":
            return await _enqueue(driver, **arguments)
        case "bulk":
            return await _enqueue_bulk(driver, **arguments)
        case "drained":
            while not await driver.is_drained():
                await asyncio.sleep(_EVERY)
            return {"at": time.monotonic_ns()}
        case _:
            # Only some peers can add jobs that are finished or due later.
            await getattr(driver, call)(**arguments)
            return {}


async def _enqueue(driver: Driver, number: int, handler: str) -> dict[str, Any]:
    began = time.monotonic_ns()
    for n in range(number):
        await driver.enqueue(handler, {"n": n})
    at = time.monotonic_ns()
    return {"seconds": (at - began) / 1e9, "at": at}


async def _enqueue_bulk(driver: Driver, number: int, bytes: int) -> dict[str, Any]:
    pad = {"pad": "x" * bytes} if bytes else {}
    payloads = [{"n": n, **pad} for n in range(number)]
    began = time.monotonic_ns()
    for start in range(0, number, _BATCH):
        await driver.enqueue_bulk(payloads[start : start + _BATCH])
    return {"seconds": (time.monotonic_ns() - began) / 1e9}
