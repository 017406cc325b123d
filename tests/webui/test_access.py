"""Who gets in, and what the database refuses: sessions, forms of other sites, roles, redirects."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from werkzeug.routing import Rule

from tests.webui.conftest import ORIGIN, ROLES, Browser, Site
from webui import auth, create_app
from webui.config import Config
from webui.views import NOUNS

PASSWORD = "correct horse battery"
PUBLIC = {"sign_in.form", "sign_in.check", "sign_in.link", "sign_in.redeem"}
ANYBODYS = {"sign_in.sign_out", "preferences.set_theme"}
"""What changes nothing of the queue: any role may."""

FORMS: dict[str, dict[str, str]] = {
    "jobs.reprioritize": {"priority": "9"},
    "jobs.create": {"kind": "pay"},
    "jobs.change_many": {"action": "retry", "all": "1"},
    "queues.pause": {"reason": "x"},
    "settings.save": {"max_attempts": "9"},
    "settings.create_account": {"account": "eve", "role": "admin"},
    "settings.set_account": {"role": "admin"},
    "settings.create_token": {"name": "eve", "role": "admin"},
}
"""Of routes that look at their form before they ask the database."""

ADMINS = {
    "settings.save", "settings.create_account", "settings.set_account", "settings.create_link",
    "settings.create_token", "settings.revoke_token",
}  # fmt: skip


def _rules(app: Flask) -> Iterator[Rule]:
    for rule in app.url_map.iter_rules():
        if rule.endpoint.split(".")[0] in NOUNS:
            yield rule


def _address(rule: Rule, job_id: int = 1) -> str:
    values = {"job_id": job_id, "name": "default", "account": "viewer", "token_id": 1,
              "secret": "x", "part": "job", "form": "csv"}  # fmt: skip
    address = rule.rule
    for name in rule.arguments:
        address = address.replace(f"<{name}>", str(values[name]))
    return address


def _changes(rule: Rule) -> bool:
    return "POST" in (rule.methods or set())


def test_the_walk_sees_every_screen(site: Site) -> None:
    rules = list(_rules(site.app))
    assert {rule.endpoint.split(".")[0] for rule in rules} == set(NOUNS)
    assert sum(map(_changes, rules)) >= 19


def test_nobody_gets_anything_without_signing_in(site: Site, nobody: Browser) -> None:
    job_id = site.fail()
    before = site.state()
    for rule in _rules(site.app):
        if rule.endpoint in PUBLIC:
            continue
        address = _address(rule, job_id)
        answer = nobody.post(address) if _changes(rule) else nobody.get(address)
        assert answer.status_code == 303, rule
        assert answer.headers["Location"].startswith("/sign-in"), rule
    assert site.state() == before


@pytest.mark.parametrize("role", ROLES)
def test_the_database_refuses_what_a_role_may_not_and_the_audit_tells(
    site: Site, role: str
) -> None:
    browser = site.browser(role)
    job_id = site.fail()
    site.queue.create_token("t", "viewer")
    if role != "viewer":
        site.queue.create_account("viewer", "viewer")
    refused = []
    for rule in _rules(site.app):
        if not _changes(rule) or rule.endpoint in PUBLIC | ANYBODYS:
            continue
        may = role == "admin" or (role == "operator" and rule.endpoint not in ADMINS)
        if may:
            continue
        before = site.state()
        answer = browser.post(_address(rule, job_id), FORMS.get(rule.endpoint))
        assert answer.status_code == 403, f"{rule}: {answer.text}"
        assert "permission denied for" in answer.text, f"{rule}: not the database's own words"
        assert f"role <b>{role}</b>" in answer.text
        assert site.state() == before, rule
        refused.append(f"POST {_address(rule, job_id)}")

    audit = [item for item in site.queue.list_audit() if item.action == "refused"]
    assert sorted(item.detail["attempt"] for item in audit) == sorted(refused)
    assert {(item.actor, item.detail["role"]) for item in audit} <= {(role, role)}
    assert len(refused) == {"viewer": 17, "operator": 6, "admin": 0}[role]


def test_a_viewer_sees_no_accounts_tokens_or_audit(viewer: Browser) -> None:
    for path in ("accounts", "tokens", "audit"):
        page = viewer.get(f"/settings/{path}")
        assert page.status_code == 403
        assert "permission denied for function" in page.text


def test_a_changing_route_is_no_link(site: Site, admin: Browser) -> None:
    both = {rule.rule for rule in _rules(site.app) if not _changes(rule)}
    for rule in _rules(site.app):
        if _changes(rule) and rule.rule not in both:
            answer = admin.get(_address(rule))
            assert answer.status_code == 405, rule
            assert "POST" in answer.headers["Allow"]


# -- forms of other sites (A7, A40)


@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("", {"Origin": ORIGIN}),
        ("0" * 64, {"Origin": ORIGIN}),
        (None, {"Origin": "https://evil.example"}),
        (None, {"Origin": "http://evil.example"}),
        (None, {"Origin": "null"}),
        (None, {"Origin": "http://localhost.evil.example"}),
        (None, {"Origin": "http://localhost:8080"}),
        (None, {"Sec-Fetch-Site": "cross-site"}),
        (None, {"Sec-Fetch-Site": "same-site"}),
    ],
)
def test_a_form_from_elsewhere_changes_nothing(
    site: Site, token: str | None, headers: dict[str, str]
) -> None:
    browser = site.browser("admin")
    job_id = site.fail()
    before = site.state()
    for rule in _rules(site.app):
        if not _changes(rule) or rule.endpoint in PUBLIC:
            continue
        form = dict(FORMS.get(rule.endpoint, {}))
        if token is not None:
            form["form_token"] = token
        answer = browser.post(_address(rule, job_id), form, headers=headers)
        assert answer.status_code == 403, rule
    assert site.state() == before
    assert browser.get("/").status_code == 200, "not even signed out"
    assert any(item.action == "refused" for item in site.queue.list_audit())


def test_another_sessions_token_is_no_good(site: Site, operator: Browser) -> None:
    job_id = site.fail()
    other = auth.form_token(site.queue.start_session("operator"))
    answer = operator.post(f"/jobs/{job_id}/retry", {"form_token": other})
    assert answer.status_code == 403
    assert site.job(job_id).status == "failed"


def test_signing_in_from_another_site_is_refused(site: Site, nobody: Browser) -> None:
    site.queue.create_account("ada", "admin", auth.hash_password(PASSWORD))
    form = {"account": "ada", "password": PASSWORD}
    answer = nobody.post("/sign-in", form, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


# -- signing in


def _try(browser: Browser, account: str, password: str, **more: Any) -> Any:
    return browser.post("/sign-in", {"account": account, "password": password, **more})


def test_a_session_from_sign_in_to_sign_out(site: Site, nobody: Browser) -> None:
    site.queue.create_account("ada", "operator", auth.hash_password(PASSWORD))
    wrong = _try(nobody, "ada", "something else")
    assert wrong.status_code == 401
    assert "Account or password is wrong." in wrong.text
    right = _try(nobody, "  ADA ", PASSWORD, next="/jobs?status=failed")
    assert right.headers["Location"] == "/jobs?status=failed"
    cookie = right.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    secret = cookie.split("=", 1)[1].split(";")[0]
    assert len(secret) >= 43
    kept = site.conn.execute("select digest::text from queue.sessions").fetchall()
    assert all(secret not in digest for (digest,) in kept), "only its digest is kept"

    browser = Browser(nobody.client, secret)
    assert "ada" in browser.get("/").text
    answer = browser.post("/sign-out")
    assert answer.headers["Location"].startswith("/sign-in")
    replay = site.app.test_client()
    replay.set_cookie("rowlock", secret)
    assert replay.get("/").status_code == 303, "A13: the session ended on the server"


def test_every_sign_in_has_a_session_of_its_own(site: Site) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    cookies = set()
    for _ in range(2):
        browser = site.browser(None)
        browser.client.set_cookie("rowlock", "f" * 64)
        cookies.add(_try(browser, "ada", PASSWORD).headers["Set-Cookie"].split(";")[0])
    assert len(cookies) == 2
    assert "rowlock=" + "f" * 64 not in cookies


@pytest.mark.parametrize(
    ("referrer", "place"),
    [
        ("http://localhost/jobs/7?after=3", "/sign-in?next=/jobs/7?after%3D3"),
        ("http://evil.example/jobs/7", "/sign-in"),
        (None, "/sign-in"),
    ],
)
def test_a_form_of_a_session_that_ended_leads_back_to_its_page(
    nobody: Browser, referrer: str | None, place: str
) -> None:
    headers = {"Origin": ORIGIN, **({"Referer": referrer} if referrer else {})}
    answer = nobody.post("/jobs/7/retry", headers=headers)
    assert (answer.status_code, answer.headers["Location"]) == (303, place)


def test_cookies_that_were_made_up_are_nobodys(site: Site) -> None:
    site.browser("admin")
    for made_up in ("", "x", "0" * 64, "0" * 3000, "' or 1=1 --"):
        client = site.app.test_client()
        client.set_cookie("rowlock", made_up)
        assert client.get("/").status_code == 303, made_up


def test_wrong_passwords_are_throttled_and_tell_nothing(site: Site) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    known = [_try(site.browser(None), "ada", f"wrong {n}") for n in range(10)]
    unknown = [_try(site.browser(None), "nobody", f"wrong {n}") for n in range(10)]
    statuses = [answer.status_code for answer in known]
    assert statuses == [401] * 5 + [429] * 5
    assert [answer.status_code for answer in unknown] == statuses
    given = re.compile(r'data-now="[^"]*"|value="(ada|nobody)"')
    texts = {re.sub(given, "", answer.text) for answer in (known[0], unknown[0])}
    assert len(texts) == 1, "the answers read alike"
    assert "Try again in" in known[-1].text
    assert _try(site.browser(None), "ada", PASSWORD).status_code == 429, "nor does the right one"

    site.conn.execute("update queue.sign_in_failures set at = at - interval '16 minutes'")
    assert _try(site.browser(None), "ada", PASSWORD).status_code == 303
    failures = [item for item in site.queue.list_audit() if item.action == "sign_in_failed"]
    assert len(failures) == 10


def test_an_unknown_account_takes_as_long_as_a_known_one(site: Site) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))

    def fastest(account: str) -> float:
        times = []
        for _ in range(4):
            began = time.thread_time()  # the machine may be busy with other things
            assert _try(site.browser(None), account, "wrong").status_code == 401
            times.append(time.thread_time() - began)
        return min(times)

    known, unknown = fastest("ada"), fastest("nobody")
    assert 0.5 < known / unknown < 2, (known, unknown)


def test_a_forwarded_address_is_not_believed_unless_proxies_are_counted(site: Site) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    for n in range(6):
        answer = site.app.test_client().post(
            "/sign-in",
            data={"account": "ada", "password": "wrong"},
            headers={"X-Forwarded-For": f"10.0.0.{n}"},
        )
    assert answer.status_code == 429, "A39: another address each time does not help"

    behind = create_app(Config(database_url=site.database.url_as("queue_web"), proxies=1))
    answer = behind.test_client().post(
        "/sign-in",
        data={"account": "ada", "password": "wrong"},
        headers={"X-Forwarded-For": "10.9.9.9", "X-Forwarded-Proto": "https"},
    )
    assert answer.status_code == 401
    found = site.conn.execute("select address from queue.sign_in_failures order by id desc limit 1")
    assert found.fetchone() == ("10.9.9.9",)


def test_over_tls_cookies_are_for_this_host_alone(site: Site) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    app = create_app(Config(database_url=site.database.url_as("queue_web"), secure_cookies=True))
    form = {"account": "ada", "password": PASSWORD}
    answer = app.test_client().post("/sign-in", data=form, base_url="https://localhost")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-rowlock=")
    assert "; Secure" in cookie
    assert "Path=/;" in cookie
    assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"]


def test_an_open_page_that_polls_keeps_no_session_alive(site: Site, viewer: Browser) -> None:
    def age(minutes: int) -> None:
        site.conn.execute(
            "update queue.sessions set seen_at = seen_at - %s * interval '1 minute'", [minutes]
        )

    age(20)
    assert viewer.live("/jobs").status_code == 200
    age(11)
    assert viewer.live("/jobs").status_code == 303, "nobody was there for half an hour"

    site.conn.execute("update queue.sessions set seen_at = now() - interval '20 minutes'")
    assert viewer.get("/jobs").status_code == 200
    age(11)
    assert viewer.live("/jobs").status_code == 200, "somebody was, eleven minutes ago"


@pytest.mark.parametrize("change", ["role", "password", "disable", "idle", "old"])
def test_a_session_ends_with_what_it_stood_for(site: Site, change: str) -> None:
    browser = site.browser("operator")
    assert browser.get("/").status_code == 200
    if change == "role":
        site.queue.set_account("operator", role="viewer")
    elif change == "password":
        site.queue.set_account("operator", password_hash=auth.hash_password(PASSWORD))
    elif change == "disable":
        site.queue.set_account("operator", disabled=True)
    elif change == "idle":
        site.conn.execute("update queue.sessions set seen_at = seen_at - interval '31 minutes'")
    else:
        site.conn.execute("update queue.sessions set started_at = started_at - interval '13 hours'")
    assert browser.get("/").status_code == 303


# -- redirects (A6) and hosts (A39)


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "///evil.example", "/\\evil.example", "https://evil.example",
     "https:evil.example", "\\\\evil",
     "/\t/evil.example", "javascript:alert(1)", "", "jobs", "/ok\r\nSet-Cookie: a=b"],
)  # fmt: skip
def test_a_target_elsewhere_leads_home(site: Site, nobody: Browser, target: str) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    page = nobody.get("/sign-in", query_string={"next": target})
    assert 'name="next"' not in page.text
    answer = _try(nobody, "ada", PASSWORD, next=target)
    assert answer.headers["Location"] == "/"
    assert answer.headers.get_all("Set-Cookie")[0].startswith("rowlock=")

    browser = site.browser("viewer")
    answer = browser.post("/preferences/theme", {"theme": "dark", "back": target})
    assert answer.headers["Location"] == "/"


def test_a_host_that_is_not_trusted_is_refused_in_plain_words(site: Site) -> None:
    config = Config(
        database_url=site.database.url_as("queue_web"), trusted_hosts=("queue.example",)
    )
    client = create_app(config).test_client()
    assert client.get("/sign-in", base_url="http://queue.example:8000").status_code == 200
    answer = client.get("/sign-in", base_url="http://evil.example")
    assert answer.status_code == 400
    assert "is not trusted" in answer.text
    assert "ROWLOCK_TRUSTED_HOSTS" in answer.text


def test_redirects_are_paths(site: Site, nobody: Browser) -> None:
    answer = nobody.get("/jobs", base_url="http://evil.example")
    assert answer.headers["Location"] == "/sign-in?next=/jobs"


def test_a_link_lives_as_long_as_it_was_made_for(site: Site, nobody: Browser) -> None:
    site.browser("viewer")
    secret = site.queue.create_link("viewer", timedelta(minutes=1))
    site.conn.execute("update queue.sign_in_links set expires_at = now() - interval '1 second'")
    answer = nobody.post(f"/sign-in/link/{secret}")
    assert answer.status_code == 401
    assert "Ask for a new one" in answer.text
