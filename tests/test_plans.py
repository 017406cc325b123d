"""Plans and buffers: what a call costs must not depend on how many jobs there are.

Functions keep their plans for as long as a session lives, and nothing but an ANALYZE makes them
think again. So plans are cached here while the table is empty, or small and analyzed, and judged
after 100,000 jobs that nobody analyzed. Counted are buffers, not milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from psycopg.errors import Diagnostic

from tests.support.cluster import Database
from tests.support.interleave import Session, Stage, stage_on

MANY = 100_000

Plan = dict[str, Any]


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        stage.admin.run("alter table queue.jobs set (autovacuum_enabled = off)")
        stage.admin.run("alter table queue.policies set (autovacuum_enabled = off)")
        yield stage


def add_jobs(stage: Stage, number: int, **columns: str) -> None:
    """Rows as the functions would have left them; `columns` are expressions over n."""
    values = {
        "queue": "'default'",
        "kind": "'t'",
        "max_attempts": "5",
        "created_at": "now() - interval '1 hour' + n * interval '1 ms'",
        "available_at": "now() - interval '1 hour' + n * interval '1 ms'",
    } | columns
    stage.admin.run(
        f"insert into queue.jobs ({', '.join(values)})"
        f" select {', '.join(values.values())} from generate_series(1, {number}) as n"
    )


FINISHED = {
    "status": "case n % 3 when 0 then 'failed' when 1 then 'cancelled' else 'succeeded' end",
    "started_at": "now() - interval '1 hour'",
    "finished_at": "now() - interval '1 hour'",
    "attempt": "1",
    "fence": "1",
}

RUNNING = {
    "status": "'running'",
    "started_at": "now()",
    "lease_expires_at": "now() + interval '1 hour'",
    "worker": "'other'",
    "attempt": "1",
    "fence": "1",
}


# -- plans -----------------------------------------------------------------------------------------


class Watch:
    """Every plan that a session's functions run, as auto_explain tells it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._plans: list[Plan] = []
        session.conn.add_notice_handler(self._take)
        session.run("load 'auto_explain'")

    def _take(self, told: Diagnostic) -> None:
        text = told.message_primary or ""
        if "plan:" in text:
            self._plans.append(json.loads(text.partition("plan:")[2]))

    def run(self, query: str, *params: Any) -> list[Plan]:
        self._plans.clear()
        for name, value in {
            "log_min_duration": "0",
            "log_nested_statements": "on",
            "log_level": "notice",
            "log_format": "json",
        }.items():
            self._session.run("select set_config(%s, %s, false)", f"auto_explain.{name}", value)
        self._plans.clear()
        self._session.run(query, *params)
        plans = list(self._plans)
        self._session.run("set auto_explain.log_min_duration = -1")
        return plans


def scans_of_jobs(node: Plan) -> Iterator[Plan]:
    if node.get("Relation Name") == "jobs" and node["Node Type"] != "ModifyTable":
        yield node
    if node.get("Index Name", "").startswith("jobs_") and node["Node Type"].startswith("Bitmap"):
        yield node
    for child in node.get("Plans", ()):
        yield from scans_of_jobs(child)


def is_bounded(scan: Plan, call: str) -> bool:
    """Whether a scan reads what it returns and no more: a row by its address, or rows by a key.

    The reaper reads all running jobs: they are as many as there are slots.
    """
    if scan["Node Type"] == "Tid Scan":
        return True
    if call == "reap" and scan.get("Index Name") == "jobs_running":
        return True
    if scan["Node Type"] == "Bitmap Heap Scan":
        return True  # its index scan is judged by itself
    key = {
        "jobs_pkey": "id ",
        "jobs_ready": "(queue =",
        "jobs_idempotency": "idempotency_key =",
    }.get(scan.get("Index Name", ""))
    # A domain's column is compared as its base type: `(queue)::text =`.
    condition = re.sub(r"\((\w+)\)::\w+", r"\1", scan.get("Index Cond", ""))
    return key is not None and key in condition


def claim_five(session: Session) -> list[tuple[Any, ...]]:
    tokens = session.claims("default", 5)
    assert len(tokens) == 5
    return tokens


def calls(session: Session, number: int) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Every function that finds jobs to change them, in every way it does so."""
    keyed = "select queue.enqueue('t', idempotency_key => %s)"
    yield "enqueue", keyed, (f"a{number}",)
    yield "enqueue, a known key", keyed, (f"a{number}",)
    batch = [{"kind": "t", "idempotency_key": f"{key}{number}"} for key in "aabc"]
    yield "enqueue_many", "select queue.enqueue_many(%s)", (json.dumps(batch),)
    for _ in range(5):
        session.run("select queue.enqueue('t')")
    yield "claim", "select queue.claim('w')", ()
    yield "next_due", "select queue.next_due()", ()
    session.run("select queue.enqueue_many(%s)", json.dumps([{"kind": "t"}] * 20))

    done, failed, snoozed, released, cancelled = claim_five(session)
    ids, fences = [done[0], failed[0]], [done[1], failed[1]]
    yield "renew", "select queue.renew(%s, %s)", (ids, fences)
    yield "progress", "select queue.progress(%s, %s, 50)", done
    yield "complete", "select queue.complete(%s, %s)", done
    yield "complete again", "select queue.complete(%s, %s)", done
    yield "fail", "select queue.fail(%s, %s, 'E', fatal => true)", failed
    yield "snooze", "select queue.snooze(%s, %s, '1 hour')", snoozed
    yield "release", "select queue.release(%s, %s)", released
    yield "cancel a running job", "select queue.cancel(%s)", cancelled[:1]
    yield "accept_cancel", "select queue.accept_cancel(%s, %s)", cancelled
    yield "retry", "select queue.retry(%s)", failed[:1]
    yield "run_now", "select queue.run_now(%s)", snoozed[:1]
    yield "reprioritize", "select queue.reprioritize(%s, 4)", snoozed[:1]
    yield "cancel a queued job", "select queue.cancel(%s)", snoozed[:1]
    yield "get_job", "select queue.get_job(%s)", snoozed[:1]

    yield "discard", "select queue.discard(%s)", done[:1]
    by_id = json.dumps({"ids": [released[0]]})
    yield "bulk", "select queue.bulk('cancel', %s, dry_run => false)", (by_id,)

    tokens = claim_five(session)
    outcomes = [
        {"job_id": job_id, "fence": fence, "outcome": outcome, "error_type": "E", "delay": "1 h"}
        for (job_id, fence), outcome in zip(
            [*tokens, (-1, 1)],
            ["complete", "complete", "fail", "snooze", "release", "complete"],
            strict=True,
        )
    ]
    yield "settle", "select queue.settle(%s)", (json.dumps(outcomes),)
    expired = claim_five(session)
    session.run(
        "update queue.jobs set lease_expires_at = now() - interval '1 s' where id = any (%s)",
        [job_id for job_id, _ in expired],
    )
    yield "reap", "select queue.reap()", ()


@pytest.mark.parametrize(
    "state", ["never analyzed", "analyzed while empty", "analyzed while small"]
)
def test_plans_outlive_a_small_table(state: str, stage: Stage) -> None:
    if state == "analyzed while small":
        add_jobs(stage, 10)
    if state != "never analyzed":
        stage.admin.run("vacuum analyze queue.jobs")
        stage.admin.run("vacuum analyze queue.policies")
    session = stage.session()
    for number in range(7):  # past the five custom plans that a generic one must beat
        for _, query, params in calls(session, number):
            session.run(query, *params)

    add_jobs(stage, MANY)
    session.run("reset rowlock.floors")  # they are dated as no function would date them
    watch = Watch(session)
    bad = []
    for name, query, params in calls(session, 7):
        plans = watch.run(query, *params)
        assert plans, f"{name}: auto_explain told nothing"
        for plan in plans:
            for scan in scans_of_jobs(plan["Plan"]):
                if not is_bounded(scan, name):
                    bad.append(
                        f"{name}: {scan['Node Type']} {scan.get('Index Name', '')}"
                        f" {scan.get('Index Cond', '')} in {plan['Query Text'][:60]!r}"
                    )
    assert not bad, "\n".join(bad)


def test_whoever_reads_jobs_is_pinned(stage: Stage) -> None:
    """Pins stand where the statement stands: its plan is shared by all that call the function.

    A helper without pins keeps the plan of its first caller, pinned or not. What is inlined into a
    pinned function (SQL functions of _find_jobs) has none, since a SET would keep it from that.
    """
    rows = stage.admin.run(
        r"""select proname, proconfig from pg_proc
        where pronamespace = 'queue'::regnamespace
          and prosrc ~ '(from|update|join|into)\s+queue\.jobs\M'"""
    )
    scans = {"_scan_failed", "_scan_ids", "_scan_newest", "_scan_queued", "_scan_running"}
    inlined = {"_job_place", *scans}
    assert inlined < {name for name, _ in rows}
    bare = {
        name
        for name, settings in rows
        if not {"enable_seqscan=off", "jit=off"} <= set(settings or ())
    }
    assert bare == inlined


def test_the_judge_of_plans_has_teeth(stage: Stage) -> None:
    """A plan without the pins, on a table that was small: what the test above must see."""
    stage.admin.run("alter function queue.claim reset enable_seqscan")
    session = stage.session()
    stage.admin.enqueue("default")
    session.claim("default")
    add_jobs(stage, 1000)
    session.run("reset rowlock.floors")  # they are dated as no function would date them
    plans = Watch(session).run("select queue.claim('w')")
    scans = [scan for plan in plans for scan in scans_of_jobs(plan["Plan"])]
    assert [scan["Node Type"] for scan in scans if not is_bounded(scan, "claim")] == ["Seq Scan"]


# -- buffers ---------------------------------------------------------------------------------------


def buffers(session: Session, query: str, *params: Any) -> int:
    """Pages that a call looked at, those of the statements inside it included."""
    ((explained,),) = session.run(
        f"explain (analyze, buffers, timing off, format json) {query}", *params
    )
    plan = explained[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


CLAIM = "select * from queue.claim('w')"
NEXT_DUE = "select queue.next_due()"
COMPLETE = "select * from queue.complete(%s, %s)"


def cost(session: Session) -> dict[str, int]:
    """Of a poll, a claim and its success, each the least of some: a page split is not the rule."""
    told: list[tuple[int, int, int]] = []
    for _ in range(5):
        token = session.claims("default")[0]
        told.append(
            (
                buffers(session, NEXT_DUE),
                buffers(session, CLAIM),
                buffers(session, COMPLETE, *token),
            )
        )
    return dict(
        zip(("next_due", "claim", "complete"), map(min, zip(*told, strict=True)), strict=True)
    )


@pytest.mark.parametrize(
    "crowd",
    [
        pytest.param([{}], id="queued"),
        pytest.param(
            [{"priority": "9", "available_at": "now() + n * interval '1 s'"}],
            id="due later at top priority",
        ),
        pytest.param([FINISHED], id="finished"),
        pytest.param([RUNNING | {"queue": "'elsewhere'"}], id="running"),
        pytest.param([{"queue": "'q' || n % 1000", "priority": "n % 10"}], id="in 1000 queues"),
    ],
)
def test_a_crowd_of_jobs_costs_nothing(crowd: list[dict[str, str]], stage: Stage) -> None:
    worker = stage.session()
    add_jobs(stage, 100)
    plain = cost(worker)
    for columns in crowd:
        add_jobs(stage, MANY, **columns)
    stage.admin.run(
        "insert into queue.policies (queue, lease) select 'q' || n, '1 min'"
        " from generate_series(0, 999) as n"
    )
    worker.run("reset rowlock.floors")  # the crowd is dated as no function would date it
    crowded = cost(worker)
    # One level more in each index, for ten probes of jobs_ready and a few rows written.
    assert plain["claim"] < 120
    for call, pages in crowded.items():
        assert pages <= plain[call] + 30, f"{call}: {plain} alone, {crowded} in the crowd"


def pass_through(stage: Stage, number: int) -> None:
    """Jobs that come and go, by the functions, as many as `number`."""
    worker = stage.session()
    jobs = json.dumps([{"kind": "t"}] * 1000)
    for _ in range(number // 1000):
        worker.run("select count(*) from queue.enqueue_many(%s)", jobs)
        for _ in range(2):
            worker.run(
                """select count(*) from queue.settle((
                    select json_agg(json_build_object(
                        'job_id', job_id, 'fence', fence, 'outcome', 'complete'))
                    from queue.claim('w', max_jobs => 500)
                ))"""
            )


def test_an_old_snapshot_costs_nothing_above_the_floor(stage: Stage) -> None:
    """And much without it: otherwise this would prove nothing."""
    worker, plain, reader = stage.session(), stage.session(), stage.session()
    add_jobs(stage, 20)
    before = cost(worker)
    reader.begin("repeatable read")
    reader.run("select count(*) from queue.jobs")

    pass_through(stage, 10_000)
    stage.admin.run("select queue.enqueue('t') from generate_series(1, 100)")
    for _ in range(3):
        worker.refresh("default")
    above = cost(worker)
    for call, pages in above.items():
        assert pages <= before[call] + 40, f"{call}: {before} before, {above} above the floor"

    # Once a minute a session looks below its floor, be it that it only polls, and then not again.
    worker.floors = worker.floors | {"recheck": 0}
    rechecked, polled = buffers(worker, NEXT_DUE), buffers(worker, NEXT_DUE)
    assert rechecked > 200
    assert polled <= before["next_due"] + 40, f"{rechecked} pages, then {polled}"

    stage.admin.run("update queue.settings set claim_floor = false")
    walked = buffers(plain, CLAIM)
    reader.commit()
    # All dead entries of the jobs that passed, and the pages that held their rows.
    assert walked > 1_000 > 5 * above["claim"], f"{above} above the floor, {walked} without"
