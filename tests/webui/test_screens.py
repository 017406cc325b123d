"""Every screen, for every role, empty and full; live parts; what stands in every answer."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from tests.webui.conftest import ROLES, Browser, Site
from webui import create_app
from webui.config import Config

SCREENS = (
    "/", "/?range=15m", "/?range=7d&queue=default", "/jobs", "/jobs?label=ready",
    "/jobs?status=failed", "/jobs?label=retrying&queue=default", "/jobs?status=running",
    "/jobs?q=payload.n:1", "/jobs/new", "/dead", "/dead?since=24h", "/queues", "/queues/default",
    "/queues/default?range=24h", "/queues/not.used", "/workers", "/events",
    "/events?event=claimed&queue=default", "/settings", "/settings/maintenance",
)  # fmt: skip
ADMINS = ("/settings/accounts", "/settings/tokens", "/settings/audit")
LIVE = (
    "/", "/jobs", "/dead", "/queues", "/queues/default", "/workers", "/settings/maintenance",
    "/events?newer_than=0",
)  # fmt: skip


def _fill(site: Site) -> dict[str, int]:
    """A job in every state there is."""
    queue = site.queue
    ids = {"failed": site.fail(error="no funds on card 17")}
    for name in ("succeeded", "retrying", "cancelled"):
        ids[name] = queue.enqueue("pay", {"n": 1}, priority=9).job_id
        (claim,) = queue.claim("tester-1-ab")
        if name == "succeeded":
            queue.complete(claim.job_id, claim.fence, {"paid": True})
        elif name == "retrying":
            queue.fail(claim.job_id, claim.fence, "OSError", "down", retry_in=timedelta(hours=1))
        else:
            queue.accept_cancel(claim.job_id, claim.fence, "not wanted")
    ids["running"] = queue.enqueue("pay", {"n": 1}, priority=9).job_id
    (claim,) = queue.claim("tester-1-ab")
    queue.progress(claim.job_id, claim.fence, 10, "begun")
    queue.progress(claim.job_id, claim.fence, 60, "on page 3")
    ids["ready"] = queue.enqueue("send", {"n": 1}, headers={"trace": "t"}).job_id
    ids["scheduled"] = queue.enqueue("send", delay=timedelta(days=1)).job_id
    site.count()
    return ids


@pytest.mark.parametrize("role", ROLES)
def test_every_screen_answers_every_role(site: Site, role: str) -> None:
    browser = site.browser(role)
    for state in ("empty", "full"):
        if state == "full":
            ids = _fill(site)
            for name, job_id in ids.items():
                page = browser.get(f"/jobs/{job_id}")
                assert page.status_code == 200, name
                assert f"#{job_id}" in page.text
        for path in SCREENS:
            page = browser.get(path)
            assert page.status_code == 200, f"{state} {path}: {page.text}"
            assert "</html>" in page.text
        for path in ADMINS:
            assert browser.get(path).status_code == (200 if role == "admin" else 403), path


def test_a_viewers_buttons_say_why_they_are_off(site: Site, viewer: Browser) -> None:
    page = viewer.get(f"/jobs/{site.fail()}").text
    (retry,) = re.findall(r"<button[^>]*>Retry…</button>", page)
    assert "disabled" in retry
    assert "Your role, viewer, cannot do this; ask an operator." in retry
    assert '<form method="post" action="/jobs/' not in page
    assert "Your role, viewer, cannot see this; ask an admin." in viewer.get("/settings").text


def test_a_button_that_does_not_fit_the_state_says_why(site: Site, operator: Browser) -> None:
    job_id = site.queue.enqueue("pay").job_id
    page = operator.get(f"/jobs/{job_id}").text
    assert "Only a failed or cancelled job can be retried; this one is queued." in page
    assert "The job is due already." in page
    assert "Only a finished job can be discarded; this one is queued." in page


def test_a_job_shows_its_history_attempts_and_progress(site: Site, viewer: Browser) -> None:
    ids = _fill(site)
    failed = viewer.get(f"/jobs/{ids['failed']}").text
    for words in (
        "moved to the dead letters",
        "no funds on card 17",
        "Traceback",
        "attempt 1, ran",
    ):
        assert words in failed
    running = viewer.get(f"/jobs/{ids['running']}").text
    assert "60 %" in running
    assert "on page 3" in running
    assert "\u00d72" in running, "reports of progress are folded"
    assert "begun" not in running
    assert "data-settled" not in running
    assert "data-settled" in failed, "nothing follows a finished job"


def test_a_gone_job_is_told_from_its_events(site: Site, viewer: Browser) -> None:
    job_id = site.fail()
    site.queue.discard(job_id, "a test order")
    page = viewer.get(f"/jobs/{job_id}")
    assert page.status_code == 404
    assert "discarded it" in page.text
    assert "a test order" in page.text

    never = viewer.get("/jobs/999999")
    assert never.status_code == 404
    assert "Finished jobs are removed after their retention." in never.text


def test_the_parts_of_a_job_can_be_had_whole(site: Site, viewer: Browser) -> None:
    job_id = site.queue.enqueue("pay", {"text": "x" * 300_000, "ä": 1}).job_id
    page = viewer.get(f"/jobs/{job_id}")
    assert len(page.data) < 150_000
    assert "The first 100,000 characters." in page.text
    whole = viewer.get(f"/jobs/{job_id}/payload.json")
    assert whole.mimetype == "application/json"
    assert whole.json == {"text": "x" * 300_000, "ä": 1}
    job = viewer.get(f"/jobs/{job_id}/job.json").json
    assert job is not None
    assert (job["id"], job["kind"]) == (str(job_id), "pay")
    assert "fence" not in job
    assert viewer.get(f"/jobs/{job_id}/secrets.json").status_code == 404


def test_tabs_count_and_chips_remove(site: Site, viewer: Browser) -> None:
    _fill(site)
    page = viewer.get("/jobs").text
    counts = dict(re.findall(r">(\w+) <span class=\"count\" title=\"([\d,]+)\"", page))
    assert counts == {
        "All": "7", "Ready": "1", "Scheduled": "1", "Retrying": "1", "Running": "1",
        "Succeeded": "1", "Dead": "1", "Cancelled": "1",
    }  # fmt: skip

    page = viewer.get("/jobs?queue=default").text
    assert dict(re.findall(r">(\w+) <span class=\"count\" title=\"([\d,]+)\"", page)) == counts
    page = viewer.get("/jobs?queue=none").text
    counts = dict(re.findall(r">(\w+) <span class=\"count\" title=\"([\d,]+)\"", page))
    assert set(counts.values()) == {"0"}

    page = viewer.get("/jobs?status=failed&queue=default&q=payload.n:1 kind:pay").text
    assert "1 matches" in page
    assert 'href="/jobs?status=failed&amp;q=payload.n:1+kind:pay"' in page
    assert 'href="/jobs?status=failed&amp;queue=default&amp;q=kind:pay"' in page
    nothing = viewer.get("/jobs?q=payload.n:42").text
    assert "No job matches." in nothing
    assert "Clear filters" in nothing


def test_pages_lead_forth_and_back_without_a_gap(site: Site, viewer: Browser) -> None:
    made = site.queue.enqueue_many([{"kind": "pay"} for _ in range(7)])
    expected = sorted((each.job_id for each in made), reverse=True)
    seen: list[list[int]] = []
    path = "/jobs?size=3"
    for _ in range(3):
        page = viewer.get(path).text
        seen.append([int(row) for row in re.findall(r'data-row="(\d+)"', page)])
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following[1].replace("&amp;", "&") if following else ""
    assert [row for rows in seen for row in rows] == expected
    assert path == ""

    back = re.search(r'rel="prev" href="([^"]+)"', page)
    assert back
    page = viewer.get(back[1].replace("&amp;", "&")).text
    assert [int(row) for row in re.findall(r'data-row="(\d+)"', page)] == expected[3:6]


def test_a_page_that_read_10_000_rows_offers_to_go_on(site: Site, viewer: Browser) -> None:
    rare = site.queue.enqueue("rare", {"user": 42}).job_id
    for _ in range(11):
        site.queue.enqueue_many([{"kind": "pay"} for _ in range(1000)])
    page = viewer.get("/jobs?q=payload.user:42").text
    assert "None among the 10,000 read here." in page
    go_on = re.search(r'href="([^"]+)">Go on reading<', page)
    assert go_on
    assert f"#{rare}" in viewer.get(go_on[1].replace("&amp;", "&")).text

    many = viewer.get("/jobs?q=since:1h").text
    assert "more than 10,000 match" in many


def test_lists_stay_small_whatever_jobs_carry(site: Site, viewer: Browser) -> None:
    big = "x" * (1024 * 1024 - 100)
    for _ in range(5):
        site.queue.enqueue("pay", {"text": big})
    for _ in range(45):
        site.fail(error="long " * 3000)
    job = {"kind": "orders.process_refund", "queue": "fulfilment.eu", "delay": "3 days"}
    site.queue.enqueue_many([job] * 200)
    site.count()
    for path in (
        "/", "/jobs", "/jobs?size=200", "/jobs?status=failed", "/dead", "/events",
        "/queues/default",
    ):  # fmt: skip
        page = viewer.get(path)
        assert page.status_code == 200
        assert len(page.data) < 200_000, f"{path}: {len(page.data)} bytes"


def test_of_many_queues_a_page_shows_some(site: Site, viewer: Browser) -> None:
    site.queue.enqueue_many([{"kind": "pay", "queue": f"q{n:03}"} for n in range(101)])
    site.conn.execute(
        """
        update queue.jobs
        set created_at = created_at - interval '1 h', available_at = available_at - interval '1 h'
        where queue > 'q080'
        """
    )

    def rows(path: str) -> list[str]:
        return re.findall(r'data-row="(q\d+)"', viewer.get(path).text)

    assert rows("/") == [f"q{n:03}" for n in range(81, 101)], "those that wait longest"
    assert "All queues" in viewer.get("/").text
    assert rows("/queues") == [f"q{n:03}" for n in range(100)]
    assert rows("/queues?page=2") == ["q100"]
    assert 'href="/queues?page=2"' in viewer.get("/queues").text
    assert "page 2 of 2, 101 queues" in viewer.get("/queues?page=2").text
    assert rows("/queues?name=10") == ["q010", "q100"]
    assert 'href="/queues?page=2&amp;name=q"' in viewer.get("/queues?name=q").text
    assert "No queue has “x” in its name." in viewer.get("/queues?name=x").text


def test_the_overview_tells_of_workers_that_are_gone(site: Site, viewer: Browser) -> None:
    site.queue.enqueue_many([{"kind": "pay"}] * 3)
    site.queue.claim("w-1-a")
    words = " ".join(re.sub(r"<[^>]+>", "", viewer.get("/").text).split())
    assert "gone: worker w-1-a with 1 job in hand, taken back when its lease runs out." in words
    site.queue.claim("w-2-b", max_jobs=2)
    words = " ".join(re.sub(r"<[^>]+>", "", viewer.get("/").text).split())
    assert "gone: 2 workers with 3 jobs in hand, taken back when their leases run out." in words


def test_what_is_paused_says_who_and_why(site: Site, viewer: Browser) -> None:
    site.queue.enqueue("pay", queue="billing")
    site.queue.pause("billing", "the bank is down")
    for path in ("/", "/queues", "/queues/billing", "/jobs?queue=billing"):
        assert "the bank is down" in viewer.get(path).text, path


def test_a_stopped_search_leaves_the_filters_usable(
    site: Site, viewer: Browser, database_slow: None
) -> None:
    page = viewer.get("/jobs?queue=billing&q=payload.n:1")
    assert page.status_code == 503
    assert "The search was stopped after" in page.text
    assert 'value="billing"' in page.text
    assert 'value="payload.n:1"' in page.text
    assert "Succeeded" in page.text


@pytest.fixture
def database_slow(site: Site) -> None:
    """list_jobs takes longer than a page may."""
    site.conn.execute(
        """
        create or replace function queue._check_job_filter(p_filter jsonb) returns void
        language plpgsql as 'begin perform pg_sleep(5); end'
        """
    )


@pytest.mark.parametrize("path", LIVE)
def test_a_live_part_comes_alone_and_unchanged_as_304(
    site: Site, viewer: Browser, path: str
) -> None:
    if path == "/":
        site.count()
    part = viewer.live(path)
    assert part.status_code == 200
    assert "<html" not in part.text
    etag = part.headers["ETag"]
    again = viewer.live(path, etag)
    assert again.status_code in ({200, 304} if path == "/" else {304}), (
        "a chart moves at the minute"
    )
    if again.status_code == 304:
        assert again.data == b""

    _fill(site)
    changed = viewer.live(path, etag)
    if path != "/settings/maintenance":
        assert changed.status_code == 200
        assert changed.headers["ETag"] != etag


def test_a_jobs_live_part_is_unchanged_while_time_passes(site: Site, viewer: Browser) -> None:
    job_id = site.queue.enqueue("pay").job_id
    first = viewer.live(f"/jobs/{job_id}")
    site.conn.execute("select pg_sleep(1.1)")
    assert viewer.live(f"/jobs/{job_id}", first.headers["ETag"]).status_code == 304
    site.queue.claim("w-1-a")
    after = viewer.live(f"/jobs/{job_id}", first.headers["ETag"])
    assert after.status_code == 200
    assert "running" in after.text


def test_new_events_are_counted_and_nothing_moves(site: Site, viewer: Browser) -> None:
    site.queue.enqueue("pay")
    page = viewer.get("/events").text
    address = re.search(r'data-url="([^"]+)"', page)
    assert address
    assert "new event" not in viewer.live(address[1]).text
    for _ in range(14):
        site.queue.enqueue("pay")
    assert "14 new events" in viewer.live(address[1]).text


# -- every answer

SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def test_every_answer_carries_the_headers(site: Site, viewer: Browser, nobody: Browser) -> None:
    answers = [
        viewer.get("/"), viewer.get("/jobs/1"), viewer.get("/jobs?cursor=x"),
        viewer.get("/nothing"),
        viewer.post("/jobs/1/retry"), nobody.get("/"), nobody.get("/sign-in"),
        nobody.get("/static/rowlock.css"), viewer.live("/jobs"),
    ]  # fmt: skip
    for answer in answers:
        for name, value in SAFE.items():
            assert answer.headers[name] == value, answer.request.path
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Request-Id"]
        if not answer.request.path.startswith("/static"):
            assert "no-store" in answer.headers["Cache-Control"] or answer.headers.get("ETag")


def test_no_page_has_inline_script_style_or_handler(site: Site, admin: Browser) -> None:
    ids = _fill(site)
    paths = [*SCREENS, *ADMINS, *(f"/jobs/{job_id}" for job_id in ids.values()), "/nothing",
             "/jobs/bulk?action=retry&all=1&status=failed"]  # fmt: skip
    for path in paths:
        page = admin.get(path).text
        assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page), path
        for script in re.findall(r"<script[^>]*>(.*?)</script>", page, re.S):
            assert script == ""
        for address in re.findall(r'(?:src|href)="([^"]*)"', page):
            assert address.startswith(("/", "#")), f"{path}: {address}"


def test_ids_stand_once_in_a_page_and_labels_name_their_fields(
    site: Site, operator: Browser, admin: Browser
) -> None:
    ids = _fill(site)
    paths = [*SCREENS, *(f"/jobs/{job_id}" for job_id in ids.values()),
             "/jobs/bulk?action=retry&all=1&status=failed"]  # fmt: skip
    for browser, path in [*((operator, p) for p in paths), *((admin, p) for p in ADMINS)]:
        page = browser.get(path).text
        found = re.findall(r'\sid="([^"]+)"', page)
        assert len(found) == len(set(found)), path
        for target in re.findall(r'<label[^>]* for="([^"]+)"', page):
            assert target in found, f"{path}: {target}"


def test_served_below_a_path(site: Site) -> None:
    config = Config(database_url=site.database.url_as("queue_web"), base_path="/queue")
    client = create_app(config).test_client()
    site.queue.create_account("ada", "admin")
    secret = site.queue.start_session("ada")

    assert client.get("/queue/").headers["Location"] == "/queue/sign-in?next=/queue/"
    client.set_cookie("rowlock", secret, path="/queue")
    page = client.get("/queue/jobs")
    assert page.status_code == 200
    assert 'href="/queue/static/rowlock.css"' in page.text
    for address in re.findall(r'(?:src|href|action)="(/[^"]*)"', page.text):
        assert address.startswith("/queue/"), address
    job_id = site.fail()
    page = client.get(f"/queue/jobs/{job_id}")
    token = re.search(r'name="form_token" value="(\w+)"', page.text)
    assert token
    answer = client.post(f"/queue/jobs/{job_id}/retry", data={"form_token": token[1]})
    assert answer.headers["Location"] == f"/queue/jobs/{job_id}?notice=retried"


def test_a_filtered_time_is_shown_with_its_chip(site: Site, viewer: Browser) -> None:
    site.queue.enqueue("pay")
    assert "since: 1h" in viewer.get("/jobs?since=1h").text
    assert "No job matches." in viewer.get("/jobs?since=0s").text


def test_events_that_lie_far_away_are_a_click_away(site: Site, viewer: Browser) -> None:
    site.queue.enqueue("rare")
    site.conn.execute(
        """
        insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
        select now(), 77, 0, 0, 'snoozed', 'queued', 'q', 'k' from generate_series(1, 10050)
        """
    )
    for filter, found in (("kind=rare", "enqueued"), ("job=77&event=failed", None)):
        page = viewer.get(f"/events?{filter}").text
        assert "None among the 10,000 read here." in page
        onward = re.search(r'href="([^"]*)">Go on reading', page)
        assert onward
        page = viewer.get(onward[1].replace("&amp;", "&")).text
        assert "Go on reading" not in page
        assert (f">{found}</span>" if found else "No event matches.") in page
