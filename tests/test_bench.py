"""`make bench` at tiny sizes: every measure is taken, and no job counts that was not done once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.queues import process
from bench.queues.contract import NotDoneOnceError, patience
from bench.queues.measures import Sizes, read_records
from bench.queues.report import BEGIN, END, Report
from bench.queues.rowlock import Rowlock
from tests.support import servers

_NOTE_AND_WAIT = """
import os, time
os.write(int(os.environ["FD"]), os.environ["NAME"].encode())
time.sleep(60)
"""


@pytest.fixture
def queue(url: str) -> Iterator[Rowlock]:
    queue = Rowlock(url)
    yield queue
    queue.close()


def work(queue: Rowlock, number: int) -> None:
    """As a worker would."""
    for _ in range(number):
        (found,) = queue._client.claim("bench")
        queue._client.complete(found.job_id, found.fence)


def test_every_measure_is_taken_and_the_last_line_tells_them() -> None:
    memory = servers.memory()
    run = subprocess.run(
        [sys.executable, "-m", "bench.queues", "--quick", "--scale", "0.001", "--rounds", "1"]
        + (["--pg", os.environ["PG"]] if "PG" in os.environ else []),
        cwd=servers.ROOT,
        env=os.environ | ({"TMPDIR": str(memory)} if memory else {}),
        capture_output=True,
        text=True,
        timeout=200,
    )

    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    told = json.loads(lines[-1])
    assert set(told) == {"rowlock", "limit"}
    rowlock = told["rowlock"]
    assert "".join(rowlock) == "ABCDEFGHIK"
    assert all(rowlock[name] > 0 for name in "ABCFGI")
    assert 0 < rowlock["D"]["p50"] <= rowlock["D"]["p95"] <= rowlock["D"]["p99"]
    assert set(rowlock["E"]) == {"100k"}
    assert set(rowlock["K"]) == {"1kB", "100kB"}
    assert set(told["limit"]) == {"insert", "update", "delete1", "delete100"}
    assert all(rate > 0 for rate in told["limit"].values())
    assert "drain, jobs/s (C) | enqueue, jobs/s (A) | in bulk, jobs/s (B)" in run.stdout
    assert [line[2] for line in lines if re.match(r"\| [A-Z] \|", line)] == list("EFGHIK")


def test_a_part_that_does_not_exist_is_refused() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "bench.queues", "--only", "C,Z"],
        cwd=servers.ROOT,
        capture_output=True,
        text=True,
    )

    assert run.returncode == 2
    assert "not C,Z" in run.stderr


def test_the_report_compares_with_ours_and_names_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Report(
        made="a machine",
        versions={"rowlock": "1.0", "pg-boss": "12.1"},
        figures={
            "rowlock": {"A": 900.0, "C": 12_000.0, "D": {"p50": 1.5, "p95": 2.0, "p99": 3.0}},
            "pg-boss": {"A": 450.0, "C": 10_000.0},
            "limit": {"insert": 1_000.0, "delete100": 48_000.0},
        },
        failed={"pg-boss": {"D": "it ended"}, "celery": {"all": "no server"}},
    )
    document = tmp_path / "page.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    monkeypatch.setattr("bench.queues.report.DOCUMENTS", {document: False})
    found.write()

    assert document.read_text().splitlines() == [
        "before",
        BEGIN,
        "a machine.",
        "",
        "|  | drain, jobs/s (C) | enqueue, jobs/s (A) | pick-up p50 / p95 / p99, ms (D) |",
        "| --- | --- | --- | --- |",
        "| rowlock 1.0 | 12,000 | 900 | 1.5 / 2.0 / 3.0 |",
        "| pg-boss 12.1 | 10,000 (0.83) | 450 (0.50) | failed |",
        "| celery | - | - | - |",
        "",
        "Rowlock drains 1.20 times as fast as the fastest peer, pg-boss; its drain is 0.25 of what"
        " one connection can delete from a bare table, a hundred a transaction (48,000 rows/s); its"
        " enqueue one by one is 0.90 of a bare insert and commit (1,000 rows/s).",
        "",
        "Not measured:",
        "",
        "- pg-boss D: it ended",
        "- celery: no server",
        END,
        "after",
    ]
    assert "| pg-boss | 50,000 |" in found.text()
    told = json.loads(found.line())
    assert told["celery"] == {"failed": {"all": "no server"}}
    assert told["limit"] == found.figures["limit"]


def test_jobs_done_once_each_give_a_time(queue: Rowlock) -> None:
    queue.enqueue_bulk(3)
    began = time.monotonic_ns()
    work(queue, 3)

    assert began < queue.await_drained(3, patience()) < time.monotonic_ns()


def test_a_job_that_was_claimed_twice_gives_no_figure(queue: Rowlock) -> None:
    queue.enqueue_bulk(3)
    (claim,) = queue._client.claim("bench")
    queue._client.release(claim.job_id, claim.fence)
    work(queue, 3)

    with pytest.raises(NotDoneOnceError, match="in 11 events"):
        queue.await_drained(3, patience())


def test_a_job_that_is_left_gives_no_figure(queue: Rowlock) -> None:
    queue.enqueue_bulk(3)
    work(queue, 2)

    with pytest.raises(NotDoneOnceError, match=r"not done in 0 s"):
        queue.await_drained(3, patience(seconds=0.1))


@pytest.mark.parametrize(
    ("done", "told"),
    [
        ([[0, 1], [2, 0, 1]], None),
        ([[0, 1], [2, 0]], "1 jobs were not done, 0 done once too often"),
        ([[0, 1, 1], [2, 0, 1]], "0 jobs were not done, 1 done once too often"),
        ([[0, 1, 3], [2, 0]], "1 jobs were not done, 1 done once too often"),
        ([], "5 jobs were not done"),
    ],
)
def test_the_records_of_all_processes_hold_each_job_once(
    done: list[list[int]], told: str | None, tmp_path: Path
) -> None:
    for number, each in enumerate(done):
        record = {"began": 70 - number, "done": each}
        (tmp_path / f"{number}.json").write_text(json.dumps(record))

    if told is None:
        assert read_records(tmp_path, [3, 2]) == 69
    else:
        with pytest.raises(NotDoneOnceError, match=told):
            read_records(tmp_path, [3, 2])


def test_a_worker_that_ends_by_itself_gives_no_figure() -> None:
    command = [sys.executable, "-c", "print('gone'); raise SystemExit(7)"]
    with (
        pytest.raises(NotDoneOnceError, match=r"ended by 7: gone"),
        process.running(command, {}) as worker,
    ):
        worker.wait(30)


def test_a_worker_inherits_the_file_and_is_ended(tmp_path: Path) -> None:
    with (tmp_path / "notes").open("w+") as notes:
        command = [sys.executable, "-c", _NOTE_AND_WAIT]
        with process.running(
            command, {"NAME": "noted", "FD": str(notes.fileno())}, [notes.fileno()]
        ) as worker:
            while not (tmp_path / "notes").read_text():
                assert worker.poll() is None

        assert worker.returncode == -signal.SIGTERM
        assert (tmp_path / "notes").read_text() == "noted"


def test_sizes_shrink_to_what_still_can_be_measured() -> None:
    sizes = Sizes()

    assert sizes.scaled(1) == sizes
    assert sizes.scaled(0.1).bulk == sizes.bulk // 10
    assert sizes.scaled(1e-6) == Sizes(100, 100, 10, 100, 100, 100, 100, 10, 100, 1.0, 1.0)
