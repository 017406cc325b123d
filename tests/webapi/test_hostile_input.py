"""Attack inputs A16 to A28: each has a clear answer below 500, and nothing else happens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import Connection
from tests.webapi.conftest import Api
from webui import create_app
from webui.config import Config

ID = "4611686018427387904"


@pytest.fixture
def api(shared_api: Api) -> Api:
    return shared_api


def refused(api: Api, fields: dict[str, Any]) -> str:
    """What a refusal says."""
    response = api.call("POST", "/jobs", "producer", {"kind": "a", **fields})
    assert response.status_code == 422, response.get_data(True)
    return f"{response.json['detail']} {response.json.get('hint', '')}"


# -- A16, A17: SQL and patterns are text

SQL = ("'; drop table queue.jobs;--", 'x" ORDER BY (select pg_sleep(5))', "%_%" * 1000, "(a+)+$")


@pytest.mark.parametrize("text", SQL)
def test_sql_in_a_name_is_refused_and_elsewhere_text(api: Api, text: str) -> None:
    assert "kind" in refused(api, {"kind": text})
    assert "queue" in refused(api, {"queue": text})
    if len(text) <= 255:
        job = api.job(idempotency_key=text, payload=text)
        assert api.get(f"/jobs/{job}")["idempotency_key"] == text
        assert [one["id"] for one in api.get("/jobs", idempotency_key=text)["data"]] == [job]


@pytest.mark.parametrize("text", SQL)
@pytest.mark.parametrize("name", ["kind", "queue", "worker", "error_group"])
def test_sql_in_a_filter_finds_nothing(api: Api, name: str, text: str) -> None:
    assert api.get("/jobs", **{name: text})["data"] == []
    assert api.call("GET", "/events", "viewer", kind=text).status_code == 200


@pytest.mark.parametrize("text", SQL)
def test_an_order_cannot_be_asked_for(api: Api, text: str) -> None:
    response = api.call("GET", "/jobs", "viewer", sort=text)
    assert (response.status_code, response.json["code"]) == (400, "invalid_parameter")
    for name in ("status", "label"):
        assert api.call("GET", "/jobs", "viewer", **{name: text}).status_code == 400


# -- A18: pages, cursors and ids that are none


@pytest.mark.parametrize(
    "limit", ["0", "-1", "201", "1000000000", "1e400", "٣", "", "ten", "9" * 400, "true"]
)
def test_a_limit_out_of_range_is_400(api: Api, limit: str) -> None:
    for path in ("/jobs", "/dead", "/dead/groups", "/events", "/events/feed"):
        assert api.call("GET", path, "viewer", limit=limit).status_code == 400
    assert api.call("GET", "/audit", "admin", limit=limit).status_code == 400


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        "AAAA",
        "W10",
        "WzEsMiwzXQ",
        "bnVsbA",
        "W251bGwsMCwiMSJd",
        "\0",
        "=" * 9,
        "A" * 9999,
    ],
)
def test_a_made_up_cursor_is_400(api: Api, cursor: str) -> None:
    for path in ("/jobs", "/dead", "/events"):
        response = api.call("GET", path, "viewer", cursor=cursor)
        assert response.status_code == 400, response.get_data(True)
        assert response.json["code"] in {"invalid_cursor", "cursor_mismatch"}
    assert api.call("GET", "/events/feed", "viewer", after=cursor).status_code == 400


@pytest.mark.parametrize(
    "job", ["1e400", "٣", "-1", "0x10", "1 ", "9" * 19, "9" * 400, "abc", "1.0", "%00", "'", "None"]
)
def test_an_id_that_is_none_is_400(api: Api, job: str) -> None:
    for path in (f"/jobs/{job}", f"/jobs/{job}/events", f"/jobs/{job}/attempts"):
        assert api.call("GET", path, "viewer").status_code in {400, 404}
    assert api.call("GET", f"/jobs/{job}", "viewer").status_code == 400
    assert api.call("POST", f"/jobs/{job}/retry", "operator").status_code == 400


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/jobs", {"priority": "high"}),
        ("/jobs", {"priority": "10"}),
        ("/jobs", {"created_after": "yesterday"}),
        ("/jobs", {"created_after": "2027-01-31"}),
        ("/jobs", {"created_after": "2027-13-31T00:00:00Z"}),
        ("/jobs", {"nope": "1"}),
        ("/jobs", {"payload.": "1"}),
        ("/jobs", {"payload.a..b": "1"}),
        ("/jobs", {"payload.a": "1", "payload.a.b": "1"}),
        ("/jobs", {"payload." + ".".join("a" * 17): "1"}),
        ("/events", {"event": "fialed"}),
        ("/jobs/1", {"x": "1"}),
        ("/jobs/1/events", {"wait": "21"}),
        ("/jobs/1/events", {"after": "x"}),
        ("/stats/throughput", {"bucket_seconds": "1"}),
        ("/stats/throughput", {"bucket_seconds": "1e9"}),
        ("/stats/throughput", {"from": "2020-01-01T00:00:00Z"}),
        ("/stats/latency", {"from": "2027-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}),
        ("/dead/groups", {"since": "infinity"}),
    ],
)
def test_a_wrong_parameter_is_400(api: Api, path: str, query: dict[str, str]) -> None:
    assert api.call("GET", path, "viewer", **query).status_code == 400


def test_a_parameter_that_is_given_twice_is_400(api: Api) -> None:
    assert api.call("GET", "/jobs", "viewer", queue=["a", "b"]).status_code == 400


# -- A19: sizes


def test_a_payload_of_the_limit_is_taken_and_one_byte_more_is_413(api: Api) -> None:
    most = 1024 * 1024 - 2
    job = api.job(payload="x" * most)
    assert len(api.get(f"/jobs/{job}")["payload"]) == most
    response = api.call("POST", "/jobs", "producer", {"kind": "a", "payload": "x" * (most + 1)})
    assert (response.status_code, response.json["code"]) == (413, "too_large")


def test_a_body_beyond_the_limit_is_413_unread(api: Api) -> None:
    response = api.call("POST", "/jobs", "producer", raw=b'"' + b"x" * (9 * 1024 * 1024) + b'"')
    assert (response.status_code, response.json["code"]) == (413, "too_large")


# -- A20 to A23: characters and shapes of JSON


@pytest.mark.parametrize("character", ["\0", "\ud800"])
def test_what_postgresql_cannot_store_is_refused_and_named(api: Api, character: str) -> None:
    for field, value in (
        ("kind", f"a{character}"),
        ("queue", f"a{character}"),
        ("idempotency_key", f"a{character}"),
    ):
        assert field in refused(api, {field: value})
    for field, value in (
        ("payload", {"a": character}),
        ("headers", {"a": character}),
        ("headers", {character: 1}),
    ):
        assert ("NUL" if character == "\0" else field) in refused(api, {field: value})


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b'\xef\xbb\xbf{"kind":"a"}', 400),
        (b'{"kind":"a","payload":NaN}', 400),
        (b'{"kind":"a","payload":-Infinity}', 400),
        (b'{"kind":"a","payload":' + b"9" * 5000 + b"}", 400),
        (b'{"kind":"a","payload":1e400}', 422),
        (b"[" * 100_000, 400),
        (b"[]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b"7", 422),
    ],
)
def test_a_body_that_is_no_object_is_refused(api: Api, raw: bytes, status: int) -> None:
    response = api.call("POST", "/jobs", "producer", raw=raw)
    assert response.status_code == status, response.get_data(True)


def test_of_a_key_given_twice_the_last_counts(api: Api) -> None:
    raw = '{"kind": "a", "payload": {"x": 1, "x": 2}}'
    made = api.call("POST", "/jobs", "producer", raw=raw)
    assert api.get(f"/jobs/{made.json['id']}")["payload"] == {"x": 2}


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/xml", "multipart/form-data; boundary=x"]
)
def test_only_json_is_read(api: Api, content_type: str) -> None:
    response = api.call(
        "POST", "/jobs", "producer", raw=b'{"kind":"a"}', headers={"Content-Type": content_type}
    )
    assert (response.status_code, response.json["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "text", ["\u202egnp.exe", "\U0001f600", "\u0000".replace("\0", "\x01"), "<script>"]
)
def test_odd_text_comes_back_as_it_was(api: Api, text: str) -> None:
    assert api.get(f"/jobs/{api.job(payload={text: text})}")["payload"] == {text: text}


@pytest.mark.parametrize(
    ("method", "path", "role", "body"),
    [
        ("POST", "/jobs", "producer", {"kind": 5}),
        ("POST", "/jobs", "producer", {"kind": "a", "headers": []}),
        ("POST", "/jobs/batch", "producer", {"jobs": {}}),
        ("POST", "/jobs/batch", "producer", {"jobs": []}),
        ("POST", "/jobs/batch", "producer", {"jobs": [{"kind": "a"}] * 1001}),
        ("POST", "/jobs/bulk", "operator", {"action": "explode", "all": True}),
        ("POST", "/jobs/bulk", "operator", {"action": "cancel", "all": "yes"}),
        ("POST", "/jobs/bulk", "operator", {"action": "cancel", "filter": {"nope": 1}}),
        ("PATCH", "/settings", "admin", {}),
        ("PATCH", "/settings", "admin", {"claim_floor": "yes"}),
    ],
)
def test_a_body_of_another_shape_is_422(
    api: Api, method: str, path: str, role: str, body: dict[str, Any]
) -> None:
    response = api.call(method, path, role, body)
    assert (response.status_code, response.json["code"]) == (422, "validation_failed")


# -- A24 to A26: numbers and times out of range


@pytest.mark.parametrize(
    "priority", [10, -1, 2147483647, -2147483648, 2147483648, 10**30, 1e10, 1.5, "5", True]
)
def test_a_priority_out_of_range_is_422(api: Api, priority: Any) -> None:
    refused(api, {"priority": priority})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 10**9),
        ("lease_seconds", 0),
        ("lease_seconds", -1),
        ("lease_seconds", 31_536_000_000),
        ("lease_seconds", 1e300),
        ("lease_seconds", "infinity"),
        ("timeout_seconds", 0),
        ("delay_seconds", 1e10),
        ("available_at", "infinity"),
        ("available_at", "-infinity"),
        ("available_at", "294276-01-01T00:00:00Z"),
        ("available_at", "0044-03-15T12:00:00Z BC"),
        ("available_at", "9999-12-31T23:59:59Z"),
        ("available_at", "2027-01-31T12:00:00"),
        ("available_at", "2027-01-31"),
        ("available_at", 1800000000),
    ],
)
def test_a_value_out_of_range_is_422(api: Api, field: str, value: Any) -> None:
    refused(api, {field: value})


_HUGE = [2**31, 2**32, 99999999999, 2**63 - 1, 2**63, -(2**63) - 1, 10**30]


@pytest.mark.parametrize("number", _HUGE)
@pytest.mark.parametrize(
    ("method", "path", "role", "body", "field", "bounds"),
    [
        ("POST", "/jobs", "producer", {"kind": "a", "priority": ...}, "priority", "0 to 9"),
        ("POST", "/jobs", "producer", {"kind": "a", "max_attempts": ...}, "max_attempts",
         "1 to 100000"),
        ("POST", "/jobs/1/retry", "operator", {"extra_attempts": ...}, "extra_attempts",
         "1 to 100000"),
        ("PATCH", "/jobs/1", "operator", {"priority": ...}, "priority", "0 to 9"),
        ("POST", "/jobs/1/progress", "worker", {"fence": 1, "percent": ...}, "percent", "0 to 100"),
        ("POST", "/jobs/1/progress", "worker", {"fence": ...}, "fence", "0 to 2147483647"),
        ("PATCH", "/queues/q/policy", "admin", {"max_attempts": ...}, "max_attempts",
         "1 to 100000"),
        ("PATCH", "/settings", "admin", {"max_attempts": ...}, "max_attempts", "1 to 100000"),
        ("POST", "/claims", "worker", {"worker": "w", "limit": ...}, "limit", "1 to 200"),
    ],
)  # fmt: skip
def test_a_huge_number_is_422_with_its_field_and_bounds(
    api: Api, method: str, path: str, role: str, body: dict[str, Any], field: str, bounds: str,
    number: int,
) -> None:  # fmt: skip
    sent = {name: number if value is ... else value for name, value in body.items()}
    response = api.call(method, path, role, sent)
    assert response.status_code == 422
    detail = f"must be a whole number, {bounds}"
    assert response.json["errors"] == [{"field": field, "detail": detail}]


@pytest.mark.parametrize("number", _HUGE)
def test_a_huge_number_in_bulk_is_422_with_its_field(api: Api, number: int) -> None:
    for part, field in (
        ({"all": True, "args": {"extra_attempts": number}}, "args.extra_attempts"),
        ({"all": True, "args": {"priority": number}}, "args.priority"),
        ({"filter": {"priority": number}}, "filter.priority"),
    ):
        response = api.call("POST", "/jobs/bulk", "operator", {"action": "retry", **part})
        assert response.status_code == 422
        assert [error["field"] for error in response.json["errors"]] == [field]


@pytest.mark.parametrize("number", _HUGE)
def test_a_huge_number_in_the_address_is_named_or_found_by_nobody(api: Api, number: int) -> None:
    for method, path, role, field in (
        ("GET", f"/jobs/{number}", "viewer", "job_id"),
        ("GET", f"/jobs/{number}/attempts", "viewer", "job_id"),
        ("GET", f"/jobs/{number}/events", "viewer", "job_id"),
        ("POST", f"/jobs/{number}/cancel", "operator", "job_id"),
        ("DELETE", f"/jobs/{number}", "operator", "job_id"),
        ("DELETE", f"/tokens/{number}", "admin", "token_id"),
    ):
        response = api.call(method, path, role)
        if 0 <= number < 2**63:
            assert response.status_code == 404, f"{path}: {response.get_data(True)}"
        else:
            detail = f"must be an id, as text: 0 to {2**63 - 1}"
            assert response.status_code == 400
            assert response.json["errors"] == [{"field": field, "detail": detail}]
    response = api.call("GET", "/jobs", "viewer", priority=str(number))
    assert response.status_code == 400
    assert response.json["errors"][0]["field"] == "priority"
    for path in ("/jobs/1/events", "/events"):
        name = "after" if path.startswith("/jobs") else "job_id"
        response = api.call("GET", path, "viewer", **{name: str(number)})
        assert response.status_code in {200, 404} if 0 <= number < 2**63 else 400


def test_a_time_long_past_means_now(api: Api) -> None:
    job = api.job(available_at="0001-01-01T00:00:00+14:00".replace("0001", "1970"))
    assert api.get(f"/jobs/{job}")["label"] == "ready"


# -- A27: claims


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": 0},
        {"limit": -5},
        {"limit": 10**7},
        {"worker": ""},
        {"worker": "x" * 129},
        {"worker": "x" * 1_000_000},
        {"queues": []},
        {"queues": ["a"] * 33},
        {"queues": "default"},
        {"queues": ["'"]},
    ],
)
def test_a_claim_out_of_bounds_is_422(api: Api, fields: dict[str, Any]) -> None:
    response = api.call("POST", "/claims", "worker", {"worker": "w", **fields})
    assert response.status_code == 422, response.get_data(True)


@pytest.mark.parametrize(
    "claim",
    [
        {},
        {"job_id": ID},
        {"job_id": "x", "fence": 1},
        {"job_id": ID, "fence": "1"},
        {"job_id": ID, "fence": 2**31},
        {"job_id": ID, "fence": 1, "x": 1},
        None,
        7,
    ],
)
def test_a_claim_that_is_none_is_422(api: Api, claim: Any) -> None:
    for path, name in (("/renewals", "claims"), ("/settlements", "outcomes")):
        response = api.call("POST", path, "worker", {name: [claim]})
        assert response.status_code == 422, response.get_data(True)


# -- A28: keys


def test_a_key_is_at_most_255_characters(api: Api) -> None:
    api.job(idempotency_key="k" * 255)
    for key in ("k" * 256, "k" * 1_000_000, ""):
        refused(api, {"idempotency_key": key})
    header = {"Idempotency-Key": "k" * 300}
    assert api.call("POST", "/jobs", "producer", {"kind": "a"}, headers=header).status_code == 422


# -- and the form of every error


def test_an_address_that_is_none_is_a_problem_too(api: Api) -> None:
    for path in ("/api/v1/nope", "/api/nope", "/api/v1/jobs/1/nope"):
        response = api.call("GET", path, "viewer")
        assert (response.status_code, response.json["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE"])
def test_a_method_that_is_none_is_405_and_says_which_are(api: Api, method: str) -> None:
    response = api.call(method, "/jobs", "operator")
    assert (response.status_code, response.json["code"]) == (405, "method_not_allowed")
    assert {"GET", "POST"} <= set(response.headers["Allow"].split(", "))


def test_a_get_changes_nothing(api: Api) -> None:
    job = api.job()
    for action in ("retry", "cancel", "run-now"):
        assert api.call("GET", f"/jobs/{job}/{action}", "operator").status_code == 405
    assert api.get(f"/jobs/{job}")["status"] == "queued"


def test_an_error_of_our_own_is_a_problem_without_a_traceback(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the secret of the house")

    monkeypatch.setattr("pyworker.client.Client.list_queues", broken)
    response = api.app.test_client().get(
        "/api/v1/queues", headers={"Authorization": f"Bearer {api.tokens['viewer']}"}
    )
    assert (response.status_code, response.mimetype) == (500, "application/problem+json")
    assert "secret of the house" not in response.get_data(True)
    assert response.json["request_id"] == response.headers["X-Request-Id"]


def test_the_request_id_is_echoed_and_a_bad_one_replaced(api: Api) -> None:
    own = "3f2c9f6e-1d2b-4c8a-9b7e-0a1b2c3d4e5f"
    assert api.call("GET", "/whoami", headers={"X-Request-Id": own}).headers["X-Request-Id"] == own
    for bad in ("x" * 65, "a b", "<script>", "é"):
        response = api.call("GET", "/whoami", headers={"X-Request-Id": bad})
        assert response.headers["X-Request-Id"] not in {bad, ""}


def test_a_host_that_is_not_ours_is_a_problem(api: Api) -> None:
    url = api.database.url_as("queue_web")
    app = create_app(Config(database_url=url, trusted_hosts=("localhost",)))
    picky = Api(app, api.database, api.tokens)
    response = picky.call("GET", "/whoami", headers={"Host": "evil.example"})
    assert (response.status_code, response.mimetype) == (400, "application/problem+json")
    assert "evil.example/" not in response.get_data(True)
    assert picky.call("GET", "/whoami", headers={"Host": "localhost:8000"}).status_code == 200


def test_head_is_get_without_a_body(api: Api) -> None:
    token = {"Authorization": f"Bearer {api.tokens['viewer']}"}
    browser = api.app.test_client()
    head, get = (browser.open("/api/v1/settings", method=m, headers=token) for m in ("HEAD", "GET"))
    assert (head.status_code, head.data) == (200, b"")
    assert head.headers["ETag"] == get.headers["ETag"]
    assert browser.head("/api/v1/settings").status_code == 401
    assert browser.options("/api/v1/settings").status_code == 401


def test_the_jobs_table_is_still_there(api: Api, conn: Connection) -> None:
    assert json.dumps(api.get("/jobs")["total"])
    assert conn.execute("select count(*) from queue.jobs").fetchone() is not None
