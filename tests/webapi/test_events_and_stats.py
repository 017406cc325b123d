"""Events, figures, queues, policies, settings, the audit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyworker.client import Client
from tests.support.cluster import Connection, Database
from tests.webapi.conftest import Api

# -- events


def test_events_come_newest_first_by_pages(api: Api) -> None:
    made = [api.job() for _ in range(5)][::-1]
    first = api.get("/events", limit=3)
    second = api.get("/events", limit=3, cursor=first["page"]["next_cursor"])
    assert [event["job_id"] for event in first["data"] + second["data"]] == made
    assert second["page"]["next_cursor"] is None


def test_events_are_filtered_and_a_rare_one_is_found_beyond_the_window(
    api: Api, conn: Connection
) -> None:
    rare = api.job(kind="rare")
    conn.execute("select queue.enqueue('common') from generate_series(1, 10100)")
    found, cursor, pages = [], None, 0
    while pages < 5:
        more = {} if cursor is None else {"cursor": cursor}
        page = api.get("/events", kind="rare", **more)
        found += [event["job_id"] for event in page["data"]]
        cursor = page["page"]["next_cursor"]
        pages += 1
        if cursor is None:
            break
    assert (found, pages) == ([rare], 2)


def test_events_of_one_job(api: Api) -> None:
    job = api.fail()
    page = api.get("/events", job_id=job, limit=2)
    rest = api.get("/events", job_id=job, limit=2, cursor=page["page"]["next_cursor"])
    events = [event["event"] for event in page["data"] + rest["data"]]
    assert events == ["enqueued", "claimed", "failed"]
    assert api.get("/events", job_id=job, event="failed")["data"] == rest["data"]


def test_a_follower_sees_each_event_once(api: Api) -> None:
    api.job()
    here = api.get("/events/feed")
    assert here["data"] == []
    made = [api.job() for _ in range(5)]

    seen: list[str] = []
    after = here["page"]["next_after"]
    for _ in range(10):
        page = api.get("/events/feed", after=after, limit=2)
        seen += [event["job_id"] for event in page["data"]]
        after = page["page"]["next_after"]
        if not page["data"]:
            break
    assert seen == made


# -- figures


def test_stats_throughput_and_latency(api: Api, conn: Connection) -> None:
    job = api.job(queue="email")
    claim = api.claim(queues=["email"])
    one = {"job_id": job, "fence": claim["fence"], "outcome": "complete"}
    api.call("POST", "/settlements", "worker", {"outcomes": [one]})
    api.job(queue="email")
    while Client(conn).roll_up().more:
        pass

    figures = {
        row["name"]: row["value"] for row in api.get("/stats")["data"] if row["priority"] is None
    }
    assert (figures["ready"], figures["running"]) == (1, 0)

    buckets = api.get("/stats/throughput", queue="email", bucket_seconds=600)["data"]
    assert sum(row["enqueued"] for row in buckets) == 2
    assert sum(row["succeeded"] for row in buckets) == 1
    assert len(buckets) == len(api.get("/stats/latency", bucket_seconds=600)["data"])
    assert any(
        row["run_p95_seconds"] is not None
        for row in api.get("/stats/latency", kind="email.send")["data"]
    )


def test_from_and_to_bound_the_buckets(api: Api, conn: Connection) -> None:
    row = conn.execute("select now() - interval '30 minutes', now()").fetchone()
    assert row is not None
    span = {"from": row[0].isoformat(), "to": row[1].isoformat(), "bucket_seconds": 600}
    assert 3 <= len(api.get("/stats/throughput", **span)["data"]) <= 4


def test_workers_over_http_have_leases_and_no_session(api: Api) -> None:
    api.job()
    api.claim()
    (worker,) = api.get("/workers")["data"]
    assert (worker["worker"], worker["sessions"], worker["running"]) == ("w1", 0, 1)
    assert worker["oldest_lease_left_seconds"] > 0


# -- queues and policies


def test_a_queue_is_paused_and_resumed_and_says_by_whom(api: Api) -> None:
    api.job(queue="billing")
    body = {"reason": "the bank is down", "until": "2035-01-01T00:00:00+01:00"}
    paused = api.call("POST", "/queues/billing/pause", "operator", body)
    assert paused.json["paused_until"] == "2034-12-31T23:00:00.000000Z"
    assert (
        api.call("POST", "/claims", "worker", {"worker": "w", "queues": ["billing"]}).json["data"]
        == []
    )
    assert api.get("/queues/billing")["pause_reason"] == "the bank is down"

    def resume() -> Any:
        return api.call("POST", "/queues/billing/resume", "operator").json

    assert resume() == {"queue": "billing", "resumed": True}
    assert resume() == {"queue": "billing", "resumed": False}
    assert (
        len(
            api.call("POST", "/claims", "worker", {"worker": "w", "queues": ["billing"]}).json[
                "data"
            ]
        )
        == 1
    )


def test_pausing_until_a_time_gone_by_is_422(api: Api) -> None:
    body = {"until": "2020-01-01T00:00:00Z"}
    assert api.call("POST", "/queues/billing/pause", "operator", body).status_code == 422


def test_a_policy_is_changed_and_unset(api: Api) -> None:
    path = "/queues/billing/policy"
    assert set(api.get(path).values()) == {None}
    changed = api.call(
        "PATCH",
        path,
        "operator",
        {"lease_seconds": 90061.5 / 60, "failed_retention_seconds": 90000, "max_attempts": 3},
    )
    assert changed.json["lease_seconds"] == 90061.5 / 60
    assert changed.json["failed_retention_seconds"] == 90000
    assert api.get(path) == changed.json

    unset = api.call("PATCH", path, "operator", {"lease_seconds": None, "max_attempts": 4})
    assert (unset.json["lease_seconds"], unset.json["max_attempts"]) == (None, 4)
    assert unset.json["failed_retention_seconds"] == 90000


@pytest.mark.parametrize(
    "body", [{}, {"reason": "r"}, {"lease_seconds": 0}, {"lease": "5 s"}, {"max_attempts": "3"}]
)
def test_a_policy_that_says_nothing_or_nonsense_is_422(api: Api, body: dict[str, Any]) -> None:
    assert api.call("PATCH", "/queues/billing/policy", "operator", body).status_code == 422


# -- settings


def test_settings_are_changed_by_those_who_saw_them_as_they_are(api: Api) -> None:
    seen = api.call("GET", "/settings", "admin")
    etag = {"If-Match": seen.headers["ETag"]}
    assert seen.json["failed_retention_seconds"] == 30 * 86400

    first = api.call("PATCH", "/settings", "admin", {"lease_seconds": 30.5}, headers=etag)
    assert (first.status_code, first.json["lease_seconds"]) == (200, 30.5)
    late = api.call("PATCH", "/settings", "admin", {"lease_seconds": 20}, headers=etag)
    assert (late.status_code, late.json["code"]) == (412, "changed_meanwhile")
    anyway = api.call(
        "PATCH", "/settings", "admin", {"lease_seconds": 20}, headers={"If-Match": "*"}
    )
    assert anyway.json["lease_seconds"] == 20
    etag = {"If-Match": anyway.headers["ETag"]}
    next_one = api.call("PATCH", "/settings", "admin", {"lease_seconds": 25}, headers=etag)
    assert (next_one.status_code, next_one.json["lease_seconds"]) == (200, 25)
    assert api.get("/audit", "admin")["data"][0]["action"] == "set_settings"


CHANGES = {
    "/settings": ('queue.set_settings(\'{"lease": "9 s"}\')', {"max_attempts": 3}),
    "/queues/q/policy": ("queue.set_policy('q', lease => '9 s')", {"max_attempts": 3}),
}


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_that_another_overtakes_is_412(
    path: str, api: Api, database: Database, conn: Connection
) -> None:
    """What If-Match names is compared when nobody else can change it any more."""
    call, body = CHANGES[path]
    etag = {"If-Match": api.call("GET", path, "admin").headers["ETag"]}
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"select {call}")
        late = pool.submit(api.call, "PATCH", path, "admin", body, headers=etag)
        while not conn.execute(
            "select 1 from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0"
        ).fetchone():
            assert not late.done()
        other.commit()
        assert (late.result().status_code, late.result().json["code"]) == (412, "changed_meanwhile")
    now = api.get(path)
    assert now["lease_seconds"] == 9
    assert now["max_attempts"] != 3


@pytest.mark.parametrize("path", CHANGES)
def test_two_changes_at_once_are_both_kept(
    path: str, api: Api, database: Database, conn: Connection
) -> None:
    call, body = CHANGES[path]
    with database.connect(autocommit=False) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"select {call}")
        late = pool.submit(api.call, "PATCH", path, "admin", body)
        while not conn.execute(
            "select 1 from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0"
        ).fetchone():
            assert not late.done()
        other.commit()
        assert late.result().status_code == 200
    now = api.get(path)
    assert (now["lease_seconds"], now["max_attempts"]) == (9, 3)


def test_a_setting_out_of_bounds_changes_none(api: Api) -> None:
    body = {"max_attempts": 9, "lease_seconds": 0}
    assert api.call("PATCH", "/settings", "admin", body).status_code == 422
    assert api.get("/settings")["max_attempts"] == 5


def test_intervals_of_any_form_are_seconds(api: Api, conn: Connection) -> None:
    spans = {"1 day 02:03:04.5": 93784.5, "400 days": 34560000, "1 year 2 mons": 36741600}
    for text, seconds in spans.items():
        conn.execute("select queue.set_policy('q', failed_retention => %s::interval)", [text])
        assert api.get("/queues/q/policy")["failed_retention_seconds"] == seconds


# -- the audit


def test_the_audit_is_paged(api: Api) -> None:
    first = api.get("/audit", "admin", limit=3)
    second = api.get("/audit", "admin", limit=3, cursor=first["page"]["next_cursor"])
    ids = [int(row["id"]) for row in first["data"] + second["data"]]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 5
    assert second["page"] == {"next_cursor": None, "prev_cursor": None, "has_more": False}


def test_capabilities_say_what_one_may(api: Api) -> None:
    for role in ("viewer", "operator", "admin"):
        assert api.get("/capabilities", role)["role"] == role
    assert api.get("/whoami", "producer") == {
        "name": "producer",
        "role": "producer",
        "actor": "token:producer",
        "by": "token",
    }
