"""The state machine as DESIGN describes it, in plain Python.

A call is made twice: on the database and here. What the model cannot know (ids, instants, the
backoff's variation, the fingerprint of an error) it reads from the events that the call wrote, and
checks against the rule that DESIGN gives for it; everything else it predicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

from pyworker.client import Event
from tests.model.history import FINISHED

SESSION_USER = "postgres"
GRACE = timedelta(seconds=10)
"""A lease ends at most this long after the job's deadline."""

WAKE_HORIZON = timedelta(seconds=15)
"""Polling finds what is due later than this; what is due sooner is told to idle workers."""


BULK_STATUSES = {
    "retry": ["failed"],
    "cancel": ["queued", "running"],
    "run_now": ["queued"],
    "reprioritize": ["queued"],
    "discard": ["failed"],
}
"""Of jobs in which status a bulk action means, unless the filter names another."""
BULK_TAKES = {
    **BULK_STATUSES,
    "retry": ["failed", "cancelled"],
    "discard": ["failed", "succeeded", "cancelled"],
}
"""Which a filter may name."""


class Refused(AssertionError):  # noqa: N818  mostly the right answer
    """The call must fail with one of these SQLSTATEs and change nothing."""

    def __init__(self, *sqlstates: str) -> None:
        super().__init__(" or ".join(sqlstates))
        self.sqlstates = sqlstates


@dataclass(slots=True)
class Job:
    """A row of queue.jobs, column by column, and the answers that its last settling gave."""

    id: int
    queue: str
    kind: str
    payload: Any
    headers: Any
    priority: int
    max_attempts: int
    created_at: datetime
    available_at: datetime
    created_by: str = SESSION_USER
    status: str = "queued"
    attempt: int = 0
    fence: int = 0
    lease: timedelta | None = None
    timeout: timedelta | None = None
    idempotency_key: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    worker: str | None = None
    lease_expires_at: datetime | None = None
    deadline_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    settled_fence: int | None = None
    settled_as: str | None = None
    progress: int | None = None
    progress_message: str | None = None
    result: Any = None
    error_type: str | None = None
    error_message: str | None = None
    error_group: str | None = None

    def place_in_line(self) -> tuple[Any, ...]:
        return -self.priority, self.available_at, self.created_at, self.id


COLUMNS = tuple(f.name for f in fields(Job))
INSTANTS = tuple(name for name in COLUMNS if name.endswith("_at"))


@dataclass(slots=True)
class Policy:
    """A row of queue.policies."""

    queue: str
    paused_at: datetime | None = None
    paused_until: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    lease: timedelta | None = None
    timeout: timedelta | None = None
    max_attempts: int | None = None
    backoff_base: timedelta | None = None
    backoff_cap: timedelta | None = None
    finished_retention: timedelta | None = None
    failed_retention: timedelta | None = None


POLICY_NAMES = tuple(f.name for f in fields(Policy))[5:]


@dataclass(slots=True)
class Settings:
    lease: timedelta = timedelta(seconds=60)
    max_attempts: int = 5
    backoff_base: timedelta = timedelta(seconds=2)
    backoff_cap: timedelta = timedelta(hours=1)
    finished_retention: timedelta = timedelta(days=7)
    failed_retention: timedelta = timedelta(days=30)
    events_retention: timedelta = timedelta(days=30)
    tick_interval: timedelta = timedelta(seconds=5)
    claim_floor: bool = True


@dataclass(slots=True)
class Action:
    """A row of queue.audit, without its detail."""

    action: str
    queue: str | None
    actor: str
    reason: str | None


@dataclass(slots=True)
class Answer:
    """What a verb that settles a claim answers."""

    id: int
    status: str
    attempt: int
    available_at: datetime


@dataclass
class Tape:
    """What a call wrote: its events, and the instants between which it ran."""

    before: datetime
    after: datetime
    events: list[Event] = field(default_factory=list)
    _taken: set[int] = field(default_factory=set)

    def peek(self, job_id: int) -> Event | None:
        """The next event of this job that the model has not accounted for."""
        for event in self.events:
            if event.job_id == job_id and event.id not in self._taken:
                return event
        return None

    def take(self, job_id: int, name: str) -> Event:
        event = self.peek(job_id)
        assert event is not None, f"job {job_id}: event {name} is missing"
        assert event.event == name, f"job {job_id}: event {event.event} instead of {name}"
        assert self.before <= event.at <= self.after, f"event {event.id} is dated {event.at}"
        self._taken.add(event.id)
        return event

    def left(self) -> list[Event]:
        return [event for event in self.events if event.id not in self._taken]

    def past(self, when: datetime | None, told: bool) -> bool:
        """Whether `when` has come; within the call itself nobody can tell, and `told` counts."""
        if when is None or when > self.after:
            return False
        return True if when <= self.before else told


def clean(text: str) -> str:
    """What neither text nor jsonb can hold becomes U+FFFD: NUL and halves of surrogate pairs."""
    return (
        text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")
    )


def cut(text: str | None, most: int, seen: str | None) -> str | None:
    """`seen` is how the database keeps `text`: whole, or its start within `most` bytes."""
    if text is None:
        return None
    text = clean(text)
    if len(text.encode()) <= most:
        return text
    assert seen is not None, "a long text is gone"
    assert seen.endswith("...")
    assert text.startswith(seen[:-3]), f"{seen!r} is no start of it"
    assert most - 8 < len(seen.encode()) <= most, f"cut at {len(seen.encode())} bytes, not {most}"
    return seen


def too_large(result: Any) -> bool:
    """Whether a result is over 1 MiB as JSON."""
    return isinstance(result, str) and len(result) > 1_000_000


class Model:
    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.events: dict[int, Event] = {}
        self.policies: dict[str, Policy] = {}
        self.settings = Settings()
        self.audit: list[Action] = []
        self.actor: str | None = None
        """The actor claimed by the session that calls, if it claims one."""
        self.locked: set[int] = set()
        """Jobs whose rows a session of the user's holds."""
        self.answers: dict[int, Answer | None] = {}
        """Per job what its last settling answered; None when its event is gone."""
        self.cut_short: set[int] = set()
        """Jobs of which retention removed events."""
        self.last_id = 0
        self.woken: set[str] = set()
        """Queues of which an idle worker must have been told by the present call."""
        self.tape = Tape(datetime.min, datetime.max)
        self._backoffs: dict[tuple[int, int, timedelta, timedelta], timedelta] = {}
        self._groups: dict[tuple[str, str, str], str] = {}

    # -- helpers ---------------------------------------------------------------------------------

    def policy(self, queue: str) -> Policy:
        return self.policies.get(queue) or Policy(queue)

    def effective(self, queue: str, name: str) -> Any:
        """A queue's own value, else the settings'."""
        own = getattr(self.policy(queue), name)
        return own if own is not None else getattr(self.settings, name, None)

    def paused(self, queue: str, now: datetime) -> bool:
        policy = self.policy(queue)
        return policy.paused_at is not None and (
            policy.paused_until is None or policy.paused_until > now
        )

    def record(
        self, job: Job, name: str, was: str | None, worker: str | None = None, **detail: Any
    ) -> datetime:
        """Predicts the event of a transition just made; returns its instant."""
        seen = self.tape.take(job.id, name)
        if self.actor:
            detail["session_user"] = SESSION_USER
        elapsed = None
        if name == "claimed":
            elapsed = seen.at - job.available_at
        elif was == "running" and job.status != "running" and job.started_at is not None:
            elapsed = seen.at - job.started_at
        self.events[seen.id] = Event(
            id=seen.id,
            at=seen.at,
            job_id=job.id,
            queue=job.queue,
            kind=job.kind,
            event=name,
            from_status=was,
            to_status=job.status,
            attempt=job.attempt,
            fence=job.fence,
            elapsed=elapsed,
            worker=worker,
            actor=self.actor or SESSION_USER,
            detail={key: value for key, value in detail.items() if value is not None} or None,
        )
        return seen.at

    def seen(self, job: Job) -> Event:
        """The event that the transition being made must have written."""
        event = self.tape.peek(job.id)
        assert event is not None, f"job {job.id} ({job.status}): an event is missing"
        return event

    def told(self, job: Job, name: str) -> str | None:
        """How the coming event keeps a text, for `cut`."""
        detail = self.seen(job).detail or {}
        value = detail.get(name)
        return value if isinstance(value, str) else None

    def _reason(self, job: Job, reason: str | None) -> str | None:
        return None if reason is None else cut(reason, 1000, self.told(job, "reason"))

    def _let_go(self, job: Job) -> None:
        job.worker = job.lease_expires_at = job.deadline_at = None

    def _finish(self, job: Job, status: str, event: str, **detail: Any) -> None:
        was, worker = job.status, job.worker
        job.status = status
        self._let_go(job)
        job.finished_at = self.seen(job).at
        self.record(job, event, was, worker, **detail)

    def _queue_again(self, job: Job, event: str, wanted: datetime | None, **detail: Any) -> None:
        """`wanted` is when the job shall be due; None or the past mean now."""
        was, worker, now = job.status, job.worker, self.seen(job).at
        job.status = "queued"
        self._let_go(job)
        job.finished_at = job.cancel_requested_at = None
        job.available_at = max(wanted or now, now)
        self.record(job, event, was, worker, available_at=job.available_at, **detail)
        self._wake(job.queue, job.available_at, now)

    def _wake(self, queue: str, available_at: datetime, now: datetime) -> None:
        if available_at <= now + WAKE_HORIZON:
            self.woken.add(queue)

    # -- producer --------------------------------------------------------------------------------

    def enqueue(self, job_id: int, created: bool, asked: Mapping[str, Any]) -> tuple[int, bool]:
        """`job_id` and `created` are the answer; None in `asked` means the default."""
        given = {name: value for name, value in asked.items() if value is not None}
        queue = given.get("queue", "default")
        key = given.get("idempotency_key")
        payload = given.get("payload", {})
        known = self.find_key(queue, key)
        if known is not None:
            if (known.kind, known.payload) != (given["kind"], payload):
                raise Refused("RL422")
            return known.id, False

        assert created, f"no job has key {key!r} of queue {queue}"
        assert job_id > self.last_id, f"job {job_id} is not new"
        event = self.tape.peek(job_id)
        assert event is not None, f"job {job_id}: event enqueued is missing"
        now = event.at
        wanted = given.get("available_at") or now + given.get("delay", timedelta(0))
        job = Job(
            id=job_id,
            queue=queue,
            kind=given["kind"],
            payload=payload,
            headers=given.get("headers", {}),
            priority=given.get("priority", 5),
            max_attempts=given.get("max_attempts", self.effective(queue, "max_attempts")),
            created_at=now,
            available_at=max(wanted, now),
            lease=given.get("lease"),
            timeout=given.get("timeout"),
            idempotency_key=key,
        )
        self.jobs[job_id] = job
        self.record(
            job,
            "enqueued",
            None,
            priority=job.priority,
            max_attempts=job.max_attempts,
            available_at=job.available_at if job.available_at > now else None,
            idempotency_key=key,
        )
        self._wake(queue, job.available_at, now)
        return job_id, True

    def enqueue_many(
        self, answer: Sequence[tuple[int, int, bool]] | None, asked: Sequence[Mapping[str, Any]]
    ) -> list[tuple[int, int, bool]]:
        """`answer` is None when the call failed; then only a reason to refuse it is right."""
        for index, one in enumerate(asked):
            key = one.get("idempotency_key")
            if key is None:
                continue
            queue = one.get("queue") or "default"
            same = [(job.kind, job.payload) for job in [self.find_key(queue, key)] if job]
            same += [
                (earlier["kind"], earlier.get("payload") or {})
                for earlier in asked[:index]
                if earlier.get("idempotency_key") == key
                and (earlier.get("queue") or "default") == queue
            ]
            if any(work != (one["kind"], one.get("payload") or {}) for work in same):
                raise Refused("RL422")

        assert answer is not None, "the batch is refused and nothing is wrong with it"
        assert [row[0] for row in answer] == list(range(1, len(asked) + 1))
        found = [
            (ordinal, *self.enqueue(job_id, created, one))
            for (ordinal, job_id, created), one in zip(answer, asked, strict=True)
        ]
        self.last_id = max([self.last_id, *(row[1] for row in found)])
        return found

    def find_key(self, queue: str, key: str | None) -> Job | None:
        for job in self.jobs.values():
            if key is not None and (job.queue, job.idempotency_key) == (queue, key):
                return job
        return None

    # -- worker ----------------------------------------------------------------------------------

    def claim(self, worker: str, queues: Sequence[str], max_jobs: int) -> list[Job]:
        """The jobs in the order in which they must be handed out; copies, as they then are."""
        # One instant holds for the whole call, and any event of it tells which.
        now = self.tape.events[0].at if self.tape.events else self.tape.before
        handed: list[Job] = []
        for queue in queues:
            if self.paused(queue, now):
                continue
            line = sorted(
                (
                    job
                    for job in self.jobs.values()
                    if job.queue == queue
                    and job.status == "queued"
                    and job.available_at <= now
                    and job.id not in self.locked
                ),
                key=Job.place_in_line,
            )
            for job in line[: max_jobs - len(handed)]:
                job.status = "running"
                job.attempt += 1
                job.fence += 1
                job.worker = worker
                job.started_at = now
                job.lease_expires_at, job.deadline_at = self._lease(job, now, claim=True)
                job.progress = job.progress_message = None
                self.record(job, "claimed", "queued", worker)
                handed.append(replace(job))
        return handed

    def _lease(
        self, job: Job, now: datetime, *, claim: bool = False
    ) -> tuple[datetime, datetime | None]:
        """Until when a claim is safe from the reaper, and the job's deadline."""
        expires = now + self.lease(job)
        deadline = job.deadline_at
        if claim:
            timeout = self.timeout(job)
            deadline = now + timeout if timeout is not None else None
        return (min(expires, deadline + GRACE) if deadline else expires), deadline

    def lease(self, job: Job) -> timedelta:
        lease: timedelta = job.lease or self.effective(job.queue, "lease")
        return lease

    def timeout(self, job: Job) -> timedelta | None:
        return job.timeout or self.policy(job.queue).timeout

    def holds(self, job_id: int, fence: int | None) -> bool:
        job = self.jobs.get(job_id)
        return job is not None and job.status == "running" and job.fence == fence

    def verdict(self, job_id: int, fence: int, answer: str) -> str:
        """held, stop or lost, as `renew` and `progress` tell it."""
        if not self.holds(job_id, fence):
            return "lost"
        job = self.jobs[job_id]
        overdue = self.tape.past(job.deadline_at, answer == "stop")
        return "stop" if job.cancel_requested_at or overdue else "held"

    def renew(
        self,
        claims: Sequence[tuple[int, int]],
        answer: Sequence[str],
        leases: Mapping[int, datetime | None],
    ) -> list[str]:
        """`leases` are the rows' lease_expires_at afterwards: they tell the call's instant."""
        instants = set()
        for job_id, fence in claims:
            if self.holds(job_id, fence) and job_id not in self.locked:
                job = self.jobs[job_id]
                expires = leases.get(job_id)
                assert expires is not None, f"job {job_id} has lost its lease"
                latest = job.deadline_at + GRACE if job.deadline_at else None
                if latest is None or expires < latest:
                    instants.add(expires - self.lease(job))
                else:
                    assert self.tape.after + self.lease(job) >= latest, "the lease is too long"
                    assert expires == latest
                job.lease_expires_at = expires
        assert len(instants) <= 1, f"one renewal at several instants: {instants}"
        for now in instants:
            assert self.tape.before <= now <= self.tape.after, f"renewed as of {now}"
        return [
            self.verdict(job_id, fence, told)
            for (job_id, fence), told in zip(claims, answer, strict=True)
        ]

    def progress(
        self, job_id: int, fence: int, percent: int | None, message: str | None, answer: str
    ) -> str:
        if job_id in self.locked:
            raise Refused("55P03")
        verdict = self.verdict(job_id, fence, answer)
        if verdict != "lost":
            job = self.jobs[job_id]
            if percent is not None:
                job.progress = percent
            if message is not None:
                job.progress_message = cut(message, 1000, self.told(job, "progress_message"))
            self.record(
                job,
                "progressed",
                "running",
                job.worker,
                progress=job.progress,
                progress_message=job.progress_message,
            )
        return verdict

    def settle(self, verb: str, job_id: int, fence: int | None, asked: Mapping[str, Any]) -> Answer:
        """complete, fail, snooze, release and accept_cancel: the holder's answer to its claim."""
        job = self.jobs.get(job_id)
        if job_id in self.locked:
            raise Refused("55P03")
        if job is None:
            raise Refused("RL404")
        if not self.holds(job_id, fence):
            if (job.settled_fence, job.settled_as) == (fence, verb):
                first = self.answers[job_id]
                return replace(first) if first else Answer(job_id, "", 0, datetime.min)
            raise Refused("RL409")

        getattr(self, "_" + verb)(job, dict(asked))
        job.settled_fence, job.settled_as = job.fence, verb
        answer = Answer(job.id, job.status, job.attempt, job.available_at)
        self.answers[job_id] = replace(answer)
        return answer

    def _complete(self, job: Job, asked: dict[str, Any]) -> None:
        if too_large(asked.get("result")):
            raise Refused("RL413")
        job.result = asked.get("result")
        job.error_type = job.error_message = job.error_group = None
        self._finish(job, "succeeded", "succeeded")

    def _fail(self, job: Job, asked: dict[str, Any]) -> None:
        retry_in = asked.get("retry_in")
        if retry_in is not None and not timedelta(0) <= retry_in <= timedelta(days=3652):
            raise Refused("RL400")
        self._retry_or_fail(
            job,
            "retry_scheduled",
            "failed",
            asked.get("error_type"),
            asked.get("message") or "",
            asked.get("detail"),
            retry_in,
            bool(asked.get("fatal")),
        )

    def _retry_or_fail(
        self,
        job: Job,
        queued: str,
        failed: str,
        error_type: str | None,
        message: str | None,
        detail: Any = None,
        retry_in: timedelta | None = None,
        fatal: bool = False,
    ) -> None:
        """The one decision, for failures and lost leases alike. Without a message, the reaper's."""
        event = self.seen(job)
        said = event.detail or {}
        seen_type, seen_message = self.told(job, "error_type"), self.told(job, "error_message")
        job.error_type = cut(error_type, 200, seen_type) or seen_type
        job.error_message = (
            cut(message, 16384, seen_message) if message is not None else seen_message
        )
        assert job.error_type, "a failure without an error"
        assert job.error_message is not None

        job.error_group = self.told(job, "error_group")
        assert job.error_group, "a failure without a fingerprint"
        alike = (job.kind, job.error_type, job.error_message)
        assert self._groups.setdefault(alike, job.error_group) == job.error_group

        error = {
            "error_type": job.error_type,
            "error_message": job.error_message,
            "error_group": job.error_group,
            "error_detail": detail,
        }
        if job.cancel_requested_at is not None:
            self._finish(job, "cancelled", "cancelled", **error)
        elif fatal or job.attempt >= job.max_attempts:
            self._finish(job, "failed", failed, **error)
        else:
            wait = retry_in if retry_in is not None else self._backoff(job, event, said)
            self._queue_again(job, queued, event.at + wait, **error)

    def _backoff(self, job: Job, event: Event, said: Mapping[str, Any]) -> timedelta:
        base = self.effective(job.queue, "backoff_base")
        cap = self.effective(job.queue, "backoff_cap")
        wait: timedelta = said["available_at"] - event.at
        plain = min(cap.total_seconds(), base.total_seconds() * 2.0 ** min(job.attempt - 1, 60))
        assert 0.75 * plain - 1e-5 <= wait.total_seconds() <= 1.25 * plain + 1e-5, (
            f"attempt {job.attempt} waits {wait}, its backoff is {plain} s"
        )
        alike = (job.id, job.attempt, base, cap)
        assert self._backoffs.setdefault(alike, wait) == wait, "the same attempt, another backoff"
        return wait

    def _snooze(self, job: Job, asked: dict[str, Any]) -> None:
        delay = asked.get("delay")
        if delay is None or not timedelta(0) <= delay <= timedelta(days=3652):
            raise Refused("RL400")
        self._give_back(job, "snoozed", delay, asked.get("reason"))

    def _release(self, job: Job, asked: dict[str, Any]) -> None:
        self._give_back(job, "released", timedelta(0), asked.get("reason"))

    def _give_back(self, job: Job, event: str, delay: timedelta, reason: str | None) -> None:
        reason = self._reason(job, reason)
        if job.cancel_requested_at is not None:
            self._finish(job, "cancelled", "cancelled", reason=reason)
        else:
            job.attempt -= 1
            self._queue_again(job, event, self.seen(job).at + delay, reason=reason)

    def _accept_cancel(self, job: Job, asked: dict[str, Any]) -> None:
        self._finish(job, "cancelled", "cancelled", reason=self._reason(job, asked.get("reason")))

    # -- operator --------------------------------------------------------------------------------

    def _job_for(self, job_id: int, *statuses: str) -> Job:
        if job_id in self.locked:
            raise Refused("55P03")
        job = self.jobs.get(job_id)
        if job is None:
            raise Refused("RL404")
        if job.status not in statuses:
            raise Refused("RL409")
        return job

    def retry(
        self, job_id: int, extra: int | None, delay: timedelta | None, reason: str | None
    ) -> Answer:
        job = self._job_for(job_id, "failed", "cancelled")
        extra = 1 if extra is None else extra
        if extra < 1 or job.max_attempts + extra > 100_000:
            raise Refused("RL400")
        job.max_attempts += extra
        self._queue_again(
            job,
            "retried",
            self.seen(job).at + (delay or timedelta(0)),
            max_attempts=job.max_attempts,
            reason=self._reason(job, reason),
        )
        return Answer(job.id, job.status, job.attempt, job.available_at)

    def cancel(self, job_id: int, reason: str | None) -> tuple[Answer, bool]:
        job = self._job_for(job_id, "queued", "running")
        if job.status == "queued":
            self._finish(job, "cancelled", "cancelled", reason=self._reason(job, reason))
        elif job.cancel_requested_at is None:
            said = self._reason(job, reason)
            job.cancel_requested_at = self.record(
                job, "cancel_requested", "running", job.worker, reason=said
            )
        answer = Answer(job.id, job.status, job.attempt, job.available_at)
        return answer, job.cancel_requested_at is not None

    def discard(self, job_id: int, reason: str | None) -> str:
        job = self._job_for(job_id, *FINISHED)
        was, reason = job.status, self._reason(job, reason)
        job.status = "gone"
        self.record(job, "discarded", was, reason=reason)
        del self.jobs[job_id]
        self.answers.pop(job_id, None)
        return was

    def run_now(self, job_id: int, reason: str | None) -> Answer:
        job = self._job_for(job_id, "queued")
        if not self.tape.past(job.available_at, self.tape.peek(job_id) is None):
            self._queue_again(job, "made_due", None, reason=self._reason(job, reason))
        return Answer(job.id, job.status, job.attempt, job.available_at)

    def reprioritize(self, job_id: int, priority: int, reason: str | None) -> Answer:
        job = self._job_for(job_id, "queued")
        if job.priority != priority:
            job.priority = priority
            self._queue_again(
                job,
                "reprioritized",
                job.available_at,
                priority=priority,
                reason=self._reason(job, reason),
            )
        return Answer(job.id, job.status, job.attempt, job.available_at)

    def bulk(
        self,
        action: str,
        filter: Mapping[str, str],
        dry_run: bool,
        given: Mapping[str, Any],
        reason: str | None,
        told: Iterable[int],
    ) -> list[tuple[int, str]]:
        """One action on each job that matches, in id order; `told` are the ids of the answer."""
        if "status" in filter and filter["status"] not in BULK_TAKES[action]:
            raise Refused("RL400")
        matched = [
            job.id
            for job in sorted(self.jobs.values(), key=lambda job: job.id)
            if all(getattr(job, name) == value for name, value in filter.items())
            and ("status" in filter or job.status in BULK_STATUSES[action])
            and not (action == "reprioritize" and job.priority == given["priority"])
            and not (action == "cancel" and job.worker and job.cancel_requested_at)
            and not (
                action == "run_now"
                and job.status == "queued"
                and self.tape.past(job.available_at, job.id not in told)
            )
        ]
        if dry_run:
            return [(job_id, "matched") for job_id in matched]
        delay, extra = given.get("delay"), given.get("extra_attempts", 1)
        acts: dict[str, Callable[[int], Any]] = {
            "retry": lambda job_id: self.retry(job_id, extra, delay, reason),
            "cancel": lambda job_id: self.cancel(job_id, reason),
            "run_now": lambda job_id: self.run_now(job_id, reason),
            "reprioritize": lambda job_id: self.reprioritize(job_id, given["priority"], reason),
            "discard": lambda job_id: self.discard(job_id, reason),
        }
        outcomes = []
        for job_id in matched:
            try:
                acts[action](job_id)
                outcomes.append((job_id, "changed"))
            except Refused:
                outcomes.append((job_id, "skipped"))
        if matched:
            self.act(f"bulk_{action}", filter.get("queue"), reason)
        return outcomes

    def pause(
        self, queue: str, reason: str | None, until: datetime | None, paused_at: datetime
    ) -> tuple[datetime, datetime | None, str, str | None]:
        assert self.tape.before <= paused_at <= self.tape.after
        policy = self.policies.setdefault(queue, Policy(queue))
        policy.paused_at, policy.paused_until = paused_at, until
        policy.paused_by, policy.pause_reason = self.actor or SESSION_USER, reason
        self.act("pause", queue, reason)
        return paused_at, until, policy.paused_by, reason

    def resume(self, queue: str, reason: str | None, answer: bool) -> bool:
        """Whether it was paused: a pause that had run out is cleared and not worth a record."""
        policy = self.policy(queue)
        was_paused = policy.paused_at is not None and (
            policy.paused_until is None or not self.tape.past(policy.paused_until, not answer)
        )
        policy.paused_at = policy.paused_until = policy.paused_by = policy.pause_reason = None
        if was_paused:
            self.act("resume", queue, reason)
            self.woken.add(queue)
        return was_paused

    def set_policy(
        self, queue: str, asked: Mapping[str, Any], unset: Iterable[str], reason: str | None
    ) -> Policy:
        policy = replace(self.policies.get(queue, Policy(queue)))
        for name in unset:
            setattr(policy, name, None)
        for name, value in asked.items():
            if value is not None:
                setattr(policy, name, value)
        if policy.backoff_base and policy.backoff_cap and policy.backoff_base > policy.backoff_cap:
            raise Refused("RL400")
        self.policies[queue] = policy
        if unset or any(value is not None for value in asked.values()):
            self.act("set_policy", queue, reason)
        return policy

    def set_settings(self, asked: Mapping[str, Any], reason: str | None) -> None:
        changed = replace(self.settings, **asked)
        if changed.backoff_base > changed.backoff_cap:
            raise Refused("RL400")
        self.settings = changed
        if asked:
            self.act("set_settings", None, reason)

    def act(self, action: str, queue: str | None, reason: str | None) -> None:
        self.audit.append(Action(action, queue, self.actor or SESSION_USER, reason))

    # -- scheduler -------------------------------------------------------------------------------

    def expired(self, now: datetime) -> list[Job]:
        """Claims that the reaper may take away at `now`."""
        return [
            job
            for job in self.jobs.values()
            if job.status == "running"
            and job.lease_expires_at is not None
            and job.lease_expires_at <= now
            and job.id not in self.locked
        ]

    def reap(self, most: int) -> dict[str, int]:
        """Takes away what the call took away: all claims that had expired, or `most` of them."""
        sure = {job.id for job in self.expired(self.tape.before)}
        may = {job.id for job in self.expired(self.tape.after)}
        taken = list(dict.fromkeys(event.job_id for event in self.tape.left()))
        assert set(taken) <= may, f"reaped before the lease ran out: {set(taken) - may}"
        assert len(taken) <= most
        assert sure <= set(taken) or len(taken) == most, f"not reaped: {sure - set(taken)}"

        counts = {"queued": 0, "failed": 0, "cancelled": 0}
        for job_id in taken:
            job = self.jobs[job_id]
            event = self.seen(job)
            name = (
                "timed_out" if job.deadline_at and job.deadline_at <= event.at else "lease_expired"
            )
            self._retry_or_fail(job, name, name, None, None)
            counts[job.status] += 1
        return counts

    def prunable(self, now: datetime) -> set[int]:
        """Finished jobs past their retention."""
        return {
            job.id
            for job in self.jobs.values()
            if job.finished_at is not None
            and job.finished_at
            <= now
            - self.effective(
                job.queue,
                "failed_retention" if job.status == "failed" else "finished_retention",
            )
            and job.id not in self.locked
        }

    def prune(self, left: Iterable[int], *, whole: bool) -> int:
        """Forgets what is gone from the table; `whole`: nothing past retention may be left."""
        gone = self.jobs.keys() - set(left)
        may = self.prunable(self.tape.after)
        assert gone <= may, f"pruned too early: {gone - may}"
        if whole:
            sure = self.prunable(self.tape.before)
            assert sure <= gone, f"not pruned: {sure - gone}"
        for job_id in gone:
            del self.jobs[job_id]
            self.answers.pop(job_id, None)
        return len(gone)

    def rotate(self, left: Iterable[int], last_day: datetime) -> None:
        """Forgets the events that are gone: whole days past retention, those of `last_day` kept."""
        gone = self.events.keys() - set(left)
        for event_id in gone:
            event = self.events.pop(event_id)
            assert event.at < self.tape.after - self.settings.events_retention, (
                f"event {event_id} of {event.at} went too early"
            )
            self.cut_short.add(event.job_id)
            if event.job_id in self.answers:
                self.answers[event.job_id] = None
        for event in self.events.values():
            if event.at < last_day:
                assert event.at >= self.tape.before - self.settings.events_retention, (
                    f"event {event.id} of {event.at} stayed"
                )

    # -- time ------------------------------------------------------------------------------------

    def age(self, job_ids: Iterable[int], by: timedelta) -> None:
        """As if these jobs had lived their whole lives `by` earlier, their events with them."""
        ids = set(job_ids)
        for job_id in ids:
            job = self.jobs[job_id]
            for name in INSTANTS:
                if (at := getattr(job, name)) is not None:
                    setattr(job, name, at - by)
            first = self.answers.get(job_id)
            if first:
                first.available_at -= by
        for event in self.events.values():
            if event.job_id in ids:
                detail = dict(event.detail) if event.detail else None
                if detail and "available_at" in detail:
                    detail["available_at"] -= by
                self.events[event.id] = replace(event, at=event.at - by, detail=detail)

    # -- observer --------------------------------------------------------------------------------

    def label(self, job: Job, now: datetime) -> str:
        if job.status != "queued":
            return "dead" if job.status == "failed" else job.status
        if job.available_at <= now:
            return "ready"
        return "scheduled" if job.error_type is None else "retrying"

    def next_due(self, queues: Iterable[str], now: datetime) -> timedelta | None:
        """How long until something may be claimable; None when nothing waits."""
        waits = []
        for queue in queues:
            policy = self.policy(queue)
            if self.paused(queue, now) and policy.paused_until is None:
                continue
            until = policy.paused_until if self.paused(queue, now) else None
            waits += [
                max(job.available_at, until or now, now) - now
                for job in self.jobs.values()
                if job.queue == queue and job.status == "queued"
            ]
        return min(waits, default=None)

    def finished(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.status in FINISHED]
