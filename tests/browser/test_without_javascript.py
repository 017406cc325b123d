"""Check 19: everything that people do works with JavaScript off."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD, Board, Opener


def test_19_sign_in_filter_page_open_retry_pause_and_sign_out(
    board: Board, visit: Opener, queue: str
) -> None:
    ids = [board.fail(queue) for _ in range(7)]
    page = visit(None, "/jobs?size=5", java_script_enabled=False)
    page.get_by_label("Account").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()

    page.get_by_label("Queue").fill(queue)
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.locator("tr[data-row]")).to_have_count(5)
    page.get_by_role("link", name="Older").click()
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.get_by_role("link", name=f"#{ids[0]}", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("dead")
    expect(page.get_by_text("Reload to see changes")).to_be_visible()

    page.get_by_label("Extra attempts").fill("2")
    page.locator("#ask-retry").get_by_label("Reason").fill("by hand")
    page.locator("#ask-retry").get_by_role("button", name="Retry").click()
    expect(page.get_by_text("Queued again.")).to_be_visible()
    assert board.events(ids[0])[-1] == ("retried", "operator", "by hand")

    page.goto(f"/jobs?queue={queue}&status=failed")
    page.get_by_label(f"Tick job {ids[1]}").check()
    page.get_by_label(f"Tick job {ids[2]}").check()
    page.get_by_role("group", name="With the ticked jobs").get_by_role(
        "button", name="Discard…"
    ).click()
    page.get_by_role("button", name="Discard 2 jobs").click()
    expect(page.locator("[data-changed]")).to_have_text("2")

    page.goto(f"/queues/{queue}")
    page.locator("#ask-pause").get_by_label("Reason").fill("no JavaScript")
    page.locator("#ask-pause").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("main")).to_contain_text("no JavaScript")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Resumed.")).to_be_visible()

    page.goto("/jobs/new")
    page.get_by_label("Kind").fill("noop")
    page.get_by_label("Queue").fill(queue)
    page.get_by_label("Payload").fill('{"by": "hand"}')
    page.get_by_role("button", name="Enqueue").click()
    expect(page.get_by_text("Job created.")).to_be_visible()

    page.get_by_label("Theme").select_option("dark")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    page.goto("/jobs")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
