"""Each action changes exactly what it should, with who and why; conflicts are answered inline."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pyworker.client import Client
from pyworker.errors import Unavailable
from tests.webui.conftest import Browser, Site


def test_retry_grants_attempts_a_delay_and_records_who_and_why(
    site: Site, operator: Browser
) -> None:
    job_id = site.fail()
    other = site.fail("other")
    answer = operator.post(
        f"/jobs/{job_id}/retry", {"extra_attempts": "3", "delay": "1h", "reason": "bank is back"}
    )
    page = operator.follow(answer)
    assert "Queued again." in page.text
    job = site.job(job_id)
    assert (job.status, job.attempt, job.max_attempts) == ("queued", 1, 4)
    assert timedelta(minutes=59) < job.available_at - datetime.now(UTC) < timedelta(minutes=61)
    assert site.events(job_id)[-1] == ("retried", "operator", "bank is back")
    assert site.job(other).status == "failed"


def test_cancel_of_a_queued_and_of_a_running_job(site: Site, operator: Browser) -> None:
    queued = site.queue.enqueue("pay", delay=timedelta(hours=1)).job_id
    page = operator.follow(operator.post(f"/jobs/{queued}/cancel", {"reason": "not wanted"}))
    assert "Cancelled." in page.text
    assert site.job(queued).status == "cancelled"
    assert site.events(queued)[-1] == ("cancelled", "operator", "not wanted")

    running = site.queue.enqueue("pay").job_id
    site.queue.claim("w-1-a")
    page = operator.follow(operator.post(f"/jobs/{running}/cancel"))
    assert "The worker was asked to stop." in page.text
    assert "cancel requested" in page.text
    assert site.job(running).status == "running"
    assert site.job(running).cancel_requested_at is not None


def test_run_now_and_priority(site: Site, operator: Browser) -> None:
    job_id = site.queue.enqueue("pay", delay=timedelta(hours=1)).job_id
    operator.follow(operator.post(f"/jobs/{job_id}/priority", {"priority": "9", "reason": "vip"}))
    assert site.job(job_id).priority == 9
    assert site.events(job_id)[-1] == ("reprioritized", "operator", "vip")
    operator.follow(operator.post(f"/jobs/{job_id}/run-now", {"reason": "at once"}))
    assert site.job(job_id).label == "ready"
    assert site.events(job_id)[-1] == ("made_due", "operator", "at once")


def test_discard(site: Site, operator: Browser) -> None:
    job_id = site.fail()
    answer = operator.post(f"/jobs/{job_id}/discard", {"reason": "a test order"})
    assert answer.status_code == 303
    page = operator.get(answer.headers["Location"])
    assert page.status_code == 404
    assert "a test order" in page.text
    assert site.events(job_id)[-1] == ("discarded", "operator", "a test order")


def test_a_stale_page_is_answered_inline_with_the_job_as_it_is(
    site: Site, operator: Browser
) -> None:
    job_id = site.fail()
    site.queue.retry(job_id)
    before = site.state()
    page = operator.post(f"/jobs/{job_id}/retry")
    assert page.status_code == 409
    assert f"job {job_id} is queued" in page.text
    assert 'class="status ready"' in page.text
    assert f'data-url="/jobs/{job_id}"' in page.text, "the live part is asked for by GET"
    assert site.state() == before


def test_an_action_on_a_job_that_is_gone_is_404(site: Site, operator: Browser) -> None:
    for action in ("retry", "cancel", "run-now", "discard"):
        assert operator.post(f"/jobs/999999/{action}").status_code == 404


@pytest.mark.parametrize(
    ("action", "form"),
    [
        ("retry", {"extra_attempts": "0"}),
        ("retry", {"extra_attempts": "x"}),
        ("retry", {"extra_attempts": "1e9"}),
        ("retry", {"delay": "soon"}),
        ("retry", {"delay": "-5m"}),
        ("priority", {"priority": "10"}),
        ("priority", {}),
    ],
)
def test_a_value_out_of_bounds_is_400_and_changes_nothing(
    site: Site, operator: Browser, action: str, form: dict[str, str]
) -> None:
    job_id = site.fail()
    before = site.state()
    assert operator.post(f"/jobs/{job_id}/{action}", form).status_code == 400
    assert site.state() == before


# -- a new job


def test_a_job_is_created_from_the_form(site: Site, operator: Browser) -> None:
    page = operator.follow(
        operator.post(
            "/jobs/new",
            {
                "kind": "email.send", "queue": "email", "priority": "7", "payload": '{"to": "ä"}',
                "available_at": "2031-05-06T07:08", "max_attempts": "2", "lease": "30s",
                "timeout": "1h30m", "key": "order-1",
            },
        )
    )  # fmt: skip
    assert "Job created." in page.text
    (job,) = site.queue.list_jobs().rows
    found = site.job(job.id)
    assert (found.kind, found.queue, found.priority, found.payload) == (
        "email.send", "email", 7, {"to": "ä"},
    )  # fmt: skip
    assert found.available_at == datetime(2031, 5, 6, 7, 8, tzinfo=UTC)
    assert (found.max_attempts, found.lease, found.timeout, found.idempotency_key) == (
        2, timedelta(seconds=30), timedelta(hours=1, minutes=30), "order-1",
    )  # fmt: skip
    assert site.events(job.id) == [("enqueued", "operator", None)]

    form = {"kind": "email.send", "queue": "email", "key": "order-1", "payload": '{"to": "ä"}'}
    page = operator.follow(operator.post("/jobs/new", form))
    assert "The key is known" in page.text
    other = operator.post("/jobs/new", {**form, "payload": '{"to": "somebody else"}'})
    assert other.status_code == 422
    assert "somebody else" in other.text, "what was typed stays"
    assert len(site.queue.list_jobs().rows) == 1


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ({"kind": "pay", "payload": "{not json"}, 400, "payload is not JSON"),
        ({"kind": ""}, 400, "kind"),
        ({"kind": "No Name"}, 400, "kind"),
        ({"kind": "pay", "payload": '"\\u0000"'}, 400, ""),
        ({"kind": "pay", "delay": "1m", "available_at": "2031-01-01T00:00"}, 400, "delay"),
        ({"kind": "pay", "available_at": "9999999-01-01"}, 400, "is no time"),
        ({"kind": "pay", "max_attempts": "0"}, 400, "attempts"),
        ({"kind": "pay", "lease": "1000d"}, 400, "lease"),
        ({"kind": "pay", "payload": '"' + "x" * 1_048_600 + '"'}, 413, ""),
    ],
)
def test_a_form_that_cannot_be_used_comes_back_with_what_was_typed(
    site: Site, operator: Browser, form: dict[str, str], status: int, words: str
) -> None:
    page = operator.post("/jobs/new", form)
    assert page.status_code == status, page.text[:500]
    assert words in page.text
    assert f'name="kind" value="{form["kind"]}"' in page.text
    assert site.queue.list_jobs().rows == []


def test_duplicate_fills_the_form_with_another_jobs_values(site: Site, operator: Browser) -> None:
    job_id = site.queue.enqueue(
        "email.send", {"to": "<b>"}, "email", 3, max_attempts=4, lease=timedelta(minutes=5)
    ).job_id
    page = operator.get(f"/jobs/new?like={job_id}").text
    assert 'name="kind" value="email.send"' in page
    assert "&lt;b&gt;" in page
    assert 'value="300s"' in page
    assert "<option selected>3</option>" in page


# -- many at once


def _bulk_form(page: str) -> dict[str, Any]:
    """The fields of the form on a preview, as a browser would send them."""
    form = page[page.index('action="/jobs/bulk"') :]
    form = form[: form.index("</form>")]
    fields: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        if name:
            text = value[1].replace("&amp;", "&") if value else ""
            if name[1] in {"ids", "left"}:
                fields.setdefault(name[1], []).append(text)
            else:
                fields[name[1]] = text
    return fields


def test_a_group_is_previewed_then_retried_with_spread_and_reason(
    site: Site, operator: Browser
) -> None:
    nine = [site.fail(error=f"no funds on card {n}") for n in range(9)]
    other = site.fail(error="something else")
    page = operator.get("/dead").text
    assert page.count("Retry 9…") == 1
    address = re.search(r'href="([^"]*)">Retry 9…', page)
    assert address
    preview = operator.get(address[1].replace("&amp;", "&")).text
    assert "Preview: <b>9</b> jobs" in preview
    assert "Retry 9 jobs" in preview
    assert {site.job(job_id).status for job_id in nine} == {"failed"}, "a preview changes nothing"

    form = _bulk_form(preview) | {
        "extra_attempts": "3", "spread": "10m", "reason": "bank is back",
    }  # fmt: skip
    done = operator.follow(operator.post("/jobs/bulk", form))
    assert "<b data-changed>9</b> changed" in done.text
    assert "Done." in done.text
    assert 'href="/dead"' in done.text
    jobs = [site.job(job_id) for job_id in nine]
    assert {(job.status, job.max_attempts) for job in jobs} == {("queued", 4)}
    assert len({job.available_at for job in jobs}) == 9
    assert {site.events(job_id)[-1] for job_id in nine} == {("retried", "operator", "bank is back")}
    assert site.job(other).status == "failed"


def test_what_changed_meanwhile_is_skipped_and_named(site: Site, operator: Browser) -> None:
    ids = [site.fail(), site.fail(), site.queue.enqueue("pay").job_id]
    query = "&".join(f"ids={job_id}" for job_id in ids)
    preview = operator.get(f"/jobs/bulk?action=retry&{query}&back=/jobs").text
    done = operator.follow(operator.post("/jobs/bulk", _bulk_form(preview))).text
    assert "<b data-changed>2</b> changed, 1 skipped" in done.replace("  ", " ")
    assert f'>#{ids[2]}</a> is <span class="status ready"' in done


@pytest.mark.parametrize(
    ("action", "extra", "status"),
    [
        ("cancel", {}, "cancelled"),
        ("run_now", {}, "queued"),
        ("reprioritize", {"new_priority": "9"}, "queued"),
    ],
)
def test_every_action_works_on_those_ticked(
    site: Site, operator: Browser, action: str, extra: dict[str, str], status: str
) -> None:
    ids = [site.queue.enqueue("pay", delay=timedelta(hours=1)).job_id for _ in range(3)]
    query = "&".join(f"ids={job_id}" for job_id in ids[:2])
    preview = operator.get(f"/jobs/bulk?action={action}&{query}").text
    assert "2</b> jobs ticked" in preview
    form = _bulk_form(preview) | extra | {"reason": "all of them"}
    operator.follow(operator.post("/jobs/bulk", form))
    for job_id in ids[:2]:
        assert site.job(job_id).status == status
        assert site.events(job_id)[-1][1:] == ("operator", "all of them")
    assert len(site.events(ids[2])) == 1


def _many(site: Site, number: int, **columns: str) -> None:
    """Rows as the functions would have left them; `columns` are expressions over n."""
    values = {"created_at": "now()", "available_at": "now()", "max_attempts": "5"} | columns
    site.conn.execute(
        f"insert into queue.jobs ({', '.join(values)})"
        f" select {', '.join(values.values())} from generate_series(1, {number}) as n"
    )


DEAD = {
    "kind": "'pay'", "status": "'failed'", "attempt": "1", "fence": "1",
    "finished_at": "now() - n * interval '1 s'", "error_type": "'E'", "error_group": "'g'",
}  # fmt: skip


def test_thousands_go_on_within_a_request_or_by_a_click(
    site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    _many(site, 10_400, **DEAD)
    address = "/jobs/bulk?action=retry&all=1&status=failed&error_group=g"
    page = operator.get(address).text
    assert "Preview: <b>10,000</b> jobs that match in the first 10,000 read" in page
    assert "Retry 10,000+ jobs" in page
    onward = re.search(r'href="([^"]*)">Go on reading', page)
    assert onward
    page = operator.get(onward[1].replace("&amp;", "&")).text
    assert "Preview: <b>10,400</b> jobs that match" in page
    assert "Go on reading" not in page

    monkeypatch.setattr("webui.bulk._SECONDS", 0)  # a call a request, as on a slow machine
    form = _bulk_form(page) | {"spread": "10m", "reason": "bank is back"}
    page = operator.follow(operator.post("/jobs/bulk", form)).text
    assert "<b data-changed>500</b> changed of about 10,400" in page
    assert "data-goes-on" in page
    assert 'name="reason" value="bank is back"' in page
    assert 'name="spread" value="10m"' in page

    monkeypatch.setattr("webui.bulk._SECONDS", 60)
    page = operator.follow(operator.post("/jobs/bulk", _bulk_form(page))).text
    assert "<b data-changed>10,400</b> changed" in page
    assert "Done." in page
    found = site.conn.execute("select count(*), count(distinct available_at) from queue.jobs")
    jobs, times = found.fetchone() or (0, 0)
    assert jobs == 10_400
    assert times > 5_000, "spread over all steps"


def test_the_few_that_match_are_found_far_away(site: Site, operator: Browser) -> None:
    _many(site, 10_200, **DEAD | {"kind": "case when n > 10197 then 'rare' else 'pay' end"})
    page = operator.get("/jobs/bulk?action=retry&all=1&status=failed&kind=rare").text
    assert "Preview: <b>0</b> jobs that match in the first 10,000 read" in page
    assert "Go on reading" in page
    done = operator.follow(operator.post("/jobs/bulk", _bulk_form(page))).text
    assert "<b data-changed>3</b> changed" in done
    assert "Done." in done


def test_what_was_done_is_told_when_a_later_step_fails(
    site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    _many(site, 700, **DEAD)
    bulk = Client.bulk

    def failing(self: Client, *given: Any) -> Any:
        if given[-1] and not given[2]:
            raise Unavailable("canceling statement due to statement timeout", sqlstate="57014")
        return bulk(self, *given)

    page = operator.get("/jobs/bulk?action=retry&all=1&status=failed").text
    with monkeypatch.context() as broken:
        broken.setattr(Client, "bulk", failing)
        page = operator.follow(operator.post("/jobs/bulk", _bulk_form(page))).text
        assert "<b data-changed>500</b> changed" in page
        assert operator.post("/jobs/bulk", _bulk_form(page)).status_code == 503
    done = operator.follow(operator.post("/jobs/bulk", _bulk_form(page))).text
    assert "<b data-changed>700</b> changed" in done


@pytest.mark.parametrize(
    "query", ["action=explode&all=1", "action=retry", "all=1", "action=retry&ids=x"]
)
def test_a_bulk_that_says_too_little_is_400(operator: Browser, query: str) -> None:
    assert operator.get(f"/jobs/bulk?{query}").status_code == 400


def test_exports_hold_every_match_and_no_formula(site: Site, viewer: Browser) -> None:
    for error in ("=HYPERLINK(0)", "+1", "-1", "@x", 'plain, with "quotes"'):
        site.fail(error=error)
    for _ in range(3):
        site.queue.enqueue_many([{"kind": "pay"} for _ in range(100)])
    answer = viewer.get("/jobs/export.csv?status=failed")
    assert answer.mimetype == "text/csv"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="jobs.csv"'
    assert "'=HYPERLINK(0)" in answer.text
    assert not re.search(r'(^|,)"?[=+@-]', answer.text, re.M)
    assert answer.text.count("\r\n") == 6

    lines = viewer.get("/jobs/export.jsonl").text.splitlines()
    assert len(lines) == 305
    assert viewer.get("/jobs/export.xml").status_code == 400


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_export_that_ends_early_says_where_to_go_on(
    form: str, site: Site, viewer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webui.views.jobs._MOST_PAGES", 2)
    _many(site, 450, **DEAD)
    address, lines = f"/jobs/export.{form}?status=failed", list[str]()
    while address:
        page = viewer.get(address).text.splitlines()[form == "csv" :]
        onward = re.search(r"/jobs/export[^\"]*cursor=[^\"]*", page[-1])
        address = onward[0] if onward else ""
        lines += page[:-1] if onward else page
        assert len(page) == (401 if onward else 50)
    assert len(set(lines)) == 450


# -- queues


def test_pause_with_reason_and_until_then_resume(site: Site, operator: Browser) -> None:
    page = operator.follow(
        operator.post("/queues/billing/pause", {"reason": "bank is down", "for": "30m"})
    )
    assert "Paused: no job of the queue is claimed." in page.text
    (queue,) = site.queue.list_queues()
    assert (queue.paused, queue.paused_by, queue.pause_reason) == (
        True, "operator", "bank is down",
    )  # fmt: skip
    assert queue.paused_until is not None
    assert timedelta(minutes=29) < queue.paused_until - datetime.now(UTC) <= timedelta(minutes=30)

    page = operator.follow(operator.post("/queues/billing/resume", {"reason": "back"}))
    assert "Resumed." in page.text
    assert not any(queue.paused for queue in site.queue.list_queues())
    actions = [(item.action, item.actor, item.reason) for item in site.queue.list_audit()]
    assert actions[:2] == [("resume", "operator", "back"), ("pause", "operator", "bank is down")]
    page = operator.follow(operator.post("/queues/billing/resume"))
    assert "It was not paused." in page.text


@pytest.mark.parametrize(
    "form",
    [{"until": "2020-01-01T00:00"}, {"for": "x"}, {"for": "1h", "until": "2031-01-01T00:00"}],
)
def test_a_pause_that_cannot_be_is_400(site: Site, operator: Browser, form: dict[str, str]) -> None:
    before = site.state()
    assert operator.post("/queues/billing/pause", form).status_code == 400
    assert site.state() == before


def test_a_policy_is_set_and_unset_field_by_field(site: Site, operator: Browser) -> None:
    site.queue.set_policy("billing", lease=timedelta(minutes=2), timeout=timedelta(hours=1))
    page = operator.get("/queues/billing").text
    assert 'name="lease" value="2m"' in page
    assert 'name="timeout" value="1h"' in page
    assert 'placeholder="1h"' in page, "the general cap of the backoff"

    operator.follow(
        operator.post(
            "/queues/billing/policy",
            {"lease": "2m", "timeout": "", "max_attempts": "7", "backoff_cap": "10m",
             "reason": "slow bank"},
        )
    )  # fmt: skip
    policy = {item.name: item.value for item in site.queue.get_policy("billing") if item.value}
    assert policy == {"lease": "00:02:00", "max_attempts": "7", "backoff_cap": "00:10:00"}
    (action, *_) = site.queue.list_audit()
    assert (action.action, action.actor, action.reason) == ("set_policy", "operator", "slow bank")
    assert operator.post("/queues/billing/policy", {"lease": "1ms"}).status_code == 400


# -- settings


def test_settings_that_changed_are_saved(site: Site, admin: Browser) -> None:
    page = admin.get("/settings").text
    form = dict(
        re.findall(r'name="(\w+)" (?:type="number" min="1" max="100000" )?value="([^"]*)"', page)
    )
    assert form["lease"] == "1m"
    form |= {"lease": "90s", "max_attempts": "9", "claim_floor": "true", "reason": "slower"}
    page = admin.follow(admin.post("/settings", form))
    assert "Settings saved." in page.text
    (action, *_) = site.queue.list_audit()
    assert (action.actor, action.reason) == ("admin", "slower")
    assert action.detail == {"lease": "90000000 microseconds", "max_attempts": 9}
    values = {item.name: item.value for item in site.queue.get_settings()}
    assert (values["lease"], values["max_attempts"]) == ("00:01:30", "9")
    assert admin.post("/settings", {"lease": "0s"}).status_code == 400


def test_due_maintenance_runs_on_demand(site: Site, operator: Browser) -> None:
    site.queue.enqueue("pay")
    page = operator.follow(operator.post("/settings/maintenance/tick"))
    assert "Maintenance has run." in page.text
    assert "ran 00:00:0" in page.text


def test_accounts_are_made_changed_and_disabled(site: Site, admin: Browser) -> None:
    password = "correct horse battery"
    admin.follow(
        admin.post(
            "/settings/accounts",
            {"account": "Ada", "role": "viewer", "password": password, "reason": "new here"},
        )
    )
    ada = site.browser(None)
    assert ada.post("/sign-in", {"account": "ada", "password": password}).status_code == 303
    assert ada.get("/").status_code == 200

    admin.follow(admin.post("/settings/accounts/ada", {"role": "operator"}))
    assert ada.get("/").status_code == 303, "a change ends the account's sessions"
    assert ada.post("/sign-in", {"account": "ada", "password": password}).status_code == 303
    admin.follow(admin.post("/settings/accounts/ada", {"disabled": "1"}))
    assert ada.post("/sign-in", {"account": "ada", "password": password}).status_code == 401
    admin.follow(admin.post("/settings/accounts/ada", {"disabled": "0"}))
    admin.follow(admin.post("/settings/accounts/ada", {"password": "another one, longer"}))
    assert ada.post("/sign-in", {"account": "ada", "password": password}).status_code == 401

    assert admin.post("/settings/accounts", {"account": "ada"}).status_code == 409
    assert admin.post("/settings/accounts", {"account": "no name"}).status_code == 400
    short = {"account": "eve", "password": "short"}
    assert admin.post("/settings/accounts", short).status_code == 400
    assert admin.post("/settings/accounts/ada", {}).status_code == 400
    assert admin.post("/settings/accounts/nobody", {"role": "admin"}).status_code == 404
    actors = {item.actor for item in site.queue.list_audit() if item.action == "set_account"}
    assert actors == {"admin"}


def test_a_sign_in_link_is_shown_once_and_works_once(site: Site, admin: Browser) -> None:
    answer = admin.post("/settings/accounts", {"account": "ada", "role": "operator"})
    assert "link" not in answer.headers["Location"], "a secret never stands in an address"
    page = admin.follow(answer).text
    address = re.search(r"http://localhost(/sign-in/link/\w+)", page)
    assert address
    assert address[1] not in admin.get("/settings/accounts").text

    ada = site.browser(None)
    assert ada.get(address[1]).status_code == 200
    assert ada.get(address[1]).status_code == 200, "looking does not use it up"
    assert ada.post(address[1]).headers["Location"] == "/"
    assert "ada" in ada.get("/").text
    assert site.browser(None).post(address[1]).status_code == 401


def test_a_token_is_shown_once_and_revoked(site: Site, admin: Browser) -> None:
    page = admin.follow(
        admin.post("/settings/tokens", {"name": "ci", "role": "producer", "lifetime": "1d"})
    ).text
    secret = re.search(r"rowlock_\w+", page)
    assert secret
    assert secret[0] not in admin.get("/settings/tokens").text
    holder = site.queue.check_token(secret[0])
    assert holder is not None
    assert holder.role == "producer"
    admin.follow(admin.post(f"/settings/tokens/{holder.id}/revoke", {"reason": "leaked"}))
    assert site.queue.check_token(secret[0]) is None
    for form in ({"name": "", "role": "viewer"}, {"name": "x", "role": "owner"}):
        assert admin.post("/settings/tokens", form).status_code == 400
    assert "leaked" in admin.get("/settings/audit").text


def test_the_theme_is_remembered(viewer: Browser) -> None:
    answer = viewer.post("/preferences/theme", {"theme": "dark", "back": "/jobs?status=failed"})
    assert answer.headers["Location"] == "/jobs?status=failed"
    assert '<html lang="en" data-theme="dark">' in viewer.get("/").text
    viewer.post("/preferences/theme", {"theme": "<script>"})
    assert '<html lang="en" data-theme="auto">' in viewer.get("/").text


def test_a_notice_is_said_once(viewer: Browser) -> None:
    page = viewer.get("/jobs?status=failed&notice=retried").text
    assert "Queued again." in page
    assert 'name="back" value="/jobs?status=failed"' in page
    assert "made up" not in viewer.get("/jobs?notice=made+up").text


def test_jump_goes_to_a_job(viewer: Browser) -> None:
    assert viewer.get("/jobs/jump?id=%2342").headers["Location"] == "/jobs/42"
    assert viewer.get("/jobs/jump?id=+%23+42+").headers["Location"] == "/jobs/42"
    assert "is no whole number" in viewer.get("/jobs/jump?id=x").text
