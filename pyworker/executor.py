"""What runs the handlers: threads for plain ones, one event loop for coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Any, NoReturn

from pyworker import runner
from pyworker.app import Handler
from pyworker.job import Job
from pyworker.logs import logger
from pyworker.runner import Answer

Answered = Callable[[Job, Answer | None], None]

log = logger("rowlock.worker")


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
        thread.start()
        # Not before: one that the system refuses would keep its place.
        self._threads.append(thread)

    def _serve(self, thread: _Thread) -> None:
        jobs = self._jobs
        pid = os.getpid()
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
            if os.getpid() != pid:
                _end_child(answer)
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


def _end_child(answer: Answer | None) -> NoReturn:
    """The end of a process that a handler forked and that came back out of it.

    The job, the connections and the other threads are its parent's.
    """
    status = 0 if answer is not None and answer.verb == "complete" else 1
    if answer is not None and answer.error_type == "SystemExit":
        code = answer.message or "0"
        status = int(code) & 0xFF if code.isdecimal() else 0 if code == "None" else 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


class EventLoop:
    """One thread with one asyncio loop, started with the first coroutine handler.

    It is not replaced when a handler blocks it: sessions and pools that handlers share belong to
    their loop. `still_for` tells.
    """

    def __init__(self, handlers: dict[str, Handler[Any]], answered: Answered) -> None:
        self._handlers = handlers
        self._answered = answered
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._waiting: deque[Job] = deque()
        self._tasks: dict[asyncio.Task[None], Job] = {}
        self._abandoned: weakref.WeakSet[asyncio.Task[None]] = weakref.WeakSet()
        self._is_closing = False
        self._pid = 0
        self._asked_at: float | None = None

    def hand_over(self, jobs: Sequence[Job]) -> None:
        self._waiting.extend(jobs)
        if self._waiting:
            self._started().call_soon_threadsafe(self._begin)

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

    def still_for(self) -> float:
        """Seconds for which the loop has not turned; asks it anew for a sign when it has."""
        if self._loop is None or not self._tasks:
            return 0.0
        if self._asked_at is None:
            self._asked_at = monotonic()
            self._loop.call_soon_threadsafe(self._turned)
            return 0.0
        return monotonic() - self._asked_at

    def _turned(self) -> None:
        self._asked_at = None

    @property
    def current(self) -> Job | None:
        """The job whose handler runs at this moment, and lets no other run."""
        task = None if self._loop is None else asyncio.current_task(self._loop)
        return None if task is None else self._tasks.get(task)

    def close(self, timeout: float) -> None:
        self._is_closing = True
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=self._serve, args=(loop,), name="rowlock-event-loop", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                loop.close()
                raise
            self._loop, self._thread = loop, thread
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        self._pid = os.getpid()
        while not self._is_closing:
            try:
                # Returns early when a handler stops the loop; asyncio raises SystemExit and
                # KeyboardInterrupt of a task or a callback here. Either would end all others.
                loop.run_forever()
            except BaseException as exc:
                log.warning(
                    "a task or callback on the event loop raised %s: it goes on", type(exc).__name__
                )
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    def _begin(self) -> None:
        assert self._loop is not None
        while self._waiting:
            job = self._waiting.popleft()
            task = self._loop.create_task(self._run(job))
            job._runner = task
            self._tasks[task] = job
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]

    def _cancel(self, job: Job) -> None:
        # A task cancelled before it began would never answer; `run_async` looks for itself.
        if isinstance(job._runner, asyncio.Task) and job._started is not None:
            job._runner.cancel()

    async def _run(self, job: Job) -> None:
        job._started = monotonic()
        answer = await runner.run_async(self._handlers[job.kind], job)
        if os.getpid() != self._pid:
            _end_child(answer)
        job._ended = monotonic()
        self._answered(job, answer)
