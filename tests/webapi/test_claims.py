"""The worker protocol over HTTP: claim, renew, settle, progress, under a fence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.cluster import Connection
from tests.webapi.conftest import Api


def settle(api: Api, claim: dict[str, Any], outcome: str, **more: Any) -> Any:
    one = {"job_id": claim["job_id"], "fence": claim["fence"], "outcome": outcome, **more}
    return api.call("POST", "/settlements", "worker", {"outcomes": [one]})


def take_over(conn: Connection, claim: dict[str, Any]) -> None:
    """As a worker that fell silent: its lease ends and the reaper takes the job."""
    conn.execute("select queue_tests.expire_lease(%s)", [int(claim["job_id"])])
    conn.execute("select queue.reap()")


def test_a_job_is_claimed_renewed_and_completed(api: Api) -> None:
    job = api.job(payload={"to": "a"}, queue="email", lease_seconds=30)

    claim = api.claim(queues=["email"])
    assert (claim["job_id"], claim["payload"], claim["attempt"]) == (job, {"to": "a"}, 1)
    assert claim["lease_seconds"] == 30

    token = {"job_id": job, "fence": claim["fence"]}
    renewed = api.call("POST", "/renewals", "worker", {"claims": [token]})
    assert renewed.json["data"] == [{**token, "verdict": "held"}]

    told = api.call(
        "POST",
        f"/jobs/{job}/progress",
        "worker",
        {"fence": claim["fence"], "percent": 60, "message": "m"},
    )
    assert told.json == {"verdict": "held"}
    assert api.get(f"/jobs/{job}")["progress"] == {"percent": 60, "message": "m"}

    assert settle(api, claim, "complete", result={"sent": True}).json["data"] == [
        {**token, "verdict": "accepted", "reason": None}
    ]
    found = api.get(f"/jobs/{job}")
    assert (found["status"], found["result"]) == ("succeeded", {"sent": True})


def test_asking_again_is_answered_as_the_first_time(api: Api) -> None:
    api.job()
    claim = api.claim()
    first = settle(api, claim, "complete")
    assert settle(api, claim, "complete").json == first.json


def test_no_job_is_no_error(api: Api) -> None:
    assert api.call("POST", "/claims", "worker", {"worker": "w1"}).json == {"data": []}


@pytest.mark.parametrize(
    ("outcome", "more", "status", "attempt"),
    [
        (
            "fail",
            {"error_type": "E", "retry_in_seconds": 60, "detail": {"traceback": "t"}},
            "queued",
            1,
        ),
        ("fail", {"error_type": "E", "fatal": True}, "failed", 1),
        ("snooze", {"delay_seconds": 60, "reason": "r"}, "queued", 0),
        ("release", {}, "queued", 0),
        ("accept_cancel", {"reason": "gone"}, "cancelled", 1),
    ],
)
def test_each_outcome_ends_the_claim(
    api: Api, outcome: str, more: dict[str, Any], status: str, attempt: int
) -> None:
    job = api.job()
    answer = settle(api, api.claim(), outcome, **more)
    assert answer.json["data"][0]["verdict"] == "accepted"
    found = api.get(f"/jobs/{job}")
    assert (found["status"], found["attempt"]) == (status, attempt)


def test_a_stale_fence_is_409_claim_lost_everywhere(api: Api, conn: Connection) -> None:
    job = api.job()
    stale = api.claim()
    take_over(conn, stale)
    conn.execute("select queue.run_now(%s)", [int(job)])
    current = api.claim()
    assert current["job_id"] == job
    assert current["fence"] > stale["fence"]

    token = {"job_id": job, "fence": stale["fence"]}
    answers = [
        settle(api, stale, "complete", result="stale"),
        api.call("POST", "/renewals", "worker", {"claims": [token]}),
        api.call(
            "POST", f"/jobs/{job}/progress", "worker", {"fence": stale["fence"], "percent": 1}
        ),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json["code"]) == (409, "claim_lost")

    found = api.get(f"/jobs/{job}")
    assert (found["status"], found["result"], found["progress"]) == ("running", None, None)
    assert settle(api, current, "complete").status_code == 200


def test_a_batch_with_one_lost_claim_has_a_verdict_each(api: Api, conn: Connection) -> None:
    api.job()
    api.job()
    lost, held = api.claim(), api.claim()
    take_over(conn, lost)
    outcomes = [
        {"job_id": one["job_id"], "fence": one["fence"], "outcome": "complete"}
        for one in (lost, held)
    ]
    answer = api.call("POST", "/settlements", "worker", {"outcomes": outcomes})
    assert answer.status_code == 200
    verdicts = {row["job_id"]: row["verdict"] for row in answer.json["data"]}
    assert verdicts == {lost["job_id"]: "lost", held["job_id"]: "accepted"}


def test_a_cancelled_job_is_told_to_stop(api: Api) -> None:
    job = api.job()
    claim = api.claim()
    api.call("POST", f"/jobs/{job}/cancel", "operator")
    told = api.call(
        "POST", f"/jobs/{job}/progress", "worker", {"fence": claim["fence"], "percent": 1}
    )
    assert told.json == {"verdict": "stop"}


def test_an_outcome_that_cannot_be_stored_is_refused_and_the_claim_stands(api: Api) -> None:
    job = api.job()
    claim = api.claim()
    answer = settle(api, claim, "complete", result="x" * (1024 * 1024 + 1))
    assert answer.json["data"][0]["verdict"] == "refused"
    assert answer.json["data"][0]["reason"]
    assert api.get(f"/jobs/{job}")["status"] == "running"


def test_nul_and_lone_surrogates_do_not_keep_a_job_from_ending(api: Api) -> None:
    job = api.job()
    claim = api.claim()
    answer = settle(
        api,
        claim,
        "fail",
        error_type="E\0",
        message="\ud800 \0",
        detail={"a": "\0\ud800"},
        fatal=True,
    )
    assert answer.json["data"][0]["verdict"] == "accepted"
    assert api.get(f"/jobs/{job}")["last_error"]["message"] == "\ufffd \ufffd"


def test_guessing_fences_and_ids_changes_nothing(api: Api) -> None:
    job = api.job()
    claim = api.claim()
    for number in range(1, 20):
        for fence in (claim["fence"] + 1, claim["fence"] - 1):
            guess = {"job_id": str(number), "fence": fence, "outcome": "complete"}
            answer = api.call("POST", "/settlements", "worker", {"outcomes": [guess]})
            assert (answer.status_code, answer.json["code"]) == (409, "claim_lost")
    assert api.get(f"/jobs/{job}")["status"] == "running"
