"""What runs the handlers: threads for plain ones, one event loop for coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any

from pyworker import runner
from pyworker.app import Handler
from pyworker.job import Job
from pyworker.runner import Answer

Answered = Callable[[Job, Answer | None], None]


class Threads:
    """Up to so many threads, started as they are needed.

    Jobs are handed over in one piece and taken one by one, so that a slow handler holds up nothing
    behind it. How many threads wake up follows the work: one at first, twice as many each half
    millisecond while those awake are not about to take the rest. Handlers that do nothing share a
    thread, handlers that block get one each.
    """

    _LOOK_AGAIN = 0.0005
    _LOOKS = 8
    """In so many, at the pace of the last, those awake must be through."""

    def __init__(self, size: int, handlers: dict[str, Handler[Any]], answered: Answered) -> None:
        self._size = size
        self._handlers = handlers
        self._answered = answered
        self._jobs: deque[Job] = deque()
        self._idle: list[_Thread] = []
        self._threads: list[_Thread] = []
        self._abandoned: list[_Thread] = []
        self._closing = False

    def hand_over(self, jobs: Sequence[Job]) -> None:
        """Returns when each job has been taken, or every thread has been woken for the rest.

        There are never more jobs than free slots, hence never more than threads without work.
        """
        self._jobs.extend(jobs)
        count, taken = 1, 0
        while left := len(self._jobs):
            if taken * self._LOOKS < left:
                if not self._wake(min(count, left)):
                    return
                count *= 2
            # Threads that wake up find the interpreter free.
            sleep(self._LOOK_AGAIN)
            taken = left - len(self._jobs)

    def abandon(self, job: Job) -> None:
        """Leaves a thread to a handler that does not stop, and makes room for another."""
        thread = job._runner
        if isinstance(thread, _Thread):
            thread.is_replaced = True
            self._threads.remove(thread)
            self._abandoned.append(thread)

    def close(self) -> None:
        self._closing = True
        for thread in self._threads:
            with contextlib.suppress(RuntimeError):
                thread.bell.release()

    @property
    def busy(self) -> int:
        """How many threads run a handler, those given up on included."""
        return sum(thread.is_busy for thread in self._threads) + self.stuck

    @property
    def stuck(self) -> int:
        """How many threads given up on still run their handler."""
        return sum(thread.is_busy for thread in self._abandoned)

    def _wake(self, count: int) -> int:
        woken = 0
        while woken < count:
            try:
                self._idle.pop().bell.release()
            except IndexError:
                if len(self._threads) >= self._size:
                    break
                self._start_one()
            woken += 1
        return woken

    def _start_one(self) -> None:
        thread = _Thread(self, f"rowlock-handler-{len(self._threads) + 1}")
        self._threads.append(thread)
        thread.start()

    def _serve(self, thread: _Thread) -> None:
        jobs = self._jobs
        while not self._closing:
            try:
                job = jobs.popleft()
            except IndexError:
                self._rest(thread)
                continue
            thread.is_busy = True
            job._runner = thread
            job._started = monotonic()
            answer = runner.run(self._handlers[job.kind], job)
            job._ended = monotonic()
            self._answered(job, answer)
            thread.is_busy = False
            if thread.is_replaced:
                return

    def _rest(self, thread: _Thread) -> None:
        self._idle.append(thread)
        # Whoever hands over jobs extends first and wakes second; this looks again after it has
        # made itself known. Either it sees the jobs, or it is seen.
        if self._jobs or self._closing:
            try:
                self._idle.remove(thread)
            except ValueError:
                pass
            else:
                return
        thread.bell.acquire()


class _Thread(threading.Thread):
    def __init__(self, pool: Threads, name: str) -> None:
        # Daemons: one that never ends must not keep the process from ending.
        super().__init__(name=name, daemon=True)
        self.bell = threading.Lock()
        self.bell.acquire()
        self.is_busy = False
        self.is_replaced = False
        self._pool = pool

    def run(self) -> None:
        self._pool._serve(self)


class EventLoop:
    """One thread with one asyncio loop, started with the first coroutine handler."""

    def __init__(self, handlers: dict[str, Handler[Any]], answered: Answered) -> None:
        self._handlers = handlers
        self._answered = answered
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._abandoned: weakref.WeakSet[asyncio.Task[None]] = weakref.WeakSet()

    def hand_over(self, jobs: Sequence[Job]) -> None:
        self._started().call_soon_threadsafe(self._begin, list(jobs))

    def stop(self, job: Job) -> None:
        """Cancels the job's task: CancelledError is raised where the handler waits."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cancel, job)

    def abandon(self, job: Job) -> None:
        """Gives up on a task that does not stop, or that the loop has no time to stop."""
        if isinstance(job._runner, asyncio.Task):
            self._abandoned.add(job._runner)

    @property
    def busy(self) -> int:
        return len(self._tasks)

    @property
    def stuck(self) -> int:
        return len(set(self._tasks) & set(self._abandoned))

    def close(self, timeout: float) -> None:
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name="rowlock-event-loop", daemon=True
            )
            self._thread.start()
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin(self, jobs: list[Job]) -> None:
        assert self._loop is not None
        for job in jobs:
            task = self._loop.create_task(self._run(job))
            job._runner = task
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _cancel(self, job: Job) -> None:
        # A task cancelled before it began would never answer; `run_async` looks for itself.
        if isinstance(job._runner, asyncio.Task) and job._started is not None:
            job._runner.cancel()

    async def _run(self, job: Job) -> None:
        job._started = monotonic()
        answer = await runner.run_async(self._handlers[job.kind], job)
        job._ended = monotonic()
        self._answered(job, answer)
