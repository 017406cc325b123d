"""What the dashboard reads must not depend on how much there is: pages that a call looks at.

As in test_plans, plans are cached while the tables are empty, and judged on what nobody analyzed.
The figures at full size are printed by `make bench-web`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Database
from tests.support.interleave import Session, Stage, stage_on
from tests.test_plans import FINISHED, MANY, RUNNING, add_jobs, buffers

LIST_JOBS = "select * from queue.list_jobs(%s, %s, 50, %s)"
BULK = "select * from queue.bulk(%s, %s)"

FAILED = FINISHED | {
    "status": "'failed'",
    "finished_at": "now() - n * 7919 % 50021 * interval '1 s'",
    "error_type": "'E'",
    "error_message": "'message ' || n",
    "error_group": "'group ' || n % 30",
}

READS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "list_jobs": (LIST_JOBS, ("{}", None, False)),
    "list_jobs nothing": (LIST_JOBS, ('{"kind": "nothing"}', None, False)),
    "list_jobs queued": (LIST_JOBS, ('{"status": "queued"}', None, False)),
    "list_jobs running": (LIST_JOBS, ('{"status": "running"}', None, False)),
    "list_jobs failed": (LIST_JOBS, ('{"status": "failed"}', None, False)),
    "list_jobs by ids": (LIST_JOBS, ('{"ids": [1, 2, 3, 50000, 1e30]}', None, False)),
    "bulk retry nothing": (BULK, ("retry", '{"kind": "nothing"}')),
    "bulk cancel nothing": (BULK, ("cancel", '{"kind": "nothing"}')),
    "bulk discard nothing": (BULK, ("discard", '{"kind": "nothing", "status": "succeeded"}')),
    "list_events nothing": ("select * from queue.list_events(filter => %s)", ('{"kind": "no"}',)),
    "list_queues": ("select * from queue.list_queues(10000)", ()),
    "list_queues of one": ("select * from queue.list_queues(queues => '{q1}')", ()),
    "metrics": ("select * from queue.metrics()", ()),
    "stats": ("select * from queue.stats()", ()),
    "failure_groups": ("select * from queue.failure_groups()", ()),
    "throughput": ("select * from queue.throughput()", ()),
    "throughput of a queue": ("select * from queue.throughput(queue => 'q1')", ()),
    "latency": ("select * from queue.latency()", ()),
    "throughput of 6 hours": (
        "select * from queue.throughput(now() - interval '6 h', resolution => '5 min')",
        (),
    ),
    "latency of 6 hours": (
        "select * from queue.latency(now() - interval '6 h', resolution => '5 min')",
        (),
    ),
    "list_kinds of a queue": ("select * from queue.list_kinds('q1')", ()),
}


@pytest.fixture
def stage(database: Database) -> Iterator[Stage]:
    with stage_on(database) as stage:
        stage.admin.run("alter table queue.jobs set (autovacuum_enabled = off)")
        stage.admin.run("alter table queue.rollups set (autovacuum_enabled = off)")
        yield stage


def warmed(stage: Stage) -> Session:
    """A session that has kept its plans from when there was nothing."""
    session = stage.session()
    for _ in range(7):
        for query, params in READS.values():
            session.run(query, *params)
    return session


def cost(session: Session, name: str) -> int:
    query, params = READS[name]
    return buffers(session, query, *params)


def test_a_page_stops_when_it_is_full(stage: Stage) -> None:
    session = warmed(stage)
    add_jobs(stage, MANY // 2)
    add_jobs(stage, 1000, **RUNNING)  # these are sorted: as many as there are slots
    add_jobs(stage, MANY // 2, **FAILED)

    for status in (None, "queued", "running", "failed"):
        wanted = json.dumps({"status": status} if status else {})
        cursor = None
        for _ in range(10):
            page = session.run(LIST_JOBS, wanted, cursor, False)
            assert len(page) == 50
            # A row is sought in its order, fetched by its id, and a place or two are made of it.
            assert buffers(session, LIST_JOBS, wanted, cursor, False) < 600, (status, cursor)
            previous, cursor = page[0][-2:]
        assert buffers(session, LIST_JOBS, wanted, previous, True) < 600, status


def test_a_page_that_does_not_fill_reads_its_rows_once(stage: Stage) -> None:
    session = warmed(stage)
    # In line they stand as no two neighbours lie, so that each is a look at another page.
    add_jobs(stage, 20_000, available_at="now() - n * 7919 % 20011 * interval '1 s'")
    once = buffers(session, LIST_JOBS, '{"kind": "nothing", "status": "queued"}', None, False)
    assert 10_000 < once < 11_500


@pytest.mark.parametrize("action", ["retry", "cancel", "discard"])
def test_an_action_on_many_that_finds_none_reads_10_000_of_100_000(
    action: str, stage: Stage
) -> None:
    session = warmed(stage)
    apart = "now() - n * 7919 % 100003 * interval '1 s'"
    if action == "cancel":
        add_jobs(stage, 6_000, available_at=apart)
        add_jobs(stage, MANY, **RUNNING)
    else:
        add_jobs(stage, MANY, **FAILED | {"finished_at": apart})
    query, params = READS[f"bulk {action} nothing"]
    page = session.run(query, *params)
    assert [row[0] for row in page] == [None]
    assert page[0][-1], "there is more to read"
    # A row is a look at its index and at its page; those of the running lie side by side.
    assert cost(session, f"bulk {action} nothing") < 13_000


def test_a_page_of_events_that_finds_none_reads_10_000_of_100_000(stage: Stage) -> None:
    session = warmed(stage)
    stage.admin.run(
        f"""
        insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
        select now(), n, 0, 0, 'enqueued', 'queued', 'q', 'k' from generate_series(1, {MANY}) as n
        """
    )
    assert cost(session, "list_events nothing") < 1_000


def test_ids_are_looked_up(stage: Stage) -> None:
    session = warmed(stage)
    add_jobs(stage, MANY)
    assert cost(session, "list_jobs by ids") < 60


def test_queues_are_counted_in_their_indexes(stage: Stage) -> None:
    session = warmed(stage)
    later = {"available_at": "now() + n * interval '1 s'", "queue": "'q' || n % 20"}
    add_jobs(stage, MANY // 5, queue="'q' || n % 20")
    add_jobs(stage, MANY // 5, **later, error_type="case n % 40 / 20 when 1 then 'E' end")
    add_jobs(stage, MANY // 10, **FAILED)
    stage.admin.run("vacuum queue.jobs")
    # 50,000 jobs are counted; a look at the row of each would be more than that.
    assert cost(session, "list_queues") < 5_000
    assert cost(session, "stats") < 5_000
    assert cost(session, "metrics") < 5_000
    assert cost(session, "list_queues of one") < 1_000
    # The groups' newest jobs are looked at, one a group.
    assert cost(session, "failure_groups") < 1_000


def test_a_multitude_that_waits_for_another_attempt_is_not_looked_at(stage: Stage) -> None:
    session = warmed(stage)
    # Each lies on another page than its neighbours in line.
    again = {"available_at": "now() + n * 7919 % 20011 * interval '1 s'", "error_type": "'E'"}
    add_jobs(stage, MANY // 5, queue="'q1'", **again)
    stage.admin.run("vacuum queue.jobs")
    # 2,000 rows are, twice count_to in list_queues.
    assert cost(session, "stats") < 5_000
    assert cost(session, "list_queues of one") < 5_000


def test_charts_read_slots_and_not_kinds(stage: Stage) -> None:
    session = warmed(stage)
    stage.admin.run(
        """
        insert into queue.rollups
        select grain, date_bin(width, now(), 'epoch') - n * width,
          'q' || kind % 50, 'k' || kind, event, 'queued', 'running', 1, 1,
          array_fill(1::bigint, '{17}')
        from (
            values ('minute', interval '1 min'), ('five_minutes', '5 min'), ('hour', '1 h')
          ) as counted (grain, width),
          generate_series(0, 73) as n, generate_series(1, 250) as kind,
          unnest('{claimed,succeeded,failed}'::text[]) as event
        """
    )
    stage.admin.run(
        """
        insert into queue.rollups
        select one.grain || '_of_all', one.at, '', '', one.event, one.from_status, one.to_status,
          sum(one.events), sum(one.elapsed_seconds), array_fill(250::bigint, '{17}')
        from queue.rollups as one
        group by one.grain, one.at, one.event, one.from_status, one.to_status
        """
    )
    # A probe of some pages for each of 61 or 73 slots, and the rows that count there.
    for name in ("throughput", "latency", "throughput of 6 hours", "latency of 6 hours"):
        assert cost(session, name) < 700, name
    assert cost(session, "throughput of a queue") < 1_500
    assert cost(session, "list_kinds of a queue") < 700
