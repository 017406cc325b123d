"""read_events from real sessions: every event exactly once, in whatever order transactions commit.

The random interleavings are driven from one thread, so that a seed is a script.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster import Cluster, Database
from tests.support.interleave import Change, Mutant, Session, Stage, expect, stage_on

Q = "q"
SEED = int(os.environ.get("ROWLOCK_TEST_SEED", "0"))


class Follower:
    """Somebody who keeps a cursor and counts the events that come."""

    def __init__(self, session: Session, cursor: str | None = "start") -> None:
        self.session = session
        self.seen: Counter[int] = Counter()
        self.cursor: str = cursor or self.read(None)[1]

    def read(self, cursor: str | None, max_events: int = 1000) -> tuple[list[int], str]:
        rows = self.session.run(
            "select id, next_cursor from queue.read_events(%s, %s)", cursor, max_events
        )
        expect(len({row[1] for row in rows}) == 1, "a page with two cursors")
        return [row[0] for row in rows if row[0] is not None], str(rows[0][1])

    def step(self, max_events: int = 1000) -> int:
        """One page."""
        found, self.cursor = self.read(self.cursor, max_events)
        expect(len(found) <= max_events, "a page too large")
        self.seen.update(found)
        return len(found)

    def drain(self, max_events: int = 1000) -> None:
        for _ in range(5000):
            if not self.step(max_events):
                return
        expect(False, "the pages never end")

    def has_all_once(self) -> None:
        kept = [row[0] for row in self.session.run("select id from queue.job_events")]
        twice = [event for event, times in self.seen.items() if times > 1]
        expect(not twice, f"came twice: {twice[:5]}")
        missing = set(kept) - set(self.seen)
        expect(not missing, f"never came: {sorted(missing)[:5]} of {len(kept)}")
        expect(set(self.seen) <= set(kept), "an event came that was rolled back")


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        yield stage


# -- scripts ---------------------------------------------------------------------------------------


def late_commit(stage: Stage) -> None:
    """What was written first commits last."""
    early, late = stage.session(), stage.session()
    follower = Follower(stage.session())
    early.begin()
    early.enqueue(Q)
    late.enqueue(Q)
    follower.drain()
    expect(len(follower.seen) == 1, "a follower waits for an open transaction")
    late.enqueue(Q)
    early.enqueue(Q)
    early.commit()
    late.enqueue(Q)
    follower.drain()
    follower.has_all_once()


def open_for_ever(stage: Stage) -> None:
    """A writer that stays open: page after page others' events come at once."""
    writer, producer = stage.session(), stage.session()
    follower = Follower(stage.session())
    writer.begin()
    writer.enqueue(Q)
    for number in range(1, 21):
        producer.enqueue(Q)
        follower.step()
        expect(len(follower.seen) == number, "a follower stands still")
    writer.commit()
    follower.drain()
    follower.has_all_once()


def rolled_back(stage: Stage) -> None:
    """What was rolled back never was, whole transaction or savepoint; what stays, comes."""
    writer = stage.session()
    follower = Follower(stage.session())
    writer.begin()
    writer.enqueue(Q)
    writer.run("savepoint here")
    writer.enqueue(Q)
    writer.run("rollback to savepoint here")
    writer.enqueue(Q)
    follower.drain()
    writer.commit()
    follower.drain()
    writer.begin()
    writer.enqueue(Q)
    follower.drain()
    writer.rollback()
    stage.admin.enqueue(Q)
    follower.drain()
    expect(len(follower.seen) == 3, "a savepoint that was rolled back counts")
    follower.has_all_once()


def in_its_own_transaction(stage: Stage) -> None:
    """A follower that reads, writes and keeps its cursor in one transaction gets its own events,
    once, with a later page, and those of the others with this one."""
    follower = Follower(stage.session())
    for _ in range(3):
        stage.admin.enqueue(Q)
        before = set(follower.seen)
        follower.session.begin()
        own = [follower.session.enqueue(Q)]
        stage.admin.enqueue(Q)
        follower.step()
        own.append(follower.session.enqueue(Q))
        follower.step()
        read = follower.session.run(
            "select job_id from queue.job_events where id = any (%s)",
            list(set(follower.seen) - before),
        )
        expect(not {row[0] for row in read} & set(own), "one's own open transaction was read")
        stage.admin.enqueue(Q)
        follower.session.commit()
    follower.drain()
    expect(len(follower.seen) == 15, "one's own events never come")
    follower.has_all_once()


def a_page_behind(stage: Stage) -> None:
    """A transaction under repeatable reads looks at a time before the cursor's: it must neither
    give what it cannot see as read nor bring the cursor back."""
    old, writer = stage.session(), stage.session()
    follower = Follower(stage.session())
    writer.begin()
    writer.enqueue(Q)
    stage.admin.enqueue(Q)
    old.begin("repeatable read")
    old.run("select count(*) from queue.job_events")
    writer.commit()
    follower.step()
    expect(len(follower.seen) == 2, "two events are there")
    now, follower.session = follower.session, old
    expect(follower.step() == 0, "an older snapshot gave something new")
    follower.session = now
    old.commit()
    stage.admin.enqueue(Q)
    follower.drain()
    follower.has_all_once()


def a_window_seen_from_before(stage: Stage) -> None:
    """The same in the midst of a window that a later snapshot ends."""
    old = stage.session()
    follower = Follower(stage.session())
    for _ in range(2):
        stage.admin.enqueue(Q)
    old.begin("repeatable read")
    old.run("select count(*) from queue.job_events")
    for _ in range(3):
        stage.admin.enqueue(Q)
    follower.step(1)
    now, follower.session = follower.session, old
    follower.step(10)
    follower.session = now
    old.commit()
    follower.drain()
    follower.has_all_once()


def huge_transaction(stage: Stage) -> None:
    """One transaction larger than many pages, while others commit between the pages."""
    huge, producer = stage.session(), stage.session()
    follower = Follower(stage.session())
    huge.begin()
    for _ in range(5):
        huge.run(
            "select queue.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k')) "
            "from generate_series(1, 200)))"
        )
    follower.drain(7)
    huge.commit()
    for _ in range(5):
        follower.step(97)
        producer.enqueue(Q)
    expect(len(follower.seen) == 5 * 97, "a page in the midst that is not full")
    follower.drain(97)
    expect(len(follower.seen) == 1005, "the pages are not all there is")
    follower.has_all_once()


SCRIPTS: list[Callable[[Stage], None]] = [
    late_commit,
    open_for_ever,
    rolled_back,
    in_its_own_transaction,
    a_page_behind,
    a_window_seen_from_before,
    huge_transaction,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.__name__))
def test_every_event_comes_once(stage: Stage, script: Callable[[Stage], None]) -> None:
    script(stage)


def test_a_prepared_transaction_is_open_until_it_commits(stage: Stage) -> None:
    if stage.admin.one("show max_prepared_transactions") == "0":
        pytest.skip("this server has max_prepared_transactions = 0")
    writer = stage.session()
    follower = Follower(stage.session())
    try:
        writer.begin()
        writer.enqueue(Q)
        writer.run("prepare transaction 'rowlock events'")
        for _ in range(3):
            stage.admin.enqueue(Q)
            follower.step(1)
        assert len(follower.seen) == 3
        writer.run("commit prepared 'rowlock events'")
        follower.drain()
        assert len(follower.seen) == 4
        follower.has_all_once()
    finally:
        end_prepared(stage)


def test_two_followers_do_not_disturb_each_other(stage: Stage) -> None:
    first, second = Follower(stage.session()), Follower(stage.session())
    for number in range(10):
        stage.admin.enqueue(Q)
        if number % 3 == 0:
            first.step(2)
    first.drain(2)
    second.drain(3)
    assert first.seen == second.seen
    first.has_all_once()


def test_from_now_on_is_what_comes_next(stage: Stage) -> None:
    writer = stage.session()
    stage.admin.enqueue(Q)
    writer.begin()
    writer.enqueue(Q)
    follower = Follower(stage.session(), None)
    follower.drain()
    assert not follower.seen
    writer.commit()
    stage.admin.enqueue(Q)
    follower.drain()
    assert len(follower.seen) == 2


def test_a_cursor_outlives_the_retention_of_what_it_points_at(stage: Stage) -> None:
    follower = Follower(stage.session())
    stage.admin.enqueue(Q)
    stage.admin.enqueue(Q)
    follower.step(1)
    stage.admin.run("truncate queue.job_events")
    (last,) = stage.admin.claim(Q)
    follower.drain()
    assert len(follower.seen) == 2
    assert stage.admin.run("select id, job_id from queue.job_events") == [(3, last)]


# -- at random -------------------------------------------------------------------------------------


class Writer:
    """A session that does one thing at a time, by chance."""

    def __init__(self, session: Session, name: str, prepares: bool) -> None:
        self.session = session
        self.name = name
        self.prepares = prepares
        self.is_open = False
        self.prepared: list[str] = []
        self.count = 0

    def act(self, dice: random.Random) -> None:
        if self.prepared and dice.random() < 0.15:
            end = dice.choice(["commit", "rollback"])
            self.session.run(
                f"{end} prepared '{self.prepared.pop()}'"
            ) if not self.is_open else None
        elif not self.is_open:
            if dice.random() < 0.5:
                self.session.enqueue(Q)
            else:
                self.session.begin()
                self.is_open = True
                if dice.random() < 0.5:
                    # Its transaction id is older than what it will write.
                    self.session.run("select pg_current_xact_id()")
        else:
            chance = dice.random()
            if chance < 0.5:
                self.session.enqueue(Q)
            elif chance < 0.6:
                self.session.run("savepoint s")
                self.session.enqueue(Q)
                self.session.run(dice.choice(["rollback to savepoint s", "release savepoint s"]))
            elif chance < 0.7 and self.prepares:
                self.count += 1
                name = f"rowlock {self.name} {self.count}"
                self.session.run(f"prepare transaction '{name}'")
                self.prepared.append(name)
                self.is_open = False
            elif chance < 0.9:
                self.session.commit()
                self.is_open = False
            else:
                self.session.rollback()
                self.is_open = False

    def end(self) -> None:
        if self.is_open:
            self.session.commit()
            self.is_open = False
        while self.prepared:
            self.session.run(f"commit prepared '{self.prepared.pop()}'")


def end_prepared(stage: Stage) -> None:
    """A transaction that stays prepared would keep its database for ever."""
    for (name,) in stage.admin.run(
        "select gid from pg_prepared_xacts where database = current_database()"
    ):
        stage.admin.run(f"rollback prepared '{name}'")


def at_random(stage: Stage, seed: int, steps: int = 250) -> None:
    try:
        _at_random(stage, seed, steps)
    finally:
        end_prepared(stage)


def _at_random(stage: Stage, seed: int, steps: int) -> None:
    """Five writers, one of them slow, and a follower that turns pages of any size at any time,
    now and then in a transaction of its own or from an older snapshot."""
    dice = random.Random(seed)
    prepares = stage.admin.one("show max_prepared_transactions") != "0"
    writers = [Writer(stage.session(), f"{seed} {number}", prepares) for number in range(5)]
    follower = Follower(stage.session())
    own, old = follower.session, stage.session()
    slow = stage.session()
    slow.begin()
    slow.enqueue(Q)
    old_is_open = False
    for _ in range(steps):
        chance = dice.random()
        if chance < 0.75:
            dice.choice(writers).act(dice)
        elif chance < 0.78:
            slow.commit()
            slow.begin()
            slow.enqueue(Q)
        elif chance < 0.82:
            if old_is_open:
                old.commit()
            else:
                old.begin("repeatable read")
                old.run("select count(*) from queue.job_events")
            old_is_open = not old_is_open
        elif chance < 0.86 and old_is_open:
            follower.session = old
            follower.step(dice.choice([1, 3, 50]))
            follower.session = own
        elif chance < 0.9:
            own.begin()
            own.enqueue(Q)
            follower.step(dice.choice([1, 3, 50]))
            own.commit()
        else:
            follower.step(dice.choice([1, 2, 5, 50]))
    slow.commit()
    for writer in writers:
        writer.end()
    if old_is_open:
        old.commit()
    follower.drain(dice.choice([1, 7, 100]))
    follower.has_all_once()


@pytest.mark.parametrize("seed", range(SEED, SEED + 6))
def test_at_random_every_event_comes_once(stage: Stage, seed: int) -> None:
    at_random(stage, seed)


# -- a standby -------------------------------------------------------------------------------------


def test_a_standby_is_refused(own_cluster: Cluster) -> None:
    """A snapshot of a standby does not name what is open on the primary: following it would lose
    events."""
    database = own_cluster.create()
    with database.connect() as conn:
        conn.execute("select queue.enqueue('k')")
    server = own_cluster.server
    assert server is not None
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    deadline = time.monotonic() + 10
    with database.connect() as conn:
        while conn.execute("select pg_is_in_recovery()").fetchone() != (True,):
            assert time.monotonic() < deadline
        for call in ("read_events()", "tick()", "reap()", "prune()", "rotate_events()"):
            with pytest.raises(Exception, match=r".") as caught:
                conn.execute(f"select * from queue.{call}")
            assert getattr(caught.value, "sqlstate", None) == "RL503", call
        assert conn.execute("select count(*) from queue.list_jobs()").fetchone() == (1,)
        assert conn.execute("select count(*) from queue.list_events()").fetchone() == (1,)
        conn.execute("select pg_promote(true, 30)")


# -- wrong variants --------------------------------------------------------------------------------


def several_seeds(stage: Stage) -> None:
    for seed in range(3):
        at_random(stage, seed, 120)
        stage.admin.run("truncate queue.job_events")


MUTANTS = [
    Mutant(
        "what was open at the cursor is new",
        (Change("read_events", "where late.xid = any (v_open)", "where false"),),
        late_commit,
    ),
    Mutant(
        "what is open now is not skipped",
        (
            Change(
                "read_events",
                "later.xid >= greatest(pg_snapshot_xmax(v_old), v_xid)",
                "later.xid >= greatest(pg_snapshot_xmin(v_old), v_xid)",
            ),
        ),
        open_for_ever,
    ),
    Mutant(
        "one's own transaction counts as open",
        (Change("_snapshot", "own.xid is null then", "own.xid is not null or true then"),),
        in_its_own_transaction,
    ),
    Mutant(
        "an older snapshot brings no cursor back",
        (Change("read_events", "pg_snapshot_xmax(v_now) < pg_snapshot_xmax(v_last)", "false"),),
        a_window_seen_from_before,
    ),
    Mutant(
        "an older snapshot of the same end brings no cursor back",
        (Change("read_events", "where pg_visible_in_snapshot(open.xid, v_last)", "where false"),),
        a_page_behind,
    ),
    Mutant(
        "within a transaction a page goes on by id",
        (
            Change(
                "read_events",
                "and (later.xid, later.id) > (v_xid, v_id)",
                "and later.xid > v_xid",
            ),
        ),
        huge_transaction,
    ),
    Mutant(
        "a window ends where its first page saw it end",
        (
            Change(
                "read_events",
                "v_parts[3]::pg_snapshot, v_now);\n    v_xid",
                "v_now, v_now);\n    v_xid",
            ),
        ),
        several_seeds,
    ),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.id))
def test_a_wrong_variant_is_caught(cluster: Cluster, mutant: Mutant) -> None:
    database = cluster.create()
    try:
        mutant.assert_caught(database)
    finally:
        cluster.drop(database)
