"""pyworker.testing, used as an application's tests use it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pyworker import App, Cancel, Fail, Handler, Job, PayloadInvalid, Retry, Snooze
from pyworker.errors import InvalidArgument
from tests.support.cluster import Cluster
from tests.workers import ROOT

if TYPE_CHECKING:
    from pyworker.testing import Rowlock

# Its fixtures; imported by pytest, hence not above.
pytest_plugins = ["pyworker.testing"]

shop = App()


@dataclass
class Email:
    to: str
    copies: int = 1


@shop.job("email.send", queue="email", max_attempts=3)
def send_email(email: Email, job: Job) -> dict[str, Any]:
    for copy in range(email.copies):
        job.progress(100 * copy // email.copies, f"copy {copy}")
    if email.to == "busy@b.example":
        raise Retry(in_="10m")
    if email.to == "nobody@b.example":
        raise Fail("no such mailbox")
    if email.to == "later@b.example":
        raise Snooze("1h")
    if email.to == "gone@b.example":
        raise Cancel("gone")
    return {"sent": email.copies}


@shop.job("order.place")
def place_order(payload: dict[str, Any]) -> None:
    send_email.enqueue(Email(payload["to"]))


@shop.job("sync")
async def sync(payload: dict[str, Any]) -> str:
    await asyncio.sleep(0)
    return "synced"


@pytest.fixture
def rowlock_app() -> App:
    return shop


@pytest.fixture(scope="module")
def rowlock_database(cluster: Cluster) -> Iterator[str]:
    database = cluster.create()
    yield database.url
    cluster.drop(database)


def test_work_one_runs_the_next_job(rowlock: Rowlock) -> None:
    made = send_email.enqueue(Email("a@b.example", copies=2))
    worked = rowlock.work_one("email")

    assert worked is not None
    assert worked.outcome == "succeeded"
    assert worked.result == {"sent": 2}
    assert worked.job.id == made.job_id
    assert worked.job.progress == 50
    assert "progressed" in rowlock.events(made)
    assert rowlock.work_one("email") is None


@pytest.mark.parametrize(
    ("to", "outcome"),
    [
        ("busy@b.example", "retrying"),
        ("nobody@b.example", "failed"),
        ("later@b.example", "snoozed"),
        ("gone@b.example", "cancelled"),
    ],
)
def test_outcomes_have_names(rowlock: Rowlock, to: str, outcome: str) -> None:
    send_email.enqueue(Email(to))
    worked = rowlock.work_one("email")
    assert worked is not None
    assert worked.outcome == outcome


def test_drain_runs_what_jobs_enqueue(rowlock: Rowlock) -> None:
    place_order.enqueue({"to": "a@b.example"}, conn=rowlock.conn)
    done = rowlock.drain(["default", "email"])
    assert [worked.job.kind for worked in done] == ["order.place", "email.send"]


def test_coroutines_are_worked_too(rowlock: Rowlock) -> None:
    sync.enqueue({})
    worked = rowlock.work_one()
    assert worked is not None
    assert worked.result == "synced"


def test_a_kind_without_handler_and_a_bad_payload(rowlock: Rowlock) -> None:
    rowlock.client.enqueue("nobody.knows")
    worked = rowlock.work_one()
    assert worked is not None
    assert worked.outcome == "snoozed"

    rowlock.client.enqueue("email.send", {"to": 1}, queue="email")
    worked = rowlock.work_one("email")
    assert worked is not None
    assert (worked.outcome, worked.error_type) == ("failed", "PayloadInvalid")


def test_a_result_that_is_refused_fails_the_job(rowlock: Rowlock) -> None:
    shop.job("big")(_big)
    shop.enqueue("big", {})
    worked = rowlock.work_one()
    assert worked is not None
    assert worked.outcome == "failed"


def _big(payload: dict[str, Any]) -> str:
    return "x" * 2_000_000


def test_assert_enqueued(rowlock: Rowlock) -> None:
    for number in range(60):
        send_email.enqueue(Email(f"{number}@b.example"))
    assert len(rowlock.assert_enqueued("email.send", count=60)) == 60
    (job,) = rowlock.assert_enqueued("email.send", payload={"to": "7@b.example"}, count=1)
    assert job.payload == {"to": "7@b.example", "copies": 1}
    rowlock.assert_enqueued("email.send", queue="default", count=0)

    with pytest.raises(AssertionError, match=r"1 of kind email\.send wanted, 60 found"):
        rowlock.assert_enqueued("email.send", count=1)
    with pytest.raises(AssertionError, match="at least one of kind other wanted, 0 found"):
        rowlock.assert_enqueued("other")


def test_age_lets_a_backoff_pass(rowlock: Rowlock) -> None:
    made = send_email.enqueue(Email("busy@b.example"))
    rowlock.work_one("email")
    assert rowlock.work_one("email") is None
    rowlock.age("9m")
    assert rowlock.work_one("email") is None
    rowlock.age("2m", made)
    worked = rowlock.work_one("email")
    assert worked is not None
    assert worked.job.attempt == 2


def test_expire_lease_is_a_vanished_worker(rowlock: Rowlock) -> None:
    made = send_email.enqueue(Email("a@b.example"))
    with pytest.raises(pytest.fail.Exception, match="not running"):
        rowlock.expire_lease(made)
    (claim,) = rowlock.client.claim("vanished", ["email"])
    rowlock.expire_lease(claim.job_id)
    assert rowlock.job(made).status == "queued"
    assert rowlock.events(made)[-1] == "lease_expired"


def test_drain_has_an_end(rowlock: Rowlock) -> None:
    shop.job("again")(_again)
    shop.enqueue("again", {})
    with pytest.raises(pytest.fail.Exception, match="not drained after 5"):
        rowlock.drain(max_jobs=5)


def _again(payload: dict[str, Any]) -> None:
    shop.enqueue("again", {})


def test_nothing_stays(rowlock: Rowlock, rowlock_database: str) -> None:
    send_email.enqueue(Email("a@b.example"))
    with psycopg.connect(rowlock_database) as other:
        assert other.execute("select count(*) from queue.jobs").fetchone() == (0,)


# -- perform -----------------------------------------------------------------------------------


def perform(handler: Handler[Any], payload: Any) -> Any:
    from pyworker import testing

    return testing.perform(handler, payload)


def test_perform_needs_no_database() -> None:
    assert perform(send_email, Email("a@b.example", copies=3)) == {"sent": 3}
    assert perform(send_email, {"to": "a@b.example"}) == {"sent": 1}
    assert perform(sync, {}) == "synced"


def test_perform_raises_what_the_handler_raises() -> None:
    with pytest.raises(Retry):
        perform(send_email, Email("busy@b.example"))
    with pytest.raises(PayloadInvalid):
        perform(send_email, {"copies": 1})


def test_perform_refuses_a_result_that_is_not_json() -> None:
    @App().job("odd")
    def odd(payload: dict[str, Any]) -> object:
        return object()

    with pytest.raises(InvalidArgument):
        perform(odd, {})


# -- from the outside --------------------------------------------------------------------------


def test_an_application_uses_the_plugin(tmp_path: Path, cluster: Cluster) -> None:
    database = cluster.create_empty()
    (tmp_path / "conftest.py").write_text(
        "import pytest\n"
        "from pyworker import App\n"
        "pytest_plugins = ['pyworker.testing']\n"
        "app = App()\n"
        "app.job('double')(lambda payload: payload['n'] * 2)\n"
        "@pytest.fixture\n"
        "def rowlock_app():\n"
        "    return app\n"
    )
    (tmp_path / "test_it.py").write_text(
        "def test_it(rowlock):\n"
        "    rowlock.app.enqueue('double', {'n': 21})\n"
        "    assert rowlock.work_one().result == 42\n"
    )
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path],
        cwd=tmp_path,
        env={**os.environ, "ROWLOCK_TEST_DATABASE_URL": database.url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
