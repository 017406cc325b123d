"""A worker process: claims jobs, runs their handlers, keeps their leases, settles their outcomes.

Four connections, however many handlers: dispatcher, keeper, settler, waker (each in its module).
Handlers run in threads or, coroutines, on one event loop, and hold no connection. The main thread
watches: signals, timeouts, and connections whose other end is half-dead.

No status is decided and no clock compared with the database's here; durations are measured only to
tell a handler in time that it should stop.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import secrets
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from time import monotonic
from types import FrameType
from typing import NoReturn

from pyworker import runner
from pyworker.app import App
from pyworker.claims import Claims
from pyworker.client import Connection, Limits, connect, describe, resolve
from pyworker.dispatcher import Dispatcher
from pyworker.errors import InvalidArgument
from pyworker.executor import EventLoop, Threads
from pyworker.health import HealthServer
from pyworker.job import Job, StopReason, log_fields
from pyworker.keeper import Keeper
from pyworker.logs import Throttle, logger
from pyworker.loop import Link, Loop
from pyworker.metrics import Metrics
from pyworker.runner import Answer
from pyworker.settler import Settler
from pyworker.waker import Waker

log = logger("rowlock.worker")

EXIT_CLEAN = 0
EXIT_UNSETTLED = 1
EXIT_THREAD_LEFT = 3
EXIT_STUCK = 4

STOP_GRACE = 5.0
"""Seconds past its timeout after which a handler is given up on; the reaper waits for ten."""

MAX_QUEUES = 32
"""A claim that names more is refused: each costs it ten probes."""

_LIMITS = Limits(statement_timeout=timedelta(seconds=15), lock_timeout=timedelta(seconds=2))
_HALF_DEAD_AFTER = 20.0
_WATCH_EVERY = 0.25
# A coroutine handler that lets no other run is named; given up on, it has had so long.
_STANDS_STILL_AFTER = 5.0
_HOPELESS_AFTER = 1.0
# What a shutdown's budget is for: waiting for handlers; then waiting for those asked to stop;
# the rest is for settling.
_ASK_AFTER = 0.6
_RELEASE_AFTER = 0.85
_SKIPPED_BUDGET = 2.0


class Worker:
    """Runs an app's handlers until stopped.

    `queues` are served in the order given. `threads` is the number of slots: handlers, plain ones
    and coroutines together, that run at once. `shutdown_budget` is the total time, in seconds, that
    stopping may take. `burst` ends when nothing is due, `max_jobs` after so many claims.
    `health_addr` ("127.0.0.1:8321", ":8321") serves /healthz, /readyz and /metrics. `listen` False
    polls only; None listens except behind a connection pooler.
    """

    def __init__(
        self,
        app: App,
        url: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        threads: int = 10,
        shutdown_budget: float = 25.0,
        burst: bool = False,
        max_jobs: int | None = None,
        health_addr: str | None = None,
        listen: bool | None = None,
        worker_id: str | None = None,
        max_stuck: int = 3,
    ) -> None:
        if threads < 1:
            raise InvalidArgument(f"threads must be 1 or more, not {threads}")
        if isinstance(queues, str) or not 1 <= len(set(queues)) <= MAX_QUEUES:
            raise InvalidArgument(f"queues must be a list of 1 to {MAX_QUEUES} queues")
        if max_jobs is not None and max_jobs < 1:
            raise InvalidArgument(f"max_jobs must be 1 or more, not {max_jobs}")

        self.app = app
        self.id = worker_id or new_worker_id()
        self.queues = list(dict.fromkeys(queues))
        self.slots = threads
        self.location = resolve(url or app.url)
        self.metrics = Metrics()
        self.claims = Claims(threads)
        self.is_draining = False
        self.started_at: float | None = None

        self._budget = shutdown_budget
        self._max_stuck = max_stuck
        self._exit_code = EXIT_CLEAN
        self._stops = 0
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.setblocking(False)
        self._outbox.setblocking(False)
        self._ended = threading.Event()
        self._standstill = Throttle(30.0)

        links = {role: Link(role, self._connect) for role in _ROLES}
        self.links = list(links.values())
        self._threads = Threads(threads, app.handlers, self._answered)
        self._event_loop = EventLoop(app.handlers, self._answered)
        self._waker = Waker(
            self.id,
            self.queues,
            links["waker"],
            self.metrics,
            listen=listen,
            is_working=lambda: len(self.claims) > 0,
        )
        self._settler = Settler(
            self.id, links["settler"], self.claims, self.metrics, self._slots_freed
        )
        self._keeper = Keeper(
            self.id,
            links["keeper"],
            self.claims,
            self.metrics,
            self._tell_to_stop,
            self._settler.put,
        )
        self._dispatcher = Dispatcher(
            self.id,
            self.queues,
            links["dispatcher"],
            self.claims,
            self.metrics,
            app.handlers,
            self._threads,
            self._event_loop,
            self._keeper,
            self._waker,
            self._answered,
            burst=burst,
            max_jobs=max_jobs,
            done=self.stop,
            can_keep=lambda: all(links[role].conn is not None for role in ("keeper", "settler")),
        )
        self._waker.look = self._dispatcher.look
        self.loops: list[Loop] = [self._keeper, self._settler, self._waker, self._dispatcher]
        self._health = HealthServer(self, health_addr) if health_addr is not None else None

    @property
    def cover(self) -> str:
        """How new jobs are noticed: covered, uncovered or polling."""
        return self._waker.cover

    @property
    def stuck(self) -> int:
        """How many handlers given up on still run."""
        return self._threads.stuck + self._event_loop.stuck

    @property
    def health_port(self) -> int | None:
        return self._health.port if self._health is not None else None

    # -- running

    def run(self) -> int:
        """Works until stopped, then drains. Call it from the main thread to have signals heeded.

        SIGTERM, SIGINT and SIGHUP stop it, a second one skips the waiting. Returns an exit code: 0
        clean, 1 something could not be settled in time, 3 a handler still runs in its thread, 4 too
        many handlers did not stop. A worker runs once.

        Raises InvalidArgument or NotAllowed when the first claim is refused, and with `burst` what
        kept the database from answering it.
        """
        if self.started_at is not None:
            raise RuntimeError("a worker runs once: make another")
        self.started_at = monotonic()
        with self._heed_signals():
            try:
                self._start()
                self._watch_until_stopped()
                code = self._shut_down()
            finally:
                self._close()
        if self._dispatcher.refusal is not None:
            raise self._dispatcher.refusal
        return code

    def run_process(self) -> NoReturn:
        """`run()`, as the whole of a process: exits even if a handler's thread never ends."""
        # What is loaded by now stays: no collection need walk it again, while every job waits.
        gc.freeze()
        code = self.run()
        if code in (EXIT_THREAD_LEFT, EXIT_STUCK):
            logging.shutdown()
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
        sys.exit(code)

    def stop(self) -> None:
        """Asks to drain and return from `run()`; asked again, not to wait. From any thread."""
        self._stops += 1
        self._poke()

    def _poke(self) -> None:
        """Ends the main thread's sleep."""
        with contextlib.suppress(BlockingIOError, OSError):
            self._outbox.send(b"!")

    def wait_until_ended(self, timeout: float | None = None) -> bool:
        """For whoever runs a worker in a thread: True once `run()` is over."""
        return self._ended.wait(timeout)

    def _start(self) -> None:
        for handler in self.app.handlers.values():
            # A payload type that cannot be handled is better known now than at its first job.
            _ = handler.type
        log.info(
            "worker starts: %d slots, queues %s, database %s",
            self.slots,
            ", ".join(self.queues),
            describe(self.location.url),
            extra={"worker": self.id},
        )
        if self._health is not None:
            self._health.start()
        for loop in self.loops:
            if self._stops:
                return
            loop.start()

    def _watch_until_stopped(self) -> None:
        while not self._stops:
            try:
                self._watch(_WATCH_EVERY)
            except Exception:
                log.exception("the watch failed", extra={"worker": self.id})
                self._sleep(_WATCH_EVERY)
            still = self._event_loop.still_for()
            if still > _HOPELESS_AFTER and self._event_loop.stuck:
                log.critical(
                    "a handler that does not stop blocks the event loop: this process ends after "
                    "settling what it can",
                    extra={"worker": self.id},
                )
                self._exit_code = EXIT_STUCK
                return
            if still > _STANDS_STILL_AFTER:
                self._warn_of_standstill(still)
            if self.stuck > self._max_stuck:
                log.critical(
                    "%d handlers did not stop: this process ends after settling the others",
                    self.stuck,
                    extra={"worker": self.id},
                )
                self._exit_code = EXIT_STUCK
                return

    def _warn_of_standstill(self, seconds: float) -> None:
        job = self._event_loop.current
        if self._standstill.admit("standstill") is not None:
            log.warning(
                "the event loop has stood still for %.0f s: %s blocks all coroutine handlers; "
                "await what takes long, or make it a plain function, which has a thread",
                seconds,
                "a task" if job is None else f"the handler of {job.kind}",
                extra={"worker": self.id} if job is None else log_fields(job),
            )

    def _watch(self, seconds: float) -> None:
        """One look at the clock, for what no other thread must be late to notice; then a pause."""
        now = monotonic()
        for job in self.claims.unanswered():
            if job._deadline is not None and now >= job._deadline:
                self._tell_to_stop(job, "timeout")
                if now >= job._deadline + STOP_GRACE and job._started is not None:
                    self._give_up_on(job)
            if now >= job._lease_until:
                self._tell_to_stop(job, "lost")
        for link in self.links:
            if link.hang_up(_HALF_DEAD_AFTER):
                log.warning(
                    "%s: no answer for %.0f s, hanging up",
                    link.role,
                    _HALF_DEAD_AFTER,
                    extra={"worker": self.id},
                )
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        """Until a signal or `stop()`, at most so long."""
        poll = select.poll()
        poll.register(self._inbox, select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        with contextlib.suppress(BlockingIOError):
            while self._inbox.recv(4096):
                pass

    @contextlib.contextmanager
    def _heed_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        pid = os.getpid()

        def heed(number: int, frame: FrameType | None) -> None:
            if os.getpid() != pid:
                # A child that a handler forked: to whoever ends it, it is a process like any other.
                signal.signal(number, before[signal.Signals(number)] or signal.SIG_DFL)
                os.kill(os.getpid(), number)
                return
            # Nothing but a counter and a byte: a signal may come while any lock is held.
            self.stop()

        before = {
            number: signal.signal(number, heed)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
            # nohup stays what it is.
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _connect(self, role: str, opened: Callable[[Connection], None]) -> Connection:
        _fill_standard_descriptors()
        return connect(self.location.url, role, worker=self.id, limits=_LIMITS, opened=opened)

    # -- what the loops and the executor report

    def _answered(self, job: Job, answer: Answer | None) -> None:
        """A handler has ended, or its job was dealt with without one."""
        if not self.claims.answer(job):
            log.warning("a handler given up on has ended after all", extra=log_fields(job))
            return
        if answer is None:
            log.info("stopped: its claim was lost", extra=log_fields(job))
            self.claims.drop([job])
            self._slots_freed()
            return
        if answer.error_type is not None:
            log.warning(
                "failed: %s: %s (attempt %d of %d)",
                answer.error_type,
                answer.message,
                job.attempt,
                job.max_attempts,
                extra=log_fields(job) | {"error_type": answer.error_type},
            )
        job._verb, job._answer = answer.verb, answer.text
        if job._progress is not job._progress_sent:
            self._keeper.last_report(job)
        else:
            self._settler.put(job)

    def _slots_freed(self) -> None:
        self._dispatcher.ring()
        if self.is_draining:
            self._poke()

    def _tell_to_stop(self, job: Job, reason: StopReason) -> None:
        if not job._tell_to_stop(reason):
            return
        log.info("told to stop: %s", reason, extra=log_fields(job) | {"reason": reason})
        handler = self.app.handlers.get(job.kind)
        if handler is not None and handler.is_async:
            self._event_loop.stop(job)

    def _give_up_on(self, job: Job) -> None:
        """Its timeout is long past and its handler runs on: the job ends, the thread is left."""
        if not self.claims.answer(job):
            return
        log.error("its handler does not stop: given up on", extra=log_fields(job))
        self._threads.abandon(job)
        self._event_loop.abandon(job)
        answer = runner.timed_out(job, "its handler did not stop")
        job._verb, job._answer = answer.verb, answer.text
        self._settler.put(job)

    # -- shutting down

    def _shut_down(self) -> int:
        began = monotonic()
        self.is_draining = True
        self._stops = max(self._stops, 1)
        log.info(
            "worker stops: %d jobs in hand, %.0f s at most",
            len(self.claims),
            self._budget,
            extra={"worker": self.id},
        )
        self._dispatcher.finish()
        self._waker.leave()

        # Leases are renewed and outcomes settled all the while.
        self._drain_until(began + self._budget * _ASK_AFTER)
        if self.claims.running and self._stops < 2:
            for job in self.claims.unanswered():
                self._tell_to_stop(job, "shutdown")
            self._drain_until(began + self._budget * _RELEASE_AFTER)

        end = began + self._budget
        if self._stops >= 2:
            end = min(end, monotonic() + _SKIPPED_BUDGET)
        while self._has_work_left() and monotonic() < end:
            self._release_the_rest()
            self._sleep(0.02)
        return self._end(end)

    def _drain_until(self, moment: float) -> None:
        while self._has_work_left() and monotonic() < moment and self._stops < 2:
            self._watch(_WATCH_EVERY / 5)

    def _has_work_left(self) -> bool:
        """Claims in hand, or perhaps on their way."""
        return len(self.claims) > 0 or not self._dispatcher.join(0)

    def _release_the_rest(self) -> None:
        """Gives back what still runs, its attempt with it. What its handler says later is void."""
        for job in self.claims.unanswered():
            if not self.claims.answer(job):
                continue
            log.warning("released: its handler has not ended", extra=log_fields(job))
            job._tell_to_stop("shutdown")
            answer = runner.released(job, "the worker shuts down")
            job._verb, job._answer = answer.verb, answer.text
            self._settler.put(job)

    def _end(self, end: float) -> int:
        left = len(self.claims)
        for loop in self.loops:
            loop.finish()
        self._threads.close()
        for loop in self.loops:
            loop.join(max(0.2, end - monotonic()))

        code = self._exit_code
        if left and code == EXIT_CLEAN:
            log.error(
                "%d jobs could not be settled in time: their leases will run out",
                left,
                extra={"worker": self.id},
            )
            code = EXIT_UNSETTLED
        busy = self._still_busy()
        if busy and code != EXIT_STUCK:
            log.error("%d handlers still run", busy, extra={"worker": self.id})
            code = EXIT_THREAD_LEFT
        if self._dispatcher.refusal is None:
            log.info("worker ended", extra={"worker": self.id, "exit_code": code})
        return code

    def _still_busy(self) -> int:
        """How many handlers have not ended, those given a moment that are just ending."""
        end = monotonic() + 0.2
        while (busy := self._threads.busy + self._event_loop.busy) and monotonic() < end:
            self._sleep(0.01)
        return busy

    def _close(self) -> None:
        for loop in self.loops:
            loop.finish()
        self._threads.close()
        self._event_loop.close(timeout=1.0)
        if self._health is not None:
            self._health.close()
        for link in self.links:
            link.drop()
        self._ended.set()


_ROLES = ("dispatcher", "keeper", "settler", "waker")


def _fill_standard_descriptors() -> None:
    """Where a handler closed them the next socket would be standard error, and be sent the log."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)


def new_worker_id() -> str:
    """host-pid-8 hex digits: fresh for each process, so that no two ever answer for one another."""
    # Whole in an application_name, which PostgreSQL cuts at 63 bytes.
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:27] or "host"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
