"""The database does what the model says, whatever is called in whatever order."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import RAW_RESULTS, REFUSED, SECOND, Rowlock, World
from tests.model.mutants import MUTANTS, Mutant
from tests.support.cluster import Database

SECONDS = float(os.environ.get("ROWLOCK_MODEL_SECONDS", "40"))
"""How long to go on; a night is ROWLOCK_MODEL_SECONDS=28800. ROWLOCK_MODEL_SEED replays, and
ROWLOCK_MODEL_SHRINK=1 then takes minutes to find fewer steps that fail."""

PHASES = [Phase.generate, *([Phase.shrink] if "ROWLOCK_MODEL_SHRINK" in os.environ else [])]

MUTANT_SECONDS = 120.0
"""How long a mutant may live; most live for two."""

TOO_LARGE = "x" * 1_048_576
HOUR = 3600 * SECOND
EVERYTHING = [
    ((0, "held"), ("complete", {}), RAW_RESULTS[0]),
    ((1, "held"), ("fail", {"message": "a\0b"}), None),
    ((0, "older"), ("release", {}), None),
    ((0, "gone"), ("accept_cancel", {}), None),
    ((2, "held"), ("snooze", {"delay": timedelta(days=4000)}), None),
]

HOW = {"delay": None, "priority": 7, "reason": "because"}

TOUR: list[tuple[str, dict[str, Any]]] = [
    ("start", {"jobs": [{"kind": "report", "max_attempts": n} for n in (5, 5, 1)], "floor": True}),
    ("enqueue", {"asked": {"kind": "report", "idempotency_key": "one"}, "past": None}),
    ("enqueue", {"asked": {"kind": "report", "idempotency_key": "one"}, "past": None}),
    ("enqueue", {"asked": {"kind": "email.send", "idempotency_key": "one"}, "past": None}),
    ("stand_by", {"who": "idle-0", "named": ["default"]}),
    ("stand_by", {"who": "idle-1", "named": ["default", "alpha"]}),
    ("enqueue", {"asked": {"kind": "report"}, "past": SECOND}),
    ("enqueue_late", {"asked": {"kind": "report", "queue": "beta"}, "watched": True}),
    ("stand_by", {"who": "idle-1", "named": ["beta"]}),
    ("end_late", {"commit": True, "watched": True}),
    ("stand_down", {"who": "idle-0"}),
    ("claim_any", {"session": 0, "most": 1, "floors": "raised"}),
    ("progress", {"meant": (0, "held"), "percent": 50, "message": "a\0b"}),
    ("renew", {"session": 0, "meant": [(0, "held"), (0, "newer"), (0, "gone")]}),
    ("lock", {"meant": (0, "held")}),
    ("settle_many", {"batch": [((0, "held"), ("complete", {}), None)], "bad": "1"}),
    ("settle_one", {"meant": (0, "held"), "said": ("complete", {}), "again": False}),
    ("unlock", {}),
    ("settle_one", {"meant": (0, "held"), "said": ("snooze", {"delay": SECOND}), "again": True}),
    ("settle_one", {"meant": (0, "settled"), "said": ("release", {}), "again": True}),
    ("run_now", {"meant": (0, "queued"), "reason": "because"}),
    ("age", {"by": SECOND, "whom": "all", "which": 0, "then": "nothing"}),
    ("claim_any", {"session": 0, "most": 1, "floors": "raised"}),
    ("settle_one", {"meant": (0, "held"), "said": ("release", {}), "again": True}),
    ("reprioritize", {"meant": (0, "queued"), "priority": 9, "reason": None}),
    ("claim_any", {"session": 1, "most": 1, "floors": "sought"}),
    (
        "settle_one",
        {"meant": (0, "held"), "said": ("fail", {"detail": {"a": None}}), "again": True},
    ),
    ("claim_any", {"session": 1, "most": 1, "floors": "raised"}),
    ("settle_one", {"meant": (0, "held"), "said": ("fail", {"fatal": True}), "again": True}),
    ("retry", {"meant": (0, "failed"), "extra": 1, "delay": None, "reason": None}),
    ("claim_any", {"session": 1, "most": 1000, "floors": "raised"}),
    ("cancel", {"meant": (0, "held"), "reason": None}),
    ("renew", {"session": 0, "meant": [(0, "held")]}),
    ("settle_one", {"meant": (0, "held"), "said": ("fail", {}), "again": True}),
    (
        "settle_one",
        {"meant": (0, "held"), "said": ("complete", {"result": TOO_LARGE}), "again": False},
    ),
    ("age", {"by": 61 * SECOND, "whom": "all", "which": 0, "then": "reap"}),
    ("enqueue", {"asked": {"kind": "report", "timeout": SECOND, "delay": HOUR}, "past": None}),
    ("run_now", {"meant": (9, "queued"), "reason": None}),
    ("claim_any", {"session": 1, "most": 1000, "floors": "raised"}),
    ("age", {"by": 61 * SECOND, "whom": "all", "which": 0, "then": "reap"}),
    ("age", {"by": HOUR, "whom": "all", "which": 0, "then": "nothing"}),
    ("claim_any", {"session": 1, "most": 4, "floors": "raised"}),
    ("settle_many", {"batch": EVERYTHING, "bad": "{}"}),
    ("settle_one", {"meant": (0, "held"), "said": ("complete", {"result": [1]}), "again": True}),
    ("cancel", {"meant": (0, "queued"), "reason": "because"}),
    ("claim_any", {"session": 1, "most": 1, "floors": "as they are"}),
    ("age", {"by": 2 * HOUR, "whom": "running", "which": 0, "then": "nothing"}),
    ("settle_one", {"meant": (0, "gone"), "said": ("complete", {}), "again": False}),
    *(("age_step", {"step": step}) for step in ("reap", "roll_up", "prune", "rotate_events")),
    *(("tick", {"session": "main"}) for _ in range(4)),
    ("nonsense", {"case": REFUSED[0]}),
    ("undone", {"asked": [{"kind": "report"}], "said": ("complete", {}), "meant": (0, "held")}),
    *(
        ("bulk", {"action": action, "filter": {}, "dry_run": dry_run, **HOW})
        for action in ("run_now", "retry", "reprioritize", "cancel")
        for dry_run in (True, False)
    ),
    ("claim_any", {"session": 1, "most": 1, "floors": "raised"}),
    ("settle_one", {"meant": (0, "held"), "said": ("fail", {"fatal": True}), "again": False}),
    ("discard", {"meant": (0, "failed"), "reason": None}),
    ("age", {"by": timedelta(days=8), "whom": "finished", "which": 1, "then": "prune"}),
    ("age", {"by": timedelta(days=31), "whom": "all", "which": 0, "then": "prune"}),
    ("rotate_events", {}),
    ("roll_up", {}),
    ("follow", {"most": 5}),
    ("look", {}),
]
"""Each thing once, in a fixed order."""

SEEN = [
    *(f"{event} -> queued" for event in ("enqueued", "retry_scheduled", "lease_expired")),
    *(f"{event} -> queued" for event in ("released", "snoozed", "made_due", "reprioritized")),
    *("claimed -> running", "progressed -> running", "cancel_requested -> running"),
    *("succeeded -> succeeded", "cancelled -> cancelled", "failed -> failed", "discarded -> gone"),
    *("lease_expired -> failed", "timed_out -> queued", "retried -> queued"),
    *(f"refused RL{code}" for code in (400, 404, 409, 413, 422)),
    *("settle accepted", "settle lost", "settle refused", "settle busy", "refused 55P03"),
    *("renew held", "renew lost", "renew stop", "progress held", "first answer repeated"),
    *("woken", "covered", "uncovered", "late commit", "followed", "counted", "tick reap"),
    *("bulk matched", "bulk changed", "pruned", "events past retention"),
]


PROFILE = settings(
    max_examples=25,
    stateful_step_count=50,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=PHASES,
)


def tour() -> None:
    machine = Rowlock()
    machine.agrees()
    for name, arguments in TOUR:
        getattr(machine, name)(**arguments)
        machine.agrees()


@contextmanager
def world_of(database: Database) -> Iterator[None]:
    Rowlock.world = World(database.url)
    Rowlock.coverage.clear()
    try:
        yield
    finally:
        Rowlock.world.close()


@pytest.mark.timeout(SECONDS + 600)
def test_the_database_agrees_with_the_model(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    first = int(os.environ.get("ROWLOCK_MODEL_SEED") or random.SystemRandom().randrange(2**32))
    now, end = first, time.monotonic() + SECONDS
    with world_of(database):
        while now == first or time.monotonic() < end:
            try:
                run_state_machine_as_test(seed(now)(Rowlock), settings=PROFILE)
            except BaseException:
                with capsys.disabled():
                    print(f"\nreplay with ROWLOCK_MODEL_SEED={now}")
                raise
            now += 1
    with capsys.disabled():
        print(f"\nmodel: seeds {first} to {now - 1}, {now - first} times 25 times 50 steps")


def test_each_thing_once(database: Database) -> None:
    """Chance may leave something out: this does not."""
    with world_of(database):
        tour()
    assert set(SEEN) - {what for what, count in Rowlock.coverage.items() if count} == set()


@pytest.mark.timeout(MUTANT_SECONDS + 60)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule.replace(" ", "-"))
def test_the_model_notices(mutant: Mutant, database: Database) -> None:
    with database.connect() as conn:
        conn.execute("set role queue_owner")
        conn.execute(mutant.sql().encode())
    now, end = 1, time.monotonic() + MUTANT_SECONDS
    with world_of(database):
        try:
            tour()
            while time.monotonic() < end:
                run_state_machine_as_test(seed(now)(Rowlock), settings=PROFILE)
                now += 1
        except AssertionError:
            return
    pytest.fail(f"nobody noticed in {MUTANT_SECONDS:.0f} s")
