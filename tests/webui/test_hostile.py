"""What jobs carry is shown and never run; an address that makes no sense is 400, never 500."""

from __future__ import annotations

import pytest

from tests.webui.conftest import Browser, Site
from webui import create_app, filters
from webui.config import Config

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}} {% raw %}",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "\u202egpj.exe\u2066",
    "\x1b[2J\x1b]0;owned\x07",
    "'; drop table queue.jobs;--",
)  # A1 to A5, A16, A21, A41


def _fill(site: Site, text: str) -> int:
    """The text wherever a job, a worker or an operator can leave one."""
    queue = site.queue
    plain = text.replace("\x1b", "\u241b").replace("\x07", "\u2407")
    queue.enqueue("pay", {"text": text, text: [text]}, idempotency_key=text, headers={"t": text})
    (claim,) = queue.claim(plain, ["default"])
    queue.progress(claim.job_id, claim.fence, 1, text)
    queue.fail(claim.job_id, claim.fence, text, text, {"traceback": text, "x": text}, fatal=True)
    queue.retry(claim.job_id, reason=text)
    (claim,) = queue.claim(plain, ["default"])
    queue.fail(claim.job_id, claim.fence, text, text, {"other": text}, fatal=True)
    running = queue.enqueue("pay", {"text": text}).job_id
    (claim,) = queue.claim(plain, ["default"])
    queue.progress(claim.job_id, claim.fence, 50, text)
    done = queue.enqueue("pay", queue="other").job_id
    (claim,) = queue.claim(plain, ["other"])
    queue.complete(claim.job_id, claim.fence, {"text": text})
    queue.pause("default", text)
    queue.create_token(plain, "viewer", reason=text)
    queue.set_settings({"max_attempts": 7}, text)
    gone = queue.enqueue("pay", queue="gone").job_id
    queue.cancel(gone, text)
    queue.discard(gone, text)
    site.count()
    assert running < done < gone
    return gone


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_text_on_every_page(site: Site, admin: Browser, text: str) -> None:
    last = _fill(site, text)
    pages = ["/", "/jobs", "/jobs?status=failed", "/dead", "/queues", "/queues/default", "/workers",
             "/events", "/settings/tokens", "/settings/audit",
             "/jobs/bulk?action=retry&all=1&status=failed"]  # fmt: skip
    pages += [f"/jobs/{job_id}" for job_id in range(1, last + 1)]
    pages += [f"/jobs/new?like={job_id}" for job_id in range(1, last)]
    shown = 0
    for path in pages:
        page = admin.get(path)
        assert page.status_code in {200, 404}, path
        html = page.text
        assert "<script>alert" not in html, path
        assert "<img" not in html, path
        assert "<svg onload" not in html, path
        assert 'href="javascript' not in html, path
        assert not any(mark in html for mark in "\u202e\u2066\x1b\x07"), path
        shown += "alert(1)" in html or "7*7" in html or "u202e" in html or "drop table" in html
        if "{{" in text:
            assert "49 {% raw" not in html
    if "\x1b" not in text:
        assert shown >= 8, "the text is there to be seen"
    for part in ("payload", "result", "headers", "job"):
        raw = admin.get(f"/jobs/1/{part}.json")
        assert raw.mimetype == "application/json"
        assert raw.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_search_for_it_finds_nothing_worse(site: Site, viewer: Browser, text: str) -> None:
    _fill(site, "x")
    for name in ("q", "queue", "kind", "worker", "error_group", "key", "since", "status", "cursor"):
        for path in ("/jobs", "/dead", "/events", "/jobs/export.csv"):
            page = viewer.get(path, query_string={name: text})
            assert page.status_code in {200, 400}, f"{path} {name}"
            assert "<script>alert" not in page.text
            assert "<img" not in page.text
            assert "<svg onload" not in page.text
    found = site.conn.execute("select count(*) from queue.jobs").fetchone()
    assert found == (3,)


BAD = (
    "/jobs/0", "/jobs/-1", "/jobs/1e400", "/jobs/\u0663", "/jobs/99999999999999999999", "/jobs/x",
    "/jobs/1%00", "/jobs/1.5", "/jobs/jump?id=x", "/jobs/jump", "/jobs/jump?id=\u0663",
    "/jobs?size=0", "/jobs?size=-1", "/jobs?size=1000000000", "/jobs?size=x", "/jobs?size=1e3",
    "/jobs?cursor=x", "/jobs?cursor=%00", "/jobs?cursor=newest+x", "/jobs?cursor=failed+1",
    "/jobs?cursor=newest+99999999999999999999999", "/jobs?status=x", "/jobs?label=x",
    "/jobs?priority=10", "/jobs?priority=\u0663", "/jobs?since=x", "/jobs?since=999999999d",
    "/jobs?q=x", "/jobs?q=colour:red", "/jobs?q=payload.n:NaN", "/jobs?q=payload.n:1e999",
    "/jobs?q=queue.x:1", "/jobs?q=" + "x" * 3000, "/events?cursor=x",
    "/events?cursor=99999999999999999999", "/events?job=x", "/events?job=-1",
    "/events?newer_than=x", "/settings/audit?cursor=x", "/?range=x", "/?range=", "/dead?since=x",
    "/queues/No%20Name", "/queues/" + "x" * 100, "/jobs/1?after=x", "/jobs/new?like=x",
    "/jobs/bulk?action=x&all=1", "/jobs/bulk?action=retry&ids=\u0663",
    "/jobs/bulk?action=retry&all=1&changed=x",
)  # fmt: skip


@pytest.mark.parametrize("path", BAD)
def test_an_address_that_makes_no_sense_is_400(site: Site, admin: Browser, path: str) -> None:
    site.fail()
    page = admin.get(path)
    assert page.status_code == 400, f"{page.status_code} {page.text[-800:]}"
    assert "Traceback" not in page.text


ODD = (
    "/jobs/1/../../etc/passwd", "/static/../webui/auth.py", "/static/%2e%2e/auth.py", "/queues/",
    "/jobs/1/payload", "/.git/config", "/jobs/9223372036854775807",
)  # fmt: skip


@pytest.mark.parametrize("path", ODD)
def test_what_is_not_there_is_404(admin: Browser, path: str) -> None:
    assert admin.get(path).status_code == 404


def test_what_breaks_here_says_no_more_than_its_number(
    site: Site, admin: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    site.conn.execute(
        """
        create or replace function queue._queues() returns table (queue text)
        language plpgsql as 'begin raise exception ''secret detail''; end'
        """
    )
    site.app.config["PROPAGATE_EXCEPTIONS"] = False
    page = admin.get("/queues", headers={"X-Request-Id": "abc123"})
    assert page.status_code == 500
    assert "Traceback" not in page.text
    assert "abc123" in page.text
    assert "abc123" in caplog.text


def test_a_database_that_is_away_is_503_and_back_without_a_restart(site: Site) -> None:
    client = create_app(
        Config(database_url="postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
    ).test_client()
    client.set_cookie("rowlock", "0" * 64)
    page = client.get("/jobs?status=failed")
    assert page.status_code == 503
    assert page.headers["Retry-After"] == "5"
    assert "Database unreachable" in page.text
    assert 'data-retry="5"' in page.text
    assert client.get("/sign-in").status_code == 200

    admin = site.browser("admin")
    assert admin.get("/").status_code == 200
    site.conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'rowlock:web'"
    )
    assert admin.get("/").status_code == 200, "a lost connection is made anew"


def test_a_body_that_is_too_large_is_413(site: Site, operator: Browser) -> None:
    answer = operator.post("/jobs/new", {"kind": "pay", "payload": "x" * (9 * 1024 * 1024)})
    assert answer.status_code == 413
    assert site.queue.list_jobs().rows == []


@pytest.mark.parametrize(
    ("search", "query"),
    [
        ("queue:billing kind:pay", {"queue": "billing", "kind": "pay"}),
        ("payload.user.id:42", {"payload": {"user": {"id": 42}}}),
        ('payload.id:"42" payload.x:y', {"payload": {"id": "42", "x": "y"}}),
        ('payload.name:"Ada L. \\"x\\""', {"payload": {"name": 'Ada L. "x"'}}),
        ("payload.a.b:1 payload.a.c:null", {"payload": {"a": {"b": 1, "c": None}}}),
        ("#7 8", {"ids": [7, 8]}),
        ("status:dead", {"label": "dead"}),
        ("status:failed priority:9", {"status": "failed", "priority": 9}),
        ("key:order-7", {"idempotency_key": "order-7"}),
        ('worker:"a b"', {"worker": "a b"}),
        ("headers.tag:x", {"headers": {"tag": "x"}}),
        ('payload:{"a":1}', {"payload": {"a": 1}}),
    ],
)
def test_a_search_reads_as_a_filter(search: str, query: dict[str, object]) -> None:
    assert filters.Filter.of({"q": search}).to_query() == query
