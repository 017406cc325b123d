"""Who gets in, as whom, and what the database lets them do (A7, A9, A10, A13, A15, A29 to A31)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import Client as Browser

from pyworker.client import Client
from tests.support.cluster import Connection
from tests.webapi.conftest import Api, operations
from webui import auth


@pytest.fixture
def session(api: Api, conn: Connection) -> tuple[Browser, str]:
    """A browser in which an operator is signed in, and the token of its forms."""
    client = Client(conn)
    client.create_account("alice", "operator")
    secret = client.start_session("alice")
    browser = api.app.test_client()
    browser.set_cookie("rowlock", secret)
    return browser, auth.form_token(secret)


# -- tokens


def test_nobody_gets_in_without_a_token(api: Api) -> None:
    for method, path, _ in operations():
        address = path.replace("{", "").replace("}", "")
        response = api.app.test_client().open(address, method=method)
        assert response.status_code == 401, f"{method} {path}"
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "given", ["Bearer", "Bearer ", "Bearer x", "bearer " + "x" * 5000, "Bearer \xff"]
)
def test_a_made_up_token_is_401(api: Api, given: str) -> None:
    response = api.call("GET", "/whoami", None, headers={"Authorization": given})
    assert (response.status_code, response.json["code"]) == (401, "unauthenticated")


def test_a_revoked_token_is_401_from_then_on(api: Api) -> None:
    made = api.call("POST", "/tokens", "admin", {"name": "t", "role": "viewer"}).json
    mine = {"Authorization": f"Bearer {made['secret']}"}
    assert api.call("GET", "/jobs", None, headers=mine).status_code == 200

    assert api.call("DELETE", f"/tokens/{made['id']}", "admin").status_code == 204

    assert api.call("GET", "/jobs", None, headers=mine).status_code == 401


def test_an_expired_token_is_401(api: Api, conn: Connection) -> None:
    made = Client(conn).create_token("t", "viewer", timedelta(minutes=1))
    conn.execute(
        "update queue.tokens set created_at = created_at - interval '1 h',"
        " expires_at = expires_at - interval '1 h' where id = %s",
        [made.id],
    )
    mine = {"Authorization": f"Bearer {made.secret}"}
    assert api.call("GET", "/jobs", None, headers=mine).status_code == 401


@pytest.mark.parametrize("name", ["token", "access_token", "api_key", "Authorization", "bearer"])
def test_a_token_in_the_address_counts_nothing(api: Api, name: str) -> None:
    response = api.call("GET", "/whoami", None, **{name: api.tokens["admin"]})
    assert response.status_code == 401


def test_a_bad_token_is_not_made_good_by_a_cookie(api: Api, session: tuple[Browser, str]) -> None:
    browser, _ = session
    assert browser.get("/api/v1/whoami").json["role"] == "operator"
    refused = browser.get("/api/v1/whoami", headers={"Authorization": "Bearer nonsense"})
    assert refused.status_code == 401


def test_a_token_is_shown_once_and_kept_as_a_digest(api: Api, conn: Connection) -> None:
    made = api.call("POST", "/tokens", "admin", {"name": "t", "role": "viewer"}).json
    listed = api.call("GET", "/tokens", "admin")
    assert made["secret"] not in listed.get_data(True)
    rows = conn.execute("select to_jsonb(token)::text from queue.tokens as token").fetchall()
    assert not any(made["secret"] in row for (row,) in rows)


def test_a_token_says_how_long_it_lives(api: Api) -> None:
    def expires(**more: Any) -> str | None:
        body = {"name": "t", "role": "viewer", **more}
        found: str | None = api.call("POST", "/tokens", "admin", body).json["expires_at"]
        return found

    assert expires() is not None
    assert expires(lifetime_seconds=None) is None
    assert str(expires(lifetime_seconds=60)) < str(expires())


# -- roles: what each may not, one by one (the matrix of all is in test_document.py)


@pytest.mark.parametrize(
    ("role", "method", "path", "body"),
    [
        ("producer", "GET", "/jobs", None),
        ("producer", "GET", "/jobs/1", None),
        ("producer", "GET", "/events", None),
        ("producer", "POST", "/claims", {"worker": "w"}),
        ("producer", "POST", "/jobs/1/retry", None),
        ("worker", "POST", "/jobs", {"kind": "a"}),
        ("worker", "POST", "/jobs/batch", {"jobs": [{"kind": "a"}]}),
        ("worker", "GET", "/jobs/1", None),
        ("worker", "POST", "/queues/default/pause", None),
        ("worker", "PATCH", "/settings", {"lease_seconds": 5}),
        ("viewer", "POST", "/jobs", {"kind": "a"}),
        ("viewer", "POST", "/jobs/1/retry", None),
        ("viewer", "POST", "/jobs/1/cancel", None),
        ("viewer", "POST", "/jobs/bulk", {"action": "cancel", "all": True}),
        ("viewer", "DELETE", "/jobs/1", None),
        ("viewer", "GET", "/audit", None),
        ("viewer", "GET", "/tokens", None),
        ("operator", "PATCH", "/settings", {"lease_seconds": 5}),
        ("operator", "POST", "/tokens", {"name": "t", "role": "admin"}),
        ("operator", "POST", "/accounts", {"account": "mallory", "role": "admin"}),
        ("operator", "POST", "/claims", {"worker": "w"}),
    ],
)
def test_a_role_may_not(
    shared_api: Api, role: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    response = shared_api.call(method, path, role, body)
    assert (response.status_code, response.json["code"]) == (403, "not_allowed")
    assert response.json["detail"].startswith("permission denied for function")


def test_a_refusal_changes_nothing_and_is_in_the_audit(api: Api) -> None:
    job = api.job()
    assert api.call("POST", f"/jobs/{job}/cancel", "viewer").status_code == 403
    assert api.get(f"/jobs/{job}")["status"] == "queued"
    entry = api.get("/audit", "admin")["data"][0]
    assert (entry["action"], entry["actor"]) == ("refused", "token:viewer")
    assert entry["detail"]["attempt"] == f"POST /api/v1/jobs/{job}/cancel"


def test_the_actor_is_whose_token_it_is(api: Api) -> None:
    api.call("POST", "/queues/email/pause", "operator", {"reason": "the server moves"})
    queue = api.get("/queues/email")
    assert (queue["paused"], queue["paused_by"]) == (True, "token:operator")
    assert queue["pause_reason"] == "the server moves"
    assert api.get("/audit", "admin")["data"][0]["actor"] == "token:operator"


def test_one_request_does_not_inherit_the_role_of_the_last(api: Api) -> None:
    assert api.call("GET", "/tokens", "admin").status_code == 200
    assert api.call("GET", "/tokens", "viewer").status_code == 403
    assert api.call("GET", "/tokens", "admin").status_code == 200


# -- sessions: a cookie, and then the rule for forms


def test_a_session_reads_as_its_account(session: tuple[Browser, str]) -> None:
    browser, _ = session
    assert browser.get("/api/v1/whoami").json == {
        "name": "alice",
        "role": "operator",
        "actor": "alice",
        "by": "session",
    }


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Form-Token": "0" * 64},
        {"X-Form-Token": "mine", "Origin": "https://evil.example"},
        {"X-Form-Token": "mine", "Origin": "null"},
        {"X-Form-Token": "mine", "Sec-Fetch-Site": "cross-site"},
        {"X-Form-Token": "mine", "Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_cookie_alone_or_from_another_site_changes_nothing(
    api: Api, session: tuple[Browser, str], headers: dict[str, str]
) -> None:
    browser, form_token = session
    job = api.job()
    sent = {name: form_token if text == "mine" else text for name, text in headers.items()}
    for method, path in (
        ("POST", f"jobs/{job}/cancel"),
        ("PATCH", f"jobs/{job}"),
        ("DELETE", f"jobs/{job}"),
    ):
        response = browser.open(f"/api/v1/{path}", method=method, headers=sent, json={})
        assert response.status_code == 403
        assert response.mimetype == "application/problem+json"
    assert api.get(f"/jobs/{job}")["status"] == "queued"


def test_a_session_with_its_form_token_may(api: Api, session: tuple[Browser, str]) -> None:
    browser, form_token = session
    job = api.job()
    response = browser.post(
        f"/api/v1/jobs/{job}/cancel",
        headers={
            "X-Form-Token": form_token,
            "Origin": "http://localhost",
            "Sec-Fetch-Site": "same-origin",
        },
        json={"reason": "r"},
    )
    assert response.status_code == 200
    assert api.get(f"/jobs/{job}/events")["data"][-1]["actor"] == "alice"


def test_a_token_needs_no_form_token_from_anywhere(api: Api) -> None:
    response = api.call(
        "POST", "/jobs", "producer", {"kind": "a"}, headers={"Origin": "https://elsewhere.example"}
    )
    assert response.status_code == 201


def test_a_session_that_ended_is_401(api: Api, session: tuple[Browser, str]) -> None:
    browser, _ = session
    assert api.call("DELETE", "/accounts/alice", "admin").status_code == 204
    assert browser.get("/api/v1/whoami").status_code == 401


def test_the_docs_page_needs_a_session(app: Flask, session: tuple[Browser, str]) -> None:
    browser, form_token = session
    assert app.test_client().get("/api/docs/").status_code == 303
    page = browser.get("/api/docs/")
    assert page.status_code == 200
    assert form_token in page.get_data(True)
    assert "<script>" not in page.get_data(True)
    for name in ("swagger-ui.css", "swagger-ui-bundle.js"):
        assert browser.get(f"/api/docs/assets/{name}").status_code == 200
    assert browser.get("/api/docs/assets/..%2f..%2f__init__.py").status_code == 404


# -- accounts


def test_accounts_are_made_changed_and_disabled(api: Api) -> None:
    made = {"account": "bob", "role": "viewer", "password": "correct horse battery"}
    assert api.call("POST", "/accounts", "admin", made).status_code == 201
    assert api.call("POST", "/accounts", "admin", made).status_code == 409
    assert api.call("PATCH", "/accounts/bob", "admin", {"role": "operator"}).status_code == 204
    assert api.call("PATCH", "/accounts/bob", "admin", {"reason": "r"}).status_code == 422
    link = api.call("POST", "/accounts/bob/links", "admin", {"lifetime_seconds": 60})
    assert link.status_code == 201
    (bob,) = api.get("/accounts", "admin")["data"]
    assert (bob["role"], bob["has_password"], bob["disabled_at"]) == ("operator", True, None)
    assert api.call("DELETE", "/accounts/bob", "admin", reason="left").status_code == 204
    (bob,) = api.get("/accounts", "admin")["data"]
    assert bob["disabled_at"]
    link = api.call("POST", "/accounts/bob/links", "admin", {})
    assert (link.status_code, link.json["code"]) == (409, "wrong_state")
    assert api.call("DELETE", "/accounts/none", "admin").status_code == 404


def test_a_short_password_is_refused_and_never_shown(api: Api, conn: Connection) -> None:
    made = {"account": "bob", "role": "viewer", "password": "short"}
    response = api.call("POST", "/accounts", "admin", made)
    assert response.status_code == 422
    assert "short'" not in response.get_data(True)
    made["password"] = "correct horse battery"
    api.call("POST", "/accounts", "admin", made)
    rows = conn.execute("select to_jsonb(entry)::text from queue.audit as entry").fetchall()
    assert not any("correct horse" in row for (row,) in rows)
