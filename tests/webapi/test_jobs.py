"""Jobs over HTTP: made, listed, looked at, followed, steered."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from pyworker.client import Client
from tests.support.cluster import Connection
from tests.webapi.conftest import Api
from webui.api import jobs

# -- making them


def test_a_job_is_made_with_what_was_given(api: Api) -> None:
    job = api.job(
        payload={"to": "a@b.example"},
        queue="email",
        priority=7,
        delay_seconds=3600,
        max_attempts=3,
        lease_seconds=30,
        timeout_seconds=90.5,
        idempotency_key="order-42",
        headers={"tags": ["x"]},
    )

    found = api.get(f"/jobs/{job}")
    assert found["payload"] == {"to": "a@b.example"}
    assert found["label"] == "scheduled"
    assert (found["queue"], found["priority"], found["max_attempts"]) == ("email", 7, 3)
    assert (found["lease_seconds"], found["timeout_seconds"]) == (30, 90.5)
    assert found["idempotency_key"] == "order-42"
    assert found["headers"] == {"tags": ["x"]}
    assert found["links"]["self"] == f"/api/v1/jobs/{job}"


def test_ids_are_texts_and_times_end_in_z(api: Api) -> None:
    job = api.job()
    found = api.get(f"/jobs/{job}")
    assert found["id"] == job
    assert isinstance(found["id"], str)
    assert found["created_at"].endswith("Z")
    assert "fence" not in found


def test_the_key_in_the_header_makes_one_job(api: Api) -> None:
    body = {"kind": "email.send", "payload": {"a": 1}}
    key = {"Idempotency-Key": "order-42"}

    first = api.call("POST", "/jobs", "producer", body, headers=key)
    again = api.call("POST", "/jobs", "producer", body, headers=key)

    assert first.status_code == 201
    assert first.headers["Location"] == f"/api/v1/jobs/{first.json['id']}"
    assert "Idempotent-Replay" not in first.headers
    assert again.status_code == 200
    assert again.headers["Idempotent-Replay"] == "true"
    assert again.json == {"id": first.json["id"], "created": False}


def test_a_key_with_another_payload_is_422(api: Api) -> None:
    api.job(payload={"a": 1}, idempotency_key="k")
    other = {"kind": "email.send", "payload": {"a": 2}, "idempotency_key": "k"}
    response = api.call("POST", "/jobs", "producer", other)
    assert (response.status_code, response.json["code"]) == (422, "key_reused")


def test_two_keys_that_differ_are_refused(api: Api) -> None:
    body = {"kind": "a", "idempotency_key": "one"}
    response = api.call("POST", "/jobs", "producer", body, headers={"Idempotency-Key": "two"})
    assert (response.status_code, response.json["code"]) == (422, "validation_failed")


def test_a_batch_is_made_whole_or_not_at_all(api: Api) -> None:
    made = api.call(
        "POST",
        "/jobs/batch",
        "producer",
        {"jobs": [{"kind": "a", "idempotency_key": "k"}, {"kind": "a", "idempotency_key": "k"}]},
    )
    assert made.status_code == 201
    first, second = made.json["data"]
    assert (first["created"], second["created"]) == (True, False)
    assert first["id"] == second["id"]

    bad = api.call("POST", "/jobs/batch", "producer", {"jobs": [{"kind": "b"}, {"kind": "B!"}]})
    assert bad.status_code == 422
    assert api.get("/jobs", kind="b")["data"] == []


def test_every_wrong_field_is_named(api: Api) -> None:
    body = {"jobs": [{"kind": "a"}, {"paload": 1, "priority": "high"}]}
    response = api.call("POST", "/jobs/batch", "producer", body)
    assert response.status_code == 422
    assert {(error["field"], error["detail"]) for error in response.json["errors"]} == {
        ("jobs[1].paload", "is unknown"),
        ("jobs[1].priority", "must be a whole number, 0 to 9"),
        ("jobs[1].kind", "is missing"),
    }


def test_a_null_payload_is_a_payload(api: Api) -> None:
    assert api.get(f"/jobs/{api.job(payload=None)}")["payload"] is None
    assert api.get(f"/jobs/{api.job()}")["payload"] == {}


@pytest.mark.parametrize(
    "payload", [[], "text", 1.5, True, {"a": [{"b": None}]}, "\U0001f600 \u202e"]
)
def test_a_payload_is_any_json(api: Api, payload: Any) -> None:
    assert api.get(f"/jobs/{api.job(payload=payload)}")["payload"] == payload


def test_a_payload_of_a_hundred_levels_comes_back(api: Api) -> None:
    deepest = json.loads("[" * 100 + "]" * 100)
    assert api.get(f"/jobs/{api.job(payload=deepest)}")["payload"] == deepest
    response = api.call("POST", "/jobs", "producer", {"kind": "a", "payload": [[[deepest]]]})
    assert response.status_code == 422


# -- looking at them


def test_a_list_is_paged_both_ways(api: Api) -> None:
    made = [api.job() for _ in range(5)]
    newest = made[::-1]

    first = api.get("/jobs", limit=2)
    second = api.get("/jobs", limit=2, cursor=first["page"]["next_cursor"])
    third = api.get("/jobs", limit=2, cursor=second["page"]["next_cursor"])
    back = api.get("/jobs", limit=2, cursor=second["page"]["prev_cursor"])

    pages = [[job["id"] for job in page["data"]] for page in (first, second, third, back)]
    assert pages == [newest[:2], newest[2:4], newest[4:], newest[:2]]
    assert first["page"]["has_more"]
    assert first["page"]["prev_cursor"] is None
    assert third["page"] == {**third["page"], "next_cursor": None, "has_more": False}


def test_a_cursor_is_good_for_its_own_filter_only(api: Api) -> None:
    for _ in range(3):
        api.job(queue="a")
    cursor = api.get("/jobs", limit=1, queue="a")["page"]["next_cursor"]

    assert api.get("/jobs", limit=2, queue="a", cursor=cursor)["data"]
    for path, query in (("/jobs", {}), ("/jobs", {"queue": "b"}), ("/dead", {"queue": "a"})):
        response = api.call("GET", path, "viewer", cursor=cursor, **query)
        assert (response.status_code, response.json["code"]) == (400, "cursor_mismatch")


def test_filters_narrow_the_list(api: Api) -> None:
    one = api.job(queue="a", kind="x", priority=9, payload={"user": {"id": 42}}, headers={"t": "z"})
    api.job(queue="b", kind="y", payload={"user": {"id": "42"}}, delay_seconds=60)

    def ids(**query: Any) -> list[str]:
        return [job["id"] for job in api.get("/jobs", **query)["data"]]

    assert ids(queue="a") == [one]
    assert ids(kind="x") == [one]
    assert ids(priority=9) == [one]
    assert ids(label="ready") == [one]
    assert ids(**{"payload.user.id": "42"}) == [one]
    assert ids(**{"payload.user.id": '"42"'}) != [one]
    assert ids(**{"headers.t": "z"}) == [one]
    assert ids(created_after="2100-01-01T00:00:00Z") == []
    assert len(ids(created_after="2000-01-01T00:00:00+02:00")) == 2
    assert ids(status="failed") == []


def test_the_total_is_counted_and_the_count_alone_too(api: Api, conn: Connection) -> None:
    for _ in range(3):
        api.job(queue="a")
    while Client(conn).roll_up().more:
        pass
    assert api.get("/jobs", queue="a", limit=1)["total"] == {"value": 3, "capped": False}
    assert api.get("/jobs/count", label="ready") == {"value": 3, "capped": False}
    page = api.get("/jobs", queue="a", limit=1)["page"]
    assert api.get("/jobs", queue="a", limit=1, cursor=page["next_cursor"])["total"] is None


def test_a_total_takes_no_second_look_at_rows(
    api: Api, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a page that did not fill has read is what counting would read again."""
    api.job(kind="rare")
    conn.execute(
        """
        insert into queue.jobs (created_at, available_at, max_attempts, kind)
        select now(), now(), 5, 'common' from generate_series(1, 10100)
        """
    )
    while Client(conn).roll_up().more:
        pass
    counted: list[Any] = []
    count_jobs = Client.count_jobs
    monkeypatch.setattr(
        Client, "count_jobs", lambda self, query: counted.append(query) or count_jobs(self, query)
    )
    total = api.get("/jobs", **{"payload.a": "1"})["total"]
    assert (total, counted) == ({"value": 0, "capped": True}, [])
    total = api.get("/jobs", label="ready", kind="rare", created_after="2100-01-01T00:00:00Z")
    assert (total["total"], counted) == ({"value": 0, "capped": True}, [])
    # Counters know of the one that lies beyond; a page that is full has read no more than it shows.
    assert api.get("/jobs", kind="rare")["total"] == {"value": 1, "capped": False}
    assert api.get("/jobs", label="ready")["total"]["capped"]
    assert len(counted) == 2


def test_an_etag_saves_the_body(api: Api) -> None:
    job = api.job()
    first = api.call("GET", f"/jobs/{job}", "viewer")
    seen = {"If-None-Match": first.headers["ETag"]}
    assert api.call("GET", f"/jobs/{job}", "viewer", headers=seen).status_code == 304
    api.call("PATCH", f"/jobs/{job}", "operator", {"priority": 1})
    assert api.call("GET", f"/jobs/{job}", "viewer", headers=seen).status_code == 200


def test_a_page_of_jobs_with_large_payloads_is_small_and_few_statements(
    api: Api, conn: Connection
) -> None:
    payload = json.dumps("x" * (1024 * 1024 - 2))
    conn.execute("select queue.enqueue('big', %s::jsonb) from generate_series(1, 60)", [payload])

    response = api.call("GET", "/jobs", "viewer", limit=50)

    assert len(response.json["data"]) == 50
    assert len(response.data) < 200_000


def test_a_list_costs_as_many_statements_whatever_its_length(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    fetch = Client._fetch

    def counting(self: Client, sql: str, values: list[Any]) -> Any:
        sent.append(sql)
        return fetch(self, sql, values)

    monkeypatch.setattr(Client, "_fetch", counting)

    def statements(path: str, **query: Any) -> int:
        sent.clear()
        api.get(path, **query)
        return len(sent)

    for path in ("/jobs", "/dead", "/events", "/queues", "/dead/groups"):
        api.job(queue="first")
        few = statements(path)
        for number in range(5):
            api.job(queue=f"q{number}")
        assert statements(path) == few, path


def test_what_is_not_there_is_404(api: Api) -> None:
    for path in ("/jobs/99", "/jobs/99/events", "/jobs/99/attempts", "/queues/none"):
        assert api.call("GET", path, "viewer").status_code == 404
    for path in ("/jobs/99/retry", "/jobs/99/cancel", "/jobs/99/run-now"):
        assert api.call("POST", path, "operator").status_code == 404
    assert api.call("DELETE", "/jobs/99", "operator").status_code == 404


# -- its history


def test_events_come_oldest_first_after_the_one_named(api: Api) -> None:
    job = api.fail()

    events = api.get(f"/jobs/{job}/events")
    assert [event["event"] for event in events["data"]] == ["enqueued", "claimed", "failed"]
    assert all("fence" not in event for event in events["data"])
    assert events["data"][0]["actor"] == "token:producer"

    one = api.get(f"/jobs/{job}/events", limit=1)
    assert one["page"]["has_more"]
    rest = api.get(f"/jobs/{job}/events", after=one["page"]["next_after"])
    assert rest["data"] == events["data"][1:]
    assert not api.get(f"/jobs/{job}/events", after=rest["page"]["next_after"])["data"]


def test_a_wait_ends_when_something_happens(api: Api) -> None:
    job = api.job()
    after = api.get(f"/jobs/{job}/events")["page"]["next_after"]
    cancel = threading.Timer(0.7, lambda: api.call("POST", f"/jobs/{job}/cancel", "operator"))
    cancel.start()
    began = time.monotonic()
    found = api.get(f"/jobs/{job}/events", after=after, wait=20)
    assert [event["event"] for event in found["data"]] == ["cancelled"]
    assert time.monotonic() - began < 10
    cancel.join()


def test_a_wait_for_nothing_ends_empty(api: Api) -> None:
    job = api.job()
    after = api.get(f"/jobs/{job}/events")["page"]["next_after"]
    assert api.get(f"/jobs/{job}/events", after=after, wait=1)["data"] == []


def test_only_so_many_wait_at_once(api: Api) -> None:
    job = api.job()
    after = api.get(f"/jobs/{job}/events")["page"]["next_after"]
    path = f"/jobs/{job}/events"
    waiting = [
        threading.Thread(
            target=api.call, args=("GET", path, "viewer"), kwargs={"after": after, "wait": 3}
        )
        for _ in range(jobs.MOST_WAITING)
    ]
    for thread in waiting:
        thread.start()
    time.sleep(1)

    refused = api.call("GET", path, "viewer", after=after, wait=3)
    assert (refused.status_code, refused.json["code"]) == (429, "too_many_waiting")
    assert int(refused.headers["Retry-After"]) > 0
    assert api.get(path, after=after)["data"] == []

    for thread in waiting:
        thread.join()
    assert api.get(path, after=after, wait=1)["data"] == []


def test_attempts_say_how_each_claim_ended(api: Api) -> None:
    job = api.fail()
    (attempt,) = api.get(f"/jobs/{job}/attempts")["data"]
    assert attempt["outcome"] == "failed"
    assert attempt["error_type"] == "CardDeclined"
    assert "fence" not in attempt


# -- steering


def test_a_failed_job_is_retried_once(api: Api) -> None:
    job = api.fail()
    body = {"extra_attempts": 3, "delay_seconds": 60, "reason": "the bank is back"}

    retried = api.call("POST", f"/jobs/{job}/retry", "operator", body)
    assert (retried.status_code, retried.json["status"]) == (200, "queued")
    assert api.get(f"/jobs/{job}")["max_attempts"] == 5 + 3

    again = api.call("POST", f"/jobs/{job}/retry", "operator", body)
    assert (again.status_code, again.json["code"]) == (409, "wrong_state")

    last = api.get(f"/jobs/{job}/events")["data"][-1]
    assert (last["event"], last["actor"]) == ("retried", "token:operator")
    assert last["detail"]["reason"] == "the bank is back"


def test_cancelling_a_running_job_is_202(api: Api) -> None:
    queued, running = api.job(priority=0), api.job(priority=9)
    assert api.claim()["job_id"] == running

    assert api.call("POST", f"/jobs/{queued}/cancel", "operator").status_code == 200
    asked = api.call("POST", f"/jobs/{running}/cancel", "operator", {"reason": "stop"})
    assert asked.status_code == 202
    assert asked.json["cancel_requested"] is True


def test_a_job_is_made_due_and_gets_another_priority(api: Api) -> None:
    job = api.job(delay_seconds=3600)
    assert api.call("POST", f"/jobs/{job}/run-now", "operator").status_code == 200
    assert api.get(f"/jobs/{job}")["label"] == "ready"
    assert api.call("PATCH", f"/jobs/{job}", "operator", {"priority": 9}).status_code == 200
    assert api.get(f"/jobs/{job}")["priority"] == 9


def test_a_finished_job_is_discarded_a_queued_one_not(api: Api) -> None:
    job = api.fail()
    queued = api.job()
    assert api.call("DELETE", f"/jobs/{queued}", "operator").status_code == 409
    assert api.call("DELETE", f"/jobs/{job}", "operator", reason="spam").status_code == 204
    assert api.call("GET", f"/jobs/{job}", "viewer").status_code == 404


def test_a_bulk_action_says_what_became_of_each(api: Api) -> None:
    dead = [api.fail(), api.fail()]
    (group,) = api.get("/dead/groups")["data"]
    assert (group["jobs"], group["kind"], group["sample_id"]) == (2, "email.send", dead[1])
    which = {"filter": {"error_group": group["error_group"]}}

    preview = api.call(
        "POST", "/jobs/bulk", "operator", {"action": "retry", "dry_run": True, **which}
    )
    assert (preview.json["matched"], preview.json["affected"]) == (2, 0)
    done = api.call(
        "POST",
        "/jobs/bulk",
        "operator",
        {"action": "retry", "args": {"spread_seconds": 600}, "reason": "r", **which},
    )
    assert (done.json["affected"], done.json["skipped"]) == (2, 0)
    assert done.json["page"]["has_more"] is False
    assert {row["id"] for row in done.json["data"]} == set(dead)


def test_a_bulk_action_by_ids_skips_what_cannot(api: Api) -> None:
    queued = api.job()
    dead = api.fail(priority=9)
    body = {"action": "retry", "ids": [queued, dead]}
    done = api.call("POST", "/jobs/bulk", "operator", body)
    outcomes = {row["id"]: row["outcome"] for row in done.json["data"]}
    assert outcomes[dead] == "changed"
    assert outcomes.get(queued, "skipped") == "skipped"
    assert done.json["affected"] == 1


@pytest.mark.parametrize(
    "which", [{}, {"filter": {}}, {"all": False}, {"all": True, "ids": ["1"]}, {"ids": []}]
)
def test_a_bulk_action_on_nothing_in_particular_is_refused(api: Api, which: dict[str, Any]) -> None:
    job = api.job()
    response = api.call("POST", "/jobs/bulk", "operator", {"action": "cancel", **which})
    assert response.status_code == 422
    assert api.get(f"/jobs/{job}")["status"] == "queued"


def test_all_has_to_be_said(api: Api) -> None:
    made = {api.job() for _ in range(3)}
    done = api.call("POST", "/jobs/bulk", "operator", {"action": "cancel", "all": True})
    assert (done.json["affected"], done.json["page"]["has_more"]) == (3, False)
    assert {job["id"] for job in api.get("/jobs", status="cancelled")["data"]} == made


def test_a_bulk_action_goes_on_where_it_stopped(api: Api, conn: Connection) -> None:
    """A filter that matches little costs a call no more than one that matches all."""
    conn.execute(
        """
        insert into queue.jobs (created_at, available_at, max_attempts, kind)
        select now(), now(), 5, case when n > 10100 then 'rare' else 'common' end
        from generate_series(1, 10103) as n
        """
    )
    body = {"action": "cancel", "filter": {"kind": "rare"}, "limit": 2}
    affected, cursor = [], None
    for _ in range(4):
        done = api.call("POST", "/jobs/bulk", "operator", {**body, "cursor": cursor}).json
        affected.append(done["affected"])
        cursor = done["page"]["next_cursor"]
        if cursor is None:
            break
    assert affected == [0, 2, 1]


def test_the_cursor_of_a_bulk_action_is_good_for_it_only(api: Api) -> None:
    for _ in range(2):
        api.job()
    body = {"action": "cancel", "all": True, "limit": 1}
    done = api.call("POST", "/jobs/bulk", "operator", body)
    cursor = done.json["page"]["next_cursor"]
    other = api.call(
        "POST", "/jobs/bulk", "operator", {**body, "action": "run_now", "cursor": cursor}
    )
    assert (other.status_code, other.json["code"]) == (400, "cursor_mismatch")


def test_dead_letters_are_the_failed_jobs(api: Api) -> None:
    api.job()
    dead = api.fail(priority=9, queue="default")
    assert [job["id"] for job in api.get("/dead")["data"]] == [dead]
    error = api.get("/dead", queue="default")["data"][0]["last_error"]
    assert (error["type"], error["message"]) == ("CardDeclined", "insufficient funds")
    assert api.get("/dead", queue="other")["data"] == []
