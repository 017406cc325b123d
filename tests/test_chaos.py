"""The books of a chaos run: each promise, when broken, is noticed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from chaos.books import Books
from chaos.faults import EVERY, schedule
from pyworker.client import Event, Job

T0 = datetime(2027, 1, 31, 12, tzinfo=UTC)
STALE = "refused: the claim was lost, complete changed nothing"
ROOT = Path(__file__).resolve().parents[1]


def event(number: int, name: str, was: str | None, to: str, **other: Any) -> Event:
    return Event(
        **{
            "id": number,
            "at": T0 + timedelta(seconds=number),
            "job_id": 1,
            "queue": "default",
            "kind": "chaos.sleep",
            "event": name,
            "from_status": was,
            "to_status": to,
            "attempt": 1,
            "fence": 1,
            "elapsed": None,
            "worker": "host-10-aaaaaaaa",
            "actor": "chaos",
            "detail": None,
            **other,
        }
    )


def sound() -> Books:
    """One job: its first worker is killed, its second completes it; the first comes too late."""
    error = {"error_type": "LeaseExpired", "error_message": "gone", "error_group": "0" * 16}
    second = {"attempt": 2, "fence": 2, "worker": "host-20-bbbbbbbb"}
    due = (T0 + timedelta(seconds=5)).isoformat()
    events = [
        event(1, "enqueued", None, "queued", attempt=0, fence=0, worker=None,
              detail={"priority": 5, "max_attempts": 3, "idempotency_key": "a-1"}),
        event(2, "claimed", "queued", "running"),
        event(4, "lease_expired", "running", "queued", detail={**error, "available_at": due}),
        event(6, "claimed", "queued", "running", **second),
        event(8, "succeeded", "running", "succeeded", **second),
    ]  # fmt: skip
    job = Job(
        id=1, queue="default", kind="chaos.sleep", payload={}, priority=5, status="succeeded",
        label="succeeded", attempt=2, max_attempts=3, fence=2, created_at=T0,
        available_at=T0 + timedelta(seconds=5), started_at=T0, worker=None,
        finished_at=T0 + timedelta(seconds=8),
        lease_expires_at=None, deadline_at=None, lease=None, timeout=None, cancel_requested_at=None,
        idempotency_key="a-1", progress=None, progress_message=None, result=None, error_type=None,
        error_message=None, error_group=None, headers={}, created_by="chaos",
    )  # fmt: skip
    first, last = {"job_id": 1, "fence": 1}, {"job_id": 1, "fence": 2}
    at = T0.timestamp()
    return Books(
        jobs={1: job},
        events=events,
        followed=list(events),
        clients=[
            {"what": "asked", "key": "a-1"},
            {"what": "unknown", "keys": ["a-1", "a-2"]},
            {"what": "asked", "key": "a-2"},
            {"what": "acknowledged", "key": "a-1", "job_id": 1},
        ],
        logs=[
            {"msg": "claimed", **first, "worker": "host-10-aaaaaaaa"},
            {"msg": "claimed", **last, "worker": "host-20-bbbbbbbb"},
            {"msg": "settled: complete", **last, "worker": "host-20-bbbbbbbb"},
            {"msg": f"{STALE} [2 more like it]", **first},
        ],
        runs=[
            {"what": "began", "at": at + 2, **first, "worker": "host-10-aaaaaaaa"},
            {"what": "began", "at": at + 6, **last, "worker": "host-20-bbbbbbbb"},
            {"what": "ended", "at": at + 7, **first, "worker": "host-10-aaaaaaaa"},
            {"what": "ended", "at": at + 7, **last, "worker": "host-20-bbbbbbbb"},
        ],
        faults=Counter({"crash the server": 1, "backends terminated": 1}),
        kills=[(at + 3, 10)],
        departures=[],
        outages=[],
        locks=[],
        stops=[],
        lease=3,
    )  # fmt: skip


def test_sound_books_are_sound() -> None:
    books = sound()
    assert books.check() == []
    assert books.missing(60) == ["coverage: not once in 60 s: an unknown outcome had happened"]
    assert books.counts["stale answers refused"] == 3
    assert books.counts["runs that overlapped"] == 1


def lose_the_job(books: Books) -> None:
    del books.jobs[1]


def make_up_a_job(books: Books) -> None:
    books.clients[0]["key"] = "another"


def leave_something_behind(books: Books) -> None:
    books.departures = [(T0.timestamp() + 3, 10)]


def run_into_a_constraint(books: Books) -> None:
    books.server_log.append('ERROR:  new row violates check constraint "running_is_leased"')


def leave_it_running(books: Books) -> None:
    books.jobs[1] = replace(books.jobs[1], status="running")


def use_too_many_attempts(books: Books) -> None:
    books.jobs[1] = replace(books.jobs[1], max_attempts=1)


def complete_twice(books: Books) -> None:
    books.history[1].append(replace(books.events[4], id=9, from_status="succeeded"))


def skip_a_fence(books: Books) -> None:
    books.history[1][3] = replace(books.history[1][3], fence=3)


def forget_the_finish(books: Books) -> None:
    books.jobs[1] = replace(books.jobs[1], finished_at=T0)


def hand_it_to_two(books: Books) -> None:
    books.logs[1]["fence"] = 1


def accept_a_late_answer(books: Books) -> None:
    books.logs[3] |= {"msg": "settled: complete"}


def accept_what_is_not_there(books: Books) -> None:
    del books.ends[1, 2]


def refuse_what_happened(books: Books) -> None:
    books.logs[3]["fence"] = 2


def overlap_without_a_lost_lease(books: Books) -> None:
    books.ends[1, 1] = replace(books.ends[1, 1], event="retry_scheduled")


def follow_one_twice(books: Books) -> None:
    books.followed.append(books.events[0])


def miss_one(books: Books) -> None:
    books.followed.pop()


def succeed_at_killing(books: Books) -> None:
    books.jobs[1] = replace(books.jobs[1], kind="chaos.kill", payload={"times": 99})


def abandon_for_long(books: Books) -> None:
    books.kills = [(T0.timestamp() - 20, 10)]
    books.claims[1, 1] = replace(books.claims[1, 1], at=T0 - timedelta(seconds=30))


@pytest.mark.parametrize(
    ("tamper", "rule"),
    [
        (lose_the_job, "I1"),
        (make_up_a_job, "I2"),
        (leave_it_running, "I3"),
        (use_too_many_attempts, "I8"),
        (complete_twice, "I5"),
        (skip_a_fence, "I7"),
        (forget_the_finish, "I7"),
        (hand_it_to_two, "I4"),
        (accept_a_late_answer, "I5"),
        (accept_what_is_not_there, "I5"),
        (refuse_what_happened, "I6"),
        (overlap_without_a_lost_lease, "I9"),
        (follow_one_twice, "follower"),
        (miss_one, "follower"),
        (succeed_at_killing, "poison"),
        (abandon_for_long, "I13"),
        (leave_something_behind, "shutdown"),
        (run_into_a_constraint, "I11"),
    ],
)
def test_a_broken_promise_is_noticed(tamper: Callable[[Books], None], rule: str) -> None:
    books = sound()
    tamper(books)
    assert {line.split(":")[0] for line in books.check()} >= {rule}


def test_time_in_which_nothing_could_work_is_excused() -> None:
    books = sound()
    abandon_for_long(books)
    books.outages = [(T0.timestamp() - 15, T0.timestamp())]
    assert not [line for line in books.check() if line.startswith("I13")]


def test_a_run_in_which_too_little_happened_proves_nothing() -> None:
    books = sound()
    books.faults["crash the server"] = 0
    books.check()
    assert "coverage: not once in 60 s: the server crashed" in books.missing(60)


def test_a_schedule_is_the_seeds_and_has_every_fault() -> None:
    assert schedule(7, 40) == schedule(7, 40) != schedule(8, 40)
    for seed in range(50):
        assert {fault.what for fault in schedule(seed, 40)} == set(EVERY)


@pytest.mark.timeout(240)
def test_a_short_run() -> None:
    """The whole of it, small: `make chaos` is the real one."""
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--seed", "5", "--seconds", "25", "--rate", "8"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["lost"] == told["violations"] == 0
    assert told["enqueued"] >= told["acknowledged"] > 0
