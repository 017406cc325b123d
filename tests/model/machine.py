"""Random calls of every function, on the database and on the model, compared after each step.

Whole rows and whole events are compared, not samples of them. Time passes by ageing: a job is moved
into the past with all its events, so leases run out, delays pass and retention comes, without
waiting. (Floors promise that nothing new appears below them, which ageing does: it resets them.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg.rows import class_row

from pyworker.client import Client, Connection, Event, Limits, NewJob, connect
from pyworker.errors import RowlockError
from tests.model import state
from tests.model.history import STANDING, instant, replay, violations
from tests.model.state import Action, Answer, Job, Model, Policy, Refused, Settings, Tape, clean

T = TypeVar("T")

SECOND = timedelta(seconds=1)
QUEUES = ("alpha", "beta", "default")
KINDS = ("email.send", "report")
NOBODY = 4_000_000_000
"""An id that no job has."""


class World:
    """The sessions: one for producers and operators, two workers, two idle ones, and more."""

    def __init__(self, url: str) -> None:
        limits = Limits(lock_timeout=timedelta(milliseconds=30))
        self._sessions = {
            name: connect(url, name, worker="model", limits=limits)
            for name in ("main", "worker-0", "worker-1", "idle-0", "idle-1", "late", "holder")
        }
        self.reader = psycopg.connect(url, autocommit=True)
        self.reader.execute("set timezone = 'UTC'")
        self.late, self.holder = self["late"], self["holder"]
        self.clients = {name: Client(conn) for name, conn in self._sessions.items()}
        for name in ("idle-0", "idle-1"):
            self.clients[name].listen()
        buckets = self.reader.execute(
            "select count(distinct queue._wake_bucket(name)) from unnest(%s::text[]) as name",
            [list(QUEUES)],
        ).fetchone()
        assert buckets == (len(QUEUES),), "choose queue names that share no wake lock"

    def __getitem__(self, name: str) -> Connection:
        return self._sessions[name]

    def close(self) -> None:
        for conn in self._sessions.values():
            conn.close()
        self.reader.close()

    def reset(self) -> None:
        """An empty queue, as after `rowlock migrate`."""
        self.late.rollback()
        self.holder.rollback()
        for name in ("idle-0", "idle-1"):
            self.clients[name].stand_down()
        for name in ("worker-0", "worker-1"):
            self[name].execute("select set_config('rowlock.floors', '', false)")
        self["main"].execute("select set_config('rowlock.actor', '', false)")
        self.reader.execute(
            """
            delete from queue.jobs;
            delete from queue.job_events;
            delete from queue.policies;
            delete from queue.audit;
            delete from queue.settings;
            insert into queue.settings default values;
            update queue.steps
            set due_at = clock_timestamp() + every, position = 0, failures = 0, error = null;
            update queue.steps set cursor = pg_current_snapshot()::text where step = 'roll_up';
            alter table queue.jobs alter id restart;
            """
        )
        for name in ("idle-0", "idle-1"):
            list(self[name].notifies(timeout=0))

    def now(self) -> datetime:
        row = self.reader.execute("select clock_timestamp()").fetchone()
        assert row is not None
        now: datetime = row[0]
        return now

    def jobs(self) -> dict[int, Job]:
        with self.reader.cursor(row_factory=class_row(Job)) as cursor:
            columns = ", ".join(state.COLUMNS)
            return {job.id: job for job in cursor.execute(f"select {columns} from queue.jobs")}

    def events(self, conn: psycopg.Connection[Any] | None = None) -> dict[int, Event]:
        with (conn or self.reader).cursor(row_factory=class_row(Event)) as cursor:
            columns = ", ".join(f.name for f in fields(Event))
            cursor.execute(f"select {columns} from queue.job_events")
            found = {event.id: event for event in cursor}
        for event in found.values():
            if event.detail and "available_at" in event.detail:
                event.detail["available_at"] = instant(event.detail["available_at"])
        return found

    def policies(self) -> dict[str, Policy]:
        with self.reader.cursor(row_factory=class_row(Policy)) as cursor:
            return {policy.queue: policy for policy in cursor.execute("table queue.policies")}

    def settings(self) -> Settings:
        names = ", ".join(Settings.__dataclass_fields__)
        with self.reader.cursor(row_factory=class_row(Settings)) as cursor:
            return cursor.execute(f"select {names} from queue.settings").fetchone() or Settings()

    def audit(self) -> list[Action]:
        with self.reader.cursor(row_factory=class_row(Action)) as cursor:
            return cursor.execute(
                "select action, queue, actor, reason from queue.audit order by id"
            ).fetchall()

    def last_day(self) -> datetime:
        """From here on events lie in days of their own, which retention drops whole."""
        row = self.reader.execute(
            "select min(ends_at) - interval '1 day' from queue._event_days()"
        ).fetchone()
        assert row is not None
        day: datetime = row[0]
        return day


# -- what is drawn -----------------------------------------------------------------------------

queues = st.sampled_from(QUEUES)
spans = st.sampled_from([0, 0, 1, 5, 20, 3600, 86400]).map(lambda n: timedelta(seconds=n))
leases = st.sampled_from([1, 5, 60, 86400]).map(lambda n: timedelta(seconds=n))
ages = st.sampled_from(
    [
        6 * SECOND,
        61 * SECOND,
        61 * SECOND,
        timedelta(hours=2),
        timedelta(days=8),
        timedelta(days=31),
    ]
)
keys = st.sampled_from(["one", "two", "three"])


class Poison(str):
    """A text whose repr does not drown a report."""

    def __repr__(self) -> str:
        return super().__repr__() if len(self) < 60 else f"{self[:3]!r} * {len(self)}"


# What programs print, and what it is to a database: NUL, half a surrogate pair, bytes over bounds.
POISON = [
    "", "plain", "a\0b", "\ud800", "\\u0000", "\\", '"', "\u202e", "\U0001f4a5" * 5000, "x" * 20000,
    "{{7*7}}", "</script>", "line\nline", "id 12345 at 0xdeadbeef",
]  # fmt: skip
reasons = st.sampled_from([None, "because", *(Poison(text) for text in POISON[2:9])])
texts = st.sampled_from([Poison(text) for text in POISON])
results = st.one_of(
    st.none(),
    st.sampled_from([Poison(text) for text in POISON[:9]]),
    st.sampled_from([{}, [], 0, True, {"a": None}, {"a\0": ["\ud800"]}, [[[[]]]]]),
    st.just(Poison("x" * 1_048_576)),
    st.floats(-1e6, 1e6),
    st.integers(),
)
# JSON that Python would not write, and what becomes of it.
RAW_RESULTS: list[tuple[str, Any]] = [
    (r'"\u0000"', "\ufffd"),
    (r'"\\u0000"', "\\u0000"),
    (r'"\\\u0000"', "\\\ufffd"),
    (r'"\ud83d\ude00"', "\U0001f600"),
    (r'"\ude00\ud83d"', "\ufffd\ufffd"),
    (r'{"\u0000": "\uD800"}', {"\ufffd": "\ufffd"}),
    ("1e400", "1e400"),  # what no client could read back is kept as text
    ('{"a": 1, "a": 2}', {"a": 2}),
]

# Among outcomes: none of them names a claim.
BAD_OUTCOMES = [
    "1", "{}", "null", '{"job_id": "x"}', '{"outcome": "complete"}',
    '{"job_id": 4000000001, "fence": 1}', '{"fence": 1, "outcome": "explode"}',
]  # fmt: skip

new_jobs = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS)},
    optional={
        "payload": st.sampled_from([{}, {"to": "a@b.example"}, [1], "text", None]),
        "queue": queues,
        "priority": st.sampled_from([0, 4, 5, 6, 9]),
        "delay": spans,
        "max_attempts": st.sampled_from([1, 1, 2, 3, 100_000]),
        "lease": leases,
        "timeout": leases,
        "idempotency_key": keys,
        "headers": st.sampled_from([{}, {"trace": "00-1"}]),
    },
)

targets = st.tuples(
    st.integers(0, 40),
    st.sampled_from(["held"] * 12 + ["settled"] * 4 + ["older"] * 2 + ["newer", "any", "gone"]),
)
"""Which claim is meant: one that is held, one already answered, a stale one, none at all."""

arguments = {
    "complete": st.fixed_dictionaries({}, optional={"result": results}),
    "fail": st.fixed_dictionaries(
        {},
        optional={
            "error_type": texts,
            "message": texts,
            "detail": st.sampled_from([None, {"traceback": "line\nline"}, {"a": {"b": None}}, []]),
            "retry_in": st.sampled_from([timedelta(0), SECOND, timedelta(days=4000), -SECOND]),
            "fatal": st.booleans(),
        },
    ),
    "snooze": st.fixed_dictionaries(
        {"delay": st.one_of(spans, st.just(timedelta(days=4000)), st.just(-SECOND))},
        optional={"reason": reasons},
    ),
    "release": st.fixed_dictionaries({}, optional={"reason": reasons}),
    "accept_cancel": st.fixed_dictionaries({}, optional={"reason": reasons}),
}
verbs = st.sampled_from(["complete"] * 2 + ["fail"] * 4 + ["snooze", "release", "accept_cancel"])
answers = verbs.flatmap(lambda verb: st.tuples(st.just(verb), arguments[verb]))


def scrub(value: Any) -> Any:
    """`value` as jsonb keeps it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [scrub(item) for item in value]
    if isinstance(value, dict):
        return {clean(name): scrub(item) for name, item in value.items()}
    return value


def scrubbed(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the model gets them: JSON is scrubbed here, texts where they are cut."""
    return {
        name: scrub(value) if name in ("result", "detail") else value
        for name, value in given.items()
    }


# A call that must be refused whatever the state, and how.
REFUSED: list[tuple[str, str, Callable[[Client], Any]]] = [
    ("kind", "RL400", lambda c: c.enqueue("Not A Kind")),
    ("queue", "RL400", lambda c: c.enqueue("a", queue="no queue")),
    ("priority", "RL400", lambda c: c.enqueue("a", priority=10)),
    ("attempts", "RL400", lambda c: c.enqueue("a", max_attempts=0)),
    ("lease", "RL400", lambda c: c.enqueue("a", lease=timedelta(milliseconds=999))),
    ("timeout", "RL400", lambda c: c.enqueue("a", timeout=timedelta(days=8))),
    ("delay", "RL400", lambda c: c.enqueue("a", delay=timedelta(days=3700))),
    ("key", "RL400", lambda c: c.enqueue("a", idempotency_key="k" * 256)),
    ("payload", "RL413", lambda c: c.enqueue("a", "x" * 1_048_576)),
    ("headers", "RL413", lambda c: c.enqueue("a", headers={"x": "x" * 16_384})),
    ("batch", "RL400", lambda c: c.enqueue_many([NewJob(kind="a"), {"kind": "a", "colour": 1}])),
    ("batch-size", "RL400", lambda c: c.enqueue_many([NewJob(kind="a")] * 1001)),
    ("worker", "RL400", lambda c: c.claim("")),
    ("worker-length", "RL400", lambda c: c.claim("w" * 129)),
    ("queues", "RL400", lambda c: c.claim("w", [])),
    ("many-queues", "RL400", lambda c: c.claim("w", ["a"] * 33)),
    ("max-jobs", "RL400", lambda c: c.claim("w", max_jobs=1001)),
    ("no-jobs", "RL400", lambda c: c.claim("w", max_jobs=0)),
    ("pairs", "RL400", lambda c: c.renew([1, 2], [1])),
    ("percent", "RL400", lambda c: c.progress(1, 1, 101)),
    ("policy", "RL400", lambda c: c.set_policy("alpha", lease=timedelta(0))),
    ("unset", "RL400", lambda c: c.set_policy("alpha", unset=["colour"])),
    ("setting", "RL400", lambda c: c.set_settings({"colour": 1})),
    ("setting-bounds", "RL400", lambda c: c.set_settings({"max_attempts": 0})),
    ("reap", "RL400", lambda c: c.reap(0)),
    ("prune", "RL400", lambda c: c.prune(0)),
    ("filter", "RL400", lambda c: c.list_jobs({"colour": 1})),
    ("status", "RL400", lambda c: c.list_jobs({"status": "dead"})),
    ("label", "RL400", lambda c: c.count_jobs({"label": "failed"})),
    ("event", "RL400", lambda c: c.list_events(filter={"event": "fialed"})),
    ("cursor", "RL400", lambda c: c.read_events("yesterday")),
    ("not-listening", "RL400", lambda c: c.stand_by(["alpha"])),
    ("no-pg_cron", "RL503", lambda c: c.install_cron()),
]


class Rowlock(RuleBasedStateMachine):
    """The rules. `world` is set before it runs; `coverage` counts what happened."""

    world: ClassVar[World]
    coverage: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.world.reset()
        self.model = Model()
        self.main_actor: str | None = None
        self.rows: dict[int, Job] = {}
        self.events: dict[int, Event] = {}
        self.handed: set[tuple[int, int]] = set()
        # Idle workers: which one holds a queue's wake lock, and whether a producer is in the way.
        self.holders: dict[str, str] = {}
        self.late_jobs: list[tuple[Job, Event]] = []
        self.late_shared: set[str] = set()
        self.late_wakes: set[str] = set()
        self.late_told: set[str] = set()
        self.expected_wakes: set[str] = set()
        # A follower of the events.
        self.cursor = self.client("main").read_events().next_cursor
        self.followed: set[int] = set()
        self.counted: set[int] = set()

    # -- the machinery ---------------------------------------------------------------------------

    def client(self, session: str) -> Client:
        return self.world.clients[session]

    def read(self) -> None:
        self.rows, self.events = self.world.jobs(), self.world.events()

    def run(self, call: Callable[[], T], *, actor: str | None = None) -> tuple[Any, Any]:
        """Makes a call; afterwards the tape holds what it wrote. The answer, or the error."""
        self.model.woken.clear()
        self.model.actor = actor
        answer, error = None, None
        before = self.world.now()
        try:
            answer = call()
        except RowlockError as exc:
            error = exc
        after = self.world.now()
        self.read()
        new = [event for id, event in sorted(self.events.items()) if id not in self.model.events]
        self.model.tape = Tape(before, after, new)
        return answer, error

    def judge(self, error: RowlockError | None, predict: Callable[[], T]) -> T | None:
        """What the model says; None when it says, like the database, that the call is refused."""
        try:
            wanted = predict()
        except Refused as exc:
            refused = exc
        else:
            if error is not None:
                raise AssertionError(f"refused with {error.sqlstate}: {error}") from error
            self.expected_wakes = {q for q in self.model.woken if q in self.holders}
            return wanted
        assert error is not None, f"accepted, and should be refused with {refused}"
        assert error.sqlstate in refused.sqlstates, f"{error.sqlstate} ({error}): {refused}"
        assert error.hint or error.sqlstate == "55P03", f"{error.sqlstate} has no hint"
        self.coverage[f"refused {error.sqlstate}"] += 1
        return None

    def target(self, which: int, how: str) -> tuple[int, int]:
        """A claim of the kind that is meant; where none is held yet, one is made first."""
        if how == "held" and not any(job.worker for job in self.model.jobs.values()):
            self._claim(which % 2, list(QUEUES), 1 + which % 3, "raised")
            self.agrees()
        jobs = sorted(self.model.jobs.values(), key=lambda job: job.id)
        if how == "gone" or not jobs:
            return NOBODY, 1
        kinds: dict[str, Callable[[Job], bool]] = {
            "held": lambda job: job.status == "running",
            "settled": lambda job: job.settled_fence is not None,
            "older": lambda job: job.fence > 1,
        }
        pool = [job for job in jobs if how not in kinds or kinds[how](job)] or jobs
        job = pool[which % len(pool)]
        if how == "settled":
            return job.id, job.settled_fence or job.fence
        return job.id, job.fence + {"older": -1, "newer": 1}.get(how, 0)

    @invariant()
    def agrees(self) -> None:
        """Rows and events are the model's, and the events alone tell the same."""
        left = self.model.tape.left()
        assert not left, f"nobody asked for {left}"
        same(self.rows, self.model.jobs)
        same(self.events, self.model.events)
        same(self.world.policies(), self.model.policies)
        assert self.world.settings() == self.model.settings
        assert self.world.audit() == self.model.audit

        histories: dict[int, list[Event]] = {id: [] for id in self.rows}
        for _, event in sorted(self.events.items()):
            histories.setdefault(event.job_id, []).append(event)
        for job_id, history in histories.items():
            if job_id in self.model.cut_short:
                continue
            assert violations(history) == []
            if job_id in self.rows:
                row = self.rows[job_id]
                told = {name: getattr(replay(history), name) for name in STANDING}
                assert told == {name: getattr(row, name) for name in STANDING}
        for event in self.model.tape.events:
            self.coverage[f"{event.event} -> {event.to_status}"] += 1

        self.hears()

    def hears(self) -> None:
        """Idle workers are told of what became claimable; nobody is told while nobody is idle."""
        expected, self.expected_wakes = self.expected_wakes, set()
        needless, self.late_told = {"", *self.late_told}, set()
        for name in ("idle-0", "idle-1"):
            heard: set[str] = set()
            waiting = expected
            if waiting:
                for note in self.world[name].notifies(timeout=2):
                    heard.add(note.payload)
                    if waiting <= heard:
                        break
                assert waiting <= heard, f"{name} was told of {heard}, not of {waiting}"
                self.coverage["woken"] += 1
            heard |= {note.payload for note in self.world[name].notifies(timeout=0)}
            assert self.holders or heard <= needless, f"{heard} told, and nobody is idle"

    # -- producer --------------------------------------------------------------------------------

    @initialize(jobs=st.lists(new_jobs, min_size=3, max_size=8), floor=st.booleans())
    def start(self, jobs: list[dict[str, Any]], floor: bool) -> None:
        if not floor:
            self.set_settings({"claim_floor": False}, None)
        self.enqueue_many(jobs)

    @rule(asked=new_jobs, past=st.sampled_from([None, None, SECOND, timedelta(days=400)]))
    def enqueue(self, asked: dict[str, Any], past: timedelta | None) -> None:
        if past is not None and "delay" not in asked:
            asked = {**asked, "available_at": self.world.now() - past}
        answer, error = self.run(
            lambda: self.client("main").enqueue(**asked), actor=self.main_actor
        )
        wanted = self.judge(
            error,
            lambda: self.model.enqueue(
                answer.job_id if answer else 0, answer is not None and answer.created, asked
            ),
        )
        if wanted is not None:
            assert (answer.job_id, answer.created) == wanted
            self.model.last_id = max(self.model.last_id, answer.job_id)

    @rule(asked=st.lists(new_jobs, max_size=6))
    def enqueue_many(self, asked: list[dict[str, Any]]) -> None:
        answer, error = self.run(
            lambda: self.client("main").enqueue_many(asked), actor=self.main_actor
        )
        told = None if answer is None else [(a.ordinal, a.job_id, a.created) for a in answer]
        wanted = self.judge(error, lambda: self.model.enqueue_many(told, asked))
        if wanted is not None:
            assert told == wanted

    @rule(case=st.sampled_from(REFUSED))
    def nonsense(self, case: tuple[str, str, Callable[[Client], Any]]) -> None:
        _, sqlstate, call = case
        _, error = self.run(lambda: call(self.client("main")), actor=self.main_actor)

        def predict() -> None:
            raise Refused(sqlstate)

        self.judge(error, predict)

    @rule(asked=new_jobs, watched=st.booleans())
    def enqueue_late(self, asked: dict[str, Any], watched: bool) -> None:
        """A producer whose transaction stays open: nobody sees its job until it commits."""
        asked = {name: value for name, value in asked.items() if name != "idempotency_key"}
        late, model = self.world.late, self.model
        if late.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            late.execute("begin")
        answer, error = self.run(lambda: self.client("late").enqueue(**asked))
        mine = self.world.events(late)
        new = [mine[id] for id in mine.keys() - self.events.keys()]
        tape = model.tape
        model.tape = replace(tape, events=[e for e in new if e.job_id == answer.job_id])
        self.judge(error, lambda: model.enqueue(answer.job_id, answer.created, asked))
        self.expected_wakes = set()
        model.last_id = max(model.last_id, answer.job_id)
        (event,) = model.tape.events
        self.late_jobs.append((model.jobs.pop(answer.job_id), model.events.pop(event.id)))
        for queue in model.woken:
            (self.late_wakes if queue in self.holders else self.late_shared).add(queue)
        model.tape = tape
        if watched:
            self.agrees()
            self.follow(1000)

    @rule(commit=st.sampled_from([True, True, False]), watched=st.booleans())
    def end_late(self, commit: bool, watched: bool) -> None:
        self.run(self.world.late.commit if commit else self.world.late.rollback)
        if commit:
            for job, event in self.late_jobs:
                self.model.jobs[job.id] = job
                self.model.events[event.id] = event
                self.coverage["late commit"] += 1
            self.expected_wakes = self.late_wakes & self.holders.keys()
            # Who was idle at the enqueue may have stood down since: told all the same.
            self.late_told = set(self.late_wakes)
        self.model.tape.events = []
        self.late_jobs, self.late_shared, self.late_wakes = [], set(), set()
        if watched:
            self.agrees()
            self.follow(1000)

    # -- worker ----------------------------------------------------------------------------------

    def _claim(self, session: int, named: list[str], most: int, floors: str) -> None:
        conn = self.world[f"worker-{session}"]
        if floors != "as they are":
            # What 250 ms, or a minute, would do to this session's floors.
            conn.execute(
                "select set_config('rowlock.floors', (current_setting('rowlock.floors')::jsonb"
                " || %s)::text, false) where current_setting('rowlock.floors', true) <> ''",
                [json.dumps({"next": 0, "recheck": 0} if floors == "sought" else {"next": 0})],
            )
        answer, error = self.run(
            lambda: self.client(f"worker-{session}").claim(f"worker-{session}", named, most)
        )
        wanted = self.judge(error, lambda: self.model.claim(f"worker-{session}", named, most))
        assert wanted is not None
        assert [claim.job_id for claim in answer] == [job.id for job in wanted], "claim order"
        for claim, job in zip(answer, wanted, strict=True):
            assert (claim.job_id, claim.fence) not in self.handed, "one token, two workers"
            self.handed.add((claim.job_id, claim.fence))
            assert asdict(claim) == {
                "job_id": job.id,
                "lease": self.model.lease(job),
                "timeout": self.model.timeout(job),
                "payload_error": None,
                **{
                    name: getattr(job, name)
                    for name in ("fence", "queue", "kind", "payload", "attempt", "max_attempts")
                },
                **{name: getattr(job, name) for name in ("headers", "created_at", "available_at")},
            }
        self.coverage["claims of several queues"] += len({job.queue for job in wanted}) > 1

    floors = st.sampled_from(["raised", "raised", "sought", "as they are"])

    @rule(
        session=st.integers(0, 1),
        named=st.lists(queues, min_size=1, max_size=3),
        most=st.sampled_from([1, 2, 5]),
        floors=floors,
    )
    def claim(self, session: int, named: list[str], most: int, floors: str) -> None:
        self._claim(session, named, most, floors)

    @rule(session=st.integers(0, 1), most=st.sampled_from([1, 3, 1000]), floors=floors)
    def claim_any(self, session: int, most: int, floors: str) -> None:
        self._claim(session, list(QUEUES), most, floors)

    @rule(session=st.integers(0, 1), meant=st.lists(targets, max_size=5))
    def renew(self, session: int, meant: list[tuple[int, str]]) -> None:
        claims = [self.target(*one) for one in meant]
        answer, error = self.run(
            lambda: self.client(f"worker-{session}").renew(
                [claim[0] for claim in claims], [claim[1] for claim in claims]
            )
        )
        assert error is None, error
        told = {(row.job_id, row.fence): row.verdict for row in answer}
        assert len(answer) == len(claims)
        leases = {id: row.lease_expires_at for id, row in self.rows.items()}
        wanted = self.model.renew(claims, [told[claim] for claim in claims], leases)
        assert [told[claim] for claim in claims] == wanted
        for verdict in wanted:
            self.coverage[f"renew {verdict}"] += 1

    @rule(
        meant=targets,
        percent=st.sampled_from([None, 0, 50, 100]),
        message=st.one_of(st.none(), texts),
    )
    def progress(self, meant: tuple[int, str], percent: int | None, message: str | None) -> None:
        job_id, fence = self.target(*meant)
        answer, error = self.run(
            lambda: self.client("worker-0").progress(job_id, fence, percent, message)
        )
        wanted = self.judge(
            error, lambda: self.model.progress(job_id, fence, percent, message, answer)
        )
        if wanted is not None:
            assert answer == wanted
            self.coverage[f"progress {wanted}"] += 1

    @rule(meant=targets, said=answers, again=st.booleans())
    def settle_one(self, meant: tuple[int, str], said: tuple[str, Any], again: bool) -> None:
        verb, given = said
        job_id, fence = self.target(*meant)
        if meant[1] == "settled" and job_id in self.model.jobs and meant[0] % 3:
            # A question asked again after an unknown outcome, mostly by the same verb.
            verb = self.model.jobs[job_id].settled_as or verb
            given = {"delay": SECOND} if verb == "snooze" else {}
        if verb == "fail":
            given = {"error_type": None, **given}
        self._settle_one(verb, job_id, fence, given)
        if again:
            # The answer was lost on its way: the other session asks for it.
            self.agrees()
            self._settle_one(verb, job_id, fence, given, session="worker-1")

    def _settle_one(
        self, verb: str, job_id: int, fence: int, given: Any, session: str = "worker-0"
    ) -> None:
        was_settled = self._settled(job_id, fence, verb)
        answer, error = self.run(
            lambda: getattr(self.client(session), verb)(job_id, fence, **given)
        )
        wanted = self.judge(error, lambda: self.model.settle(verb, job_id, fence, scrubbed(given)))
        if wanted is not None and wanted.status:
            assert Answer(**asdict(answer)) == wanted
        if wanted is not None and was_settled:
            self.coverage["first answer repeated"] += 1

    def _settled(self, job_id: int, fence: int, verb: str) -> bool:
        job = self.model.jobs.get(job_id)
        return job is not None and (job.settled_fence, job.settled_as) == (fence, verb)

    @rule(
        batch=st.lists(
            st.tuples(
                targets,
                answers,
                st.one_of(st.none(), st.none(), st.sampled_from(RAW_RESULTS)),
            ),
            min_size=1,
            max_size=6,
        ),
        bad=st.sampled_from([None, None, *BAD_OUTCOMES]),
    )
    def settle_many(self, batch: list[Any], bad: str | None) -> None:
        """Outcomes of mixed kind in one call: none spoils another, whatever it is."""
        asked: list[tuple[str, int, int, dict[str, Any]]] = []
        sent: list[str] = []
        for meant, (verb, given), raw in batch:
            job_id, fence = self.target(*meant)
            sending = {
                name: f"{value.total_seconds()} seconds" if isinstance(value, timedelta) else value
                for name, value in given.items()
            }
            head = json.dumps({"job_id": job_id, "fence": fence, "outcome": verb, **sending})
            given = scrubbed(given)
            if verb == "complete" and raw is not None:
                head = head[:-1] + f', "result": {raw[0]}}}'
                given = {**given, "result": raw[1]}
            asked.append((verb, job_id, fence, given))
            sent.append(head)
        if bad is not None:
            sent.insert(len(sent) // 2, bad)

        def call() -> list[Any]:
            # Raw, since the client would clean the texts first.
            return (
                self.world["worker-0"]
                .execute("select * from queue.settle(%s::json)", [f"[{','.join(sent)}]"])
                .fetchall()
            )

        answer, error = self.run(call)
        assert error is None, error
        verdicts = Counter((row[0], row[1], row[2]) for row in answer)
        assert all(row[3] for row in answer if row[2] == "refused"), "refused without a reason"
        claims = dict.fromkeys((one[1], one[2]) for one in asked)
        strange = [row for row in answer if row[:2] not in claims]
        assert len(strange) == (bad is not None)
        for row in strange:
            assert row[2] in ("lost", "refused")
            verdicts[row[:3]] -= 1

        wanted: Counter[tuple[int, int, str]] = Counter()
        answered_twice = {
            job_id for job_id, count in Counter(c[0] for c in claims).items() if count > 1
        }
        for job_id, fence in sorted(claims, key=lambda claim: self.model.holds(*claim)):
            mine = [(one[0], one[3]) for one in asked if one[1:3] == (job_id, fence)]
            refused = verdicts[job_id, fence, "refused"]
            answers = Counter(self._settle_claim(job_id, fence, mine, refused))
            if job_id in answered_twice and not self._now_settled(job_id, fence):
                # An answer given again may come before or after the next claim's first one.
                late = verdicts[job_id, fence, "lost"] - answers["lost"]
                late = min(max(late, 0), answers["accepted"])
                answers += Counter(lost=late)
                answers -= Counter(accepted=late)
            for answered, count in answers.items():
                wanted[job_id, fence, answered] += count
        assert +verdicts == wanted, f"{verdicts - wanted} instead of {wanted - verdicts}: {answer}"
        for _, _, verdict in wanted:
            self.coverage[f"settle {verdict}"] += 1
        self.expected_wakes = {q for q in self.model.woken if q in self.holders}

    def _settle_claim(
        self, job_id: int, fence: int, said: list[tuple[str, Any]], refused: int
    ) -> list[str]:
        """The verdicts for one claim. Which of several answers came first is not laid down, and
        `refused` is how many that may be refused, or be lost to the first, were refused."""
        job = self.model.jobs.get(job_id)
        if job_id in self.model.locked:
            if self.model.holds(job_id, fence):
                return ["busy"] * len(said)
            return ["accepted" if self._settled(job_id, fence, v) else "lost" for v, _ in said]

        row = self.rows.get(job_id)
        if job is not None and row is not None and self.model.holds(job_id, fence):
            tries = [
                (verb, given)
                for verb, given in said
                if (row.settled_fence, row.settled_as) == (fence, verb)
                and not self._nonsense(verb, given)
            ]
            if row.settled_as == "complete":
                tries.sort(key=lambda one: one[1].get("result") != row.result)
            for verb, given in tries[:1]:
                self.model.settle(verb, job_id, fence, given)

            answers = []
            for verb, given in said:
                # Before the claim was settled, nonsense was refused; after, it came too late.
                if self._nonsense(verb, given) and (refused > 0 or not tries):
                    refused -= 1
                    answers.append("refused")
                else:
                    assert tries, f"{verb} {given} was not accepted"
                    answers.append("accepted" if verb == tries[0][0] else "lost")
            return answers

        verdicts = []
        for verb, given in said:
            try:
                self.model.settle(verb, job_id, fence, given)
                verdicts.append("accepted")
            except Refused:
                verdicts.append("lost")
        return verdicts

    def _now_settled(self, job_id: int, fence: int) -> bool:
        row = self.rows.get(job_id)
        return row is not None and row.settled_fence == fence

    @staticmethod
    def _nonsense(verb: str, given: dict[str, Any]) -> bool:
        if verb == "complete" and state.too_large(given.get("result")):
            return True
        span = given.get("retry_in" if verb == "fail" else "delay")
        return span is not None and not timedelta(0) <= span <= timedelta(days=3652)

    @rule(session=st.integers(0, 1), named=st.lists(queues, min_size=1, max_size=3, unique=True))
    def next_due(self, session: int, named: list[str]) -> None:
        answer, error = self.run(lambda: self.client(f"worker-{session}").next_due(named))
        assert error is None, error
        latest = self.model.next_due(named, self.model.tape.before)
        soonest = self.model.next_due(named, self.model.tape.after)
        if answer is None or latest is None or soonest is None:
            assert answer is None
            assert latest is None or soonest is None
        else:
            assert soonest <= answer <= latest

    @rule(
        who=st.sampled_from(["idle-0", "idle-1"]), named=st.lists(queues, min_size=1, unique=True)
    )
    def stand_by(self, who: str, named: list[str]) -> None:
        answer, error = self.run(lambda: self.client(who).stand_by(named))
        assert error is None, error
        wanted = "covered"
        for queue in named:
            if queue in self.late_shared:
                wanted = "uncovered"
            elif queue not in self.holders:
                self.holders[queue] = who
        assert answer == wanted
        self.coverage[answer] += 1

    @rule(who=st.sampled_from(["idle-0", "idle-1"]))
    def stand_down(self, who: str) -> None:
        answer, error = self.run(lambda: self.client(who).stand_down())
        assert error is None, error
        assert answer == sum(holder == who for holder in self.holders.values())
        self.holders = {queue: holder for queue, holder in self.holders.items() if holder != who}
        if answer:
            self.expected_wakes = {""}

    # -- operator --------------------------------------------------------------------------------

    jobs = st.tuples(st.integers(0, 40), st.sampled_from(["any"] * 7 + ["held"] * 3 + ["gone"]))
    ended = st.tuples(
        st.integers(0, 40), st.sampled_from(["failed", "failed", "cancelled", "any", "gone"])
    )

    def _job(self, which: int, how: str) -> int:
        if how in ("failed", "cancelled", "queued"):
            pool = sorted(job.id for job in self.model.jobs.values() if job.status == how)
            if pool:
                return pool[which % len(pool)]
        return self.target(which, how)[0]

    def _operate(self, call: Callable[[Client], Any], predict: Callable[[], Any]) -> None:
        answer, error = self.run(lambda: call(self.client("main")), actor=self.main_actor)
        wanted = self.judge(error, predict)
        if wanted is not None:
            assert Answer(answer.id, answer.status, answer.attempt, answer.available_at) == wanted

    @rule(
        meant=ended,
        extra=st.sampled_from([1, 1, 3, 0, 100_000]),
        delay=st.one_of(st.none(), spans),
        reason=reasons,
    )
    def retry(self, meant: Any, extra: int, delay: Any, reason: str | None) -> None:
        job_id = self._job(*meant)
        self._operate(
            lambda client: client.retry(job_id, extra, delay, reason),
            lambda: self.model.retry(job_id, extra, delay, reason),
        )

    @rule(meant=jobs, reason=reasons)
    def cancel(self, meant: Any, reason: str | None) -> None:
        job_id = self._job(*meant)
        answer, error = self.run(
            lambda: self.client("main").cancel(job_id, reason), actor=self.main_actor
        )
        wanted = self.judge(error, lambda: self.model.cancel(job_id, reason))
        if wanted is not None:
            assert asdict(answer) == {**asdict(wanted[0]), "cancel_requested": wanted[1]}

    @rule(meant=ended, reason=reasons)
    def discard(self, meant: Any, reason: str | None) -> None:
        job_id = self._job(*meant)
        answer, error = self.run(
            lambda: self.client("main").discard(job_id, reason), actor=self.main_actor
        )
        wanted = self.judge(error, lambda: self.model.discard(job_id, reason))
        if wanted is not None:
            assert answer == wanted

    @rule(
        action=st.sampled_from(list(state.BULK_STATUSES)),
        filter=st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from(["queued", "running", "failed", "cancelled"]),
                "queue": queues,
                "kind": st.sampled_from(KINDS),
            },
        ),
        dry_run=st.booleans(),
        delay=st.sampled_from([None, SECOND, timedelta(hours=1)]),
        priority=st.sampled_from([0, 5, 9]),
        reason=st.sampled_from([None, "because"]),
    )
    def bulk(
        self,
        action: str,
        filter: dict[str, str],
        dry_run: bool,
        delay: timedelta | None,
        priority: int,
        reason: str | None,
    ) -> None:
        given: dict[str, Any] = {}
        if action == "retry":
            given = {"extra_attempts": 2} if delay is None else {"delay": delay}
        elif action == "reprioritize":
            given = {"priority": priority}
        sent = {n: f"{v.seconds} s" if isinstance(v, timedelta) else v for n, v in given.items()}
        answer, error = self.run(
            lambda: self.client("main").bulk(action, filter, dry_run, 1000, sent, reason),
            actor=self.main_actor,
        )
        told = [(row.job_id, row.outcome) for row in answer.rows] if answer else []
        ids = [job_id for job_id, _ in told]
        wanted = self.judge(
            error, lambda: self.model.bulk(action, filter, dry_run, given, reason, ids)
        )
        if wanted is None:
            return
        assert answer.next_cursor is None
        assert told == wanted
        assert all(row.note for row in answer.rows if row.outcome == "skipped")
        self.expected_wakes = {q for q in self.model.woken if q in self.holders}
        for _, outcome in told:
            self.coverage[f"bulk {outcome}"] += 1

    waiting = st.tuples(st.integers(0, 40), st.sampled_from(["queued", "queued", "any", "gone"]))

    @rule(meant=waiting, reason=reasons)
    def run_now(self, meant: Any, reason: str | None) -> None:
        job_id = self._job(*meant)
        self._operate(
            lambda client: client.run_now(job_id, reason),
            lambda: self.model.run_now(job_id, reason),
        )

    @rule(meant=waiting, priority=st.sampled_from([0, 5, 9]), reason=reasons)
    def reprioritize(self, meant: Any, priority: int, reason: str | None) -> None:
        job_id = self._job(*meant)
        self._operate(
            lambda client: client.reprioritize(job_id, priority, reason),
            lambda: self.model.reprioritize(job_id, priority, reason),
        )

    @rule(queue=queues, reason=st.sampled_from([None, "because"]), wait=st.one_of(st.none(), spans))
    def pause(self, queue: str, reason: str | None, wait: timedelta | None) -> None:
        until = None if wait is None else self.world.now() + wait
        answer, error = self.run(
            lambda: self.client("main").pause(queue, reason, until), actor=self.main_actor
        )

        def predict() -> tuple[Any, ...]:
            if until is not None and self.model.tape.past(until, error is not None):
                raise Refused("RL400")
            return self.model.pause(queue, reason, until, answer.paused_at)

        wanted = self.judge(error, predict)
        if wanted is not None:
            assert tuple(asdict(answer).values()) == wanted

    @rule(queue=queues, reason=st.sampled_from([None, "because"]))
    def resume(self, queue: str, reason: str | None) -> None:
        answer, error = self.run(
            lambda: self.client("main").resume(queue, reason), actor=self.main_actor
        )
        assert answer is self.judge(error, lambda: self.model.resume(queue, reason, answer))

    @rule(
        queue=queues,
        asked=st.fixed_dictionaries(
            {},
            optional={
                "lease": leases,
                "timeout": leases,
                "max_attempts": st.sampled_from([1, 2]),
                "backoff_base": st.sampled_from([timedelta(milliseconds=1), 2 * SECOND]),
                "backoff_cap": st.sampled_from([SECOND, timedelta(days=30)]),
                "finished_retention": st.sampled_from([60 * SECOND, timedelta(days=40)]),
                "failed_retention": st.sampled_from([60 * SECOND, timedelta(days=40)]),
            },
        ),
        unset=st.lists(st.sampled_from(state.POLICY_NAMES), max_size=3),
    )
    def set_policy(self, queue: str, asked: dict[str, Any], unset: list[str]) -> None:
        answer, error = self.run(
            lambda: self.client("main").set_policy(queue, **asked, unset=unset, reason="because"),
            actor=self.main_actor,
        )
        wanted = self.judge(error, lambda: self.model.set_policy(queue, asked, unset, "because"))
        if wanted is None:
            return
        assert {row.name for row in answer if row.value is not None} == {
            name for name in state.POLICY_NAMES if getattr(wanted, name) is not None
        }

    @rule(
        asked=st.fixed_dictionaries(
            {},
            optional={
                "lease": leases,
                "max_attempts": st.sampled_from([1, 5]),
                "backoff_base": st.sampled_from([SECOND, timedelta(hours=3)]),
                "backoff_cap": st.sampled_from([timedelta(hours=1), timedelta(hours=2)]),
                "finished_retention": st.sampled_from([60 * SECOND, timedelta(days=7)]),
                "claim_floor": st.booleans(),
            },
        ),
        reason=st.sampled_from([None, "because"]),
    )
    def set_settings(self, asked: dict[str, Any], reason: str | None) -> None:
        _, error = self.run(
            lambda: self.client("main").set_settings(asked, reason), actor=self.main_actor
        )
        self.judge(error, lambda: self.model.set_settings(asked, reason))

    @rule(name=st.sampled_from([None, "ann", "bob"]))
    def act_as(self, name: str | None) -> None:
        """The dashboard says for whom it acts."""
        self.world["main"].execute("select set_config('rowlock.actor', %s, false)", [name or ""])
        self.main_actor = name
        self.model.tape = Tape(datetime.min, datetime.max)

    # -- scheduler -------------------------------------------------------------------------------

    def _maintained(self, *, reaped: int = 0, pruned: bool | None = False) -> dict[str, int]:
        """Accounts for what upkeep did. pruned: False no, None perhaps in part, True wholly."""
        counts = self.model.reap(reaped)
        if pruned is False:
            assert self.model.jobs.keys() == self.rows.keys()
        else:
            self.model.prune(self.rows, whole=bool(pruned))
        self.expected_wakes = {q for q in self.model.woken if q in self.holders}
        return counts

    @rule(most=st.sampled_from([1, 2, 1000]))
    def reap(self, most: int) -> None:
        answer, error = self.run(lambda: self.client("main").reap(most), actor=self.main_actor)
        assert error is None, error
        counts = self._maintained(reaped=most)
        assert asdict(answer) == {
            "requeued": counts["queued"],
            "failed": counts["failed"],
            "cancelled": counts["cancelled"],
            "set_aside": 0,
        }

    @rule(most=st.sampled_from([1, 2, 1000]))
    def prune(self, most: int) -> None:
        answer, error = self.run(lambda: self.client("main").prune(most), actor=self.main_actor)
        assert error is None, error
        before = len(self.model.jobs)
        self._maintained(pruned=None)
        assert answer.deleted == before - len(self.model.jobs) <= most

    @rule()
    def prune_wholly(self) -> None:
        """Called for as long as it says there is more, from wherever the walk had stopped."""

        def call() -> None:
            for _ in range(2):
                while self.client("main").prune().more:
                    pass

        _, error = self.run(call, actor=self.main_actor)
        assert error is None, error
        before = len(self.model.jobs)
        self._maintained(pruned=True)
        self.coverage["pruned"] += before - len(self.model.jobs)

    @rule()
    def rotate_events(self) -> None:
        answer, error = self.run(lambda: self.client("main").rotate_events())
        assert error is None, error
        assert answer.note is None, answer.note
        self._rotated()

    def _rotated(self) -> None:
        self.coverage["events past retention"] += len(self.model.events.keys() - self.events.keys())
        self.model.rotate(self.events, self.world.last_day())

    def _steps_due(self, now: datetime) -> set[str]:
        return {
            name
            for (name,) in self.world.reader.execute(
                "select step from queue.steps where due_at <= %s", [now]
            )
        }

    @rule(session=st.sampled_from(["main", "worker-1"]))
    def tick(self, session: str) -> None:
        due = self._steps_due(self.world.now())
        answer, error = self.run(
            self.client(session).tick, actor=self.main_actor if session == "main" else None
        )
        assert error is None, error
        assert answer.step in due | ({None} if not due else set())
        counts = self._maintained(reaped=1000 if answer.step == "reap" else 0, pruned=None)
        if answer.step == "reap":
            assert answer.processed == sum(counts.values())
        if answer.step == "roll_up":
            assert answer.processed == self._count()
        if self.model.events.keys() - self.events.keys():
            self._rotated()
        self.coverage[f"tick {answer.step}"] += 1

    def _count(self) -> int:
        """How many events are counted for the first time now."""
        new = self.model.events.keys() - self.counted
        self.counted |= new
        return len(new)

    @rule()
    def roll_up(self) -> None:
        """Every event is counted exactly once, however late it committed."""
        answer, error = self.run(lambda: self.client("main").roll_up())
        assert error is None, error
        assert (answer.counted, answer.more) == (self._count(), False)
        self.coverage["counted"] += answer.counted

    @rule()
    def tick_loop(self) -> None:
        """All that is due, a step a transaction."""
        due = self._steps_due(self.world.now())
        _, error = self.run(lambda: self.world["main"].execute("call queue.tick_loop(1)"),
                            actor=self.main_actor)  # fmt: skip
        assert error is None, error
        assert self._steps_due(self.model.tape.before) == set()
        if "roll_up" in due:
            # Whether what the reaper wrote is counted yet depends on the order.
            self.world.clients["main"].roll_up()
        self._maintained(reaped=1000 if "reap" in due else 0, pruned=None)
        if "roll_up" in due:
            self._count()
        if self.model.events.keys() - self.events.keys():
            self._rotated()

    # -- time, locks, transactions ---------------------------------------------------------------

    @rule(
        by=ages,
        whom=st.sampled_from(["all", "running", "finished", "queued"]),
        which=st.integers(0, 40),
        then=st.sampled_from(["nothing", "reap", "prune"]),
    )
    def age(self, by: timedelta, whom: str, which: int, then: str) -> None:
        """Time passes for all jobs, or for one in some status; perhaps somebody notices."""
        if whom == "running":
            self.target(which, "held")
        elif whom == "finished" and which % 2:
            job_id, fence = self.target(which, "held")
            self._settle_one("fail", job_id, fence, {"error_type": "Aged", "fatal": True})
            self.agrees()
        ids = sorted(job.id for job in self.model.jobs.values())
        if whom != "all":
            ids = [
                id
                for id in ids
                if self.model.jobs[id].status == whom
                or (whom == "finished" and self.model.jobs[id].finished_at)
            ]
            ids = [ids[which % len(ids)]] if ids else []
        self.unlock()
        shifted = ", ".join(f"{name} = {name} - %(by)s" for name in state.INSTANTS)
        self.world.reader.execute(
            f"update queue.jobs set {shifted} where id = any (%(ids)s)", {"by": by, "ids": ids}
        )
        self.world.reader.execute(
            """
            update queue.job_events
            set at = at - %(by)s,
                detail = case when detail ? 'available_at'
                  then detail || jsonb_build_object(
                    'available_at', (detail ->> 'available_at')::timestamptz - %(by)s
                  )
                  else detail end
            where job_id = any (%(ids)s)
            """,
            {"by": by, "ids": ids},
        )
        for session in ("worker-0", "worker-1"):
            self.world[session].execute("select set_config('rowlock.floors', '', false)")
        self.model.age(ids, by)
        self._nothing_called()
        if then != "nothing":
            self.agrees()
            self.reap(1000) if then == "reap" else self.prune_wholly()

    @rule(queue=queues, by=ages)
    def age_pause(self, queue: str, by: timedelta) -> None:
        self.world.reader.execute(
            "update queue.policies set paused_at = paused_at - %(by)s,"
            " paused_until = paused_until - %(by)s where queue = %(queue)s",
            {"by": by, "queue": queue},
        )
        policy = self.model.policy(queue)
        if policy.paused_at is not None:
            policy.paused_at -= by
            policy.paused_until = policy.paused_until and policy.paused_until - by
        self._nothing_called()

    @rule(step=st.sampled_from(["reap", "prune", "rotate_events", "roll_up"]))
    def age_step(self, step: str) -> None:
        self.world.reader.execute(
            "update queue.steps set due_at = clock_timestamp() where step = %s", [step]
        )
        self._nothing_called()

    def _nothing_called(self) -> None:
        self.read()
        self.model.tape = Tape(datetime.min, datetime.max)

    @rule(meant=jobs)
    def lock(self, meant: Any) -> None:
        """A session of the user's holds a job's row: who never waits passes it by."""
        job_id = self._job(*meant)
        if job_id in self.model.jobs:
            if self.world.holder.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                self.world.holder.execute("begin")
            self.world.holder.execute(
                "select from queue.jobs where id = %s for no key update", [job_id]
            )
            self.model.locked.add(job_id)
        self._nothing_called()

    @rule()
    def unlock(self) -> None:
        self.world.holder.rollback()
        self.model.locked.clear()
        self._nothing_called()

    @rule(asked=st.lists(new_jobs, max_size=3), said=answers, meant=targets)
    def undone(self, asked: list[dict[str, Any]], said: Any, meant: Any) -> None:
        """What a caller's transaction did, and took back."""
        verb, given = said
        job_id, fence = self.target(*meant)
        client, conn = self.client("worker-1"), self.world["worker-1"]
        if verb == "fail":
            given = {"error_type": None, **given}

        def call() -> None:
            for attempt in (
                lambda: client.enqueue_many(asked),
                lambda: client.claim("undone", list(QUEUES), 3),
                lambda: getattr(client, verb)(job_id, fence, **given),
                lambda: client.reap(),
            ):
                try:
                    with conn.transaction():
                        attempt()
                except RowlockError:
                    pass

        def undo() -> None:
            with conn.transaction(force_rollback=True):
                call()

        self.run(undo)
        assert self.model.tape.events == []

    # -- observer --------------------------------------------------------------------------------

    @rule(meant=jobs)
    def get_job(self, meant: Any) -> None:
        job_id = self._job(*meant)
        answer, error = self.run(lambda: self.client("main").get_job(job_id))
        if job_id not in self.model.jobs:
            assert error.sqlstate == "RL404"
            return
        job, told = self.model.jobs[job_id], asdict(answer)
        label = told.pop("label")
        assert label in {self.model.label(job, at) for at in self._bounds()}
        assert told == {name: getattr(job, name) for name in told}

    def _bounds(self) -> tuple[datetime, datetime]:
        return self.model.tape.before, self.model.tape.after

    @rule(
        filter=st.fixed_dictionaries(
            {},
            optional={
                "status": st.sampled_from(["queued", "running", "failed", "succeeded"]),
                "queue": queues,
                "kind": st.sampled_from(KINDS),
                "worker": st.just("worker-0"),
                "label": st.sampled_from(["ready", "scheduled", "retrying", "dead", "running"]),
                "idempotency_key": keys,
            },
        ),
        most=st.sampled_from([1, 3, 200]),
    )
    def list_jobs(self, filter: dict[str, str], most: int) -> None:
        def call() -> list[Any]:
            rows, cursor = [], None
            while True:
                page = self.client("main").list_jobs(filter, cursor, most)
                rows += page.rows
                cursor = page.next_cursor
                if cursor is None:
                    return rows

        answer, error = self.run(call)
        assert error is None, error
        before, after = self._bounds()
        labels = {id: self.model.label(job, before) for id, job in self.model.jobs.items()}
        if any(labels[id] != self.model.label(job, after) for id, job in self.model.jobs.items()):
            return
        dead = "failed" in filter.values() or "dead" in filter.values()
        wanted = [
            job
            for job in self.model.jobs.values()
            if all(
                value == (labels[job.id] if name == "label" else getattr(job, name))
                for name, value in filter.items()
            )
        ]
        if {"queued", "ready", "scheduled", "retrying"} & set(filter.values()):
            wanted.sort(key=lambda job: (job.queue, *job.place_in_line()))
        else:
            wanted.sort(key=lambda job: (job.finished_at if dead else job.id, job.id), reverse=True)
        assert [row.id for row in answer] == [job.id for job in wanted]
        for row, job in zip(answer, wanted, strict=True):
            told = asdict(row)
            assert told.pop("label") == labels[job.id]
            told["error_message"] = job.error_message and told["error_message"]
            message = job.error_message and job.error_message[:500]
            assert told == {
                name: message if name == "error_message" else getattr(job, name) for name in told
            }

    @rule(meant=jobs, most=st.sampled_from([2, 1000]))
    def list_events(self, meant: Any, most: int) -> None:
        job_id = self._job(*meant)
        answer, error = self.run(lambda: self.client("main").list_events(job_id, max_events=most))
        assert error is None, error
        wanted = [id for id, event in sorted(self.model.events.items()) if event.job_id == job_id]
        assert [event.id for event in answer.rows] == wanted[:most]
        full = len(wanted) >= most
        assert answer.next_cursor == (str(wanted[most - 1]) if full else None)

    @rule(most=st.sampled_from([1, 5, 1000]))
    def follow(self, most: int) -> None:
        """Every event exactly once, late commits included."""

        def call() -> list[Event]:
            found: list[Event] = []
            while True:
                page = self.client("main").read_events(self.cursor, most)
                self.cursor = page.next_cursor
                if not page.rows:
                    return found
                found += page.rows

        answer, error = self.run(call)
        assert error is None, error
        ids = [event.id for event in answer]
        assert len(set(ids)) == len(ids), "an event came twice"
        assert not self.followed & set(ids), "an event came again"
        assert set(ids) == self.model.events.keys() - self.followed
        self.followed |= set(ids)
        self.coverage["followed"] += len(ids)

    @rule()
    def look(self) -> None:
        """Queues, totals, workers and health in one go."""

        def call() -> Any:
            client = self.client("main")
            return (
                client.list_queues(), client.stats(), client.list_workers(), client.health(),
                client.list_events(max_events=1000).rows, client.uninstall_cron(),
            )  # fmt: skip

        answer, error = self.run(call)
        assert error is None, error
        seen_queues, stats, workers, checks, events, uninstalled = answer
        before, after = self._bounds()
        labels = {id: self.model.label(job, before) for id, job in self.model.jobs.items()}
        if any(labels[id] != self.model.label(job, after) for id, job in self.model.jobs.items()):
            return

        def count(label: str, queue: str | None = None) -> int:
            return sum(
                labels[job.id] == label and queue in (None, job.queue)
                for job in self.model.jobs.values()
            )

        for row in seen_queues:
            assert (row.ready, row.scheduled, row.retrying, row.running, row.failed) == tuple(
                count(label, row.queue)
                for label in ("ready", "scheduled", "retrying", "running", "dead")
            )
        totals = {row.name: int(row.value) for row in stats if row.priority is None}
        for name, label in (("ready", "ready"), ("running", "running"), ("failed", "dead")):
            assert totals.get(name, 0) == count(label)
        held = Counter(job.worker for job in self.model.jobs.values() if job.worker)
        assert {w.worker: w.running for w in workers if w.running} == dict(held)
        assert all(check.status in ("ok", "warn", "fail") for check in checks)
        assert [event.id for event in events] == sorted(self.model.events, reverse=True)[:1000]
        assert uninstalled == 0


def same(found: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    """The same rows, or an error that shows only what differs."""
    if found == wanted:
        return
    lines = []
    for key in sorted(found.keys() | wanted.keys()):
        if key not in wanted:
            lines.append(f"{key}: unexpected {found[key]}")
        elif key not in found:
            lines.append(f"{key}: missing {wanted[key]}")
        elif found[key] != wanted[key]:
            one, other = asdict(found[key]), asdict(wanted[key])
            lines += [
                f"{key}: {name} is {short(one[name])}, should be {short(other[name])}"
                for name in one
                if one[name] != other[name]
            ]
    raise AssertionError("\n".join(lines))


def short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else text[:300] + "..."
