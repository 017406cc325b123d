"""What moves by itself: an empty installation, a job on its way, ticks that stay, a pause."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from playwright.sync_api import Page, Request, Route, expect

from tests.browser.conftest import Board, Opener, Workers
from tests.workers import eventually
from webui.pages import ago


def state(page: Page) -> None:
    """Waits until the page says that it follows."""
    expect(page.locator("[data-live-state]")).to_have_text(re.compile("^Live"))


def test_1_a_fresh_installation_says_how_to_begin(own_board: Board, visit: Opener) -> None:
    page = visit("admin", "/", on=own_board, permissions=["clipboard-read", "clipboard-write"])

    figures = page.locator("[data-figure]")
    expect(figures).to_have_text(["0", "0", "0", "0", "0"])
    expect(page.get_by_text("No jobs yet. Enqueue one:")).to_be_visible()
    shown = page.locator(".empty code").inner_text()
    page.get_by_role("button", name="Copy").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == shown

    own_board.conn.execute(copied)
    assert [job.kind for job in own_board.queue.list_jobs().rows] == ["email.send"]
    expect(page.locator('[data-figure="ready"]')).to_have_text("1")


def test_2_a_job_appears_and_is_followed_to_its_end(
    board: Board, visit: Opener, queue: str, worker: Workers
) -> None:
    lists = visit("viewer", f"/jobs?queue={queue}")
    expect(lists.get_by_text("No job matches.")).to_be_visible()
    made = board.queue.enqueue("report.render", {"seconds": 4}, queue)
    row = lists.locator(f'tr[data-row="{made.job_id}"]')
    expect(row).to_contain_text("ready", timeout=3000)

    page = visit("viewer", f"/jobs/{made.job_id}")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("ready")
    percents: set[int] = set()
    with worker(queue):
        expect(heading).to_contain_text("running")
        bar = page.get_by_role("progressbar")
        while "succeeded" not in heading.inner_text():
            percents.update(bar.evaluate_all("bars => bars.map((bar) => bar.value)"))
            page.wait_for_timeout(200)
    assert len(percents) >= 2, percents
    expect(page.locator(".timeline")).to_contain_text("100 % page 10 of 10")
    expect(page.get_by_role("heading", name="Result")).to_be_visible()
    expect(page.locator("[data-live-state]")).to_have_text(re.compile("^Ended"))
    expect(row).to_contain_text("succeeded")


def test_9_ticks_stay_while_the_list_waits(board: Board, visit: Opener, queue: str) -> None:
    ids = [board.queue.enqueue("noop", queue=queue).job_id for _ in range(5)]
    page = visit("operator")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    for job_id in ids[:2]:
        page.get_by_label(f"Tick job {job_id}").check()
    expect(page.locator("[data-tick-count]")).to_have_text("2 ticked")

    new = board.queue.enqueue("noop", queue=queue).job_id
    for _ in range(3):
        page.clock.run_for(2100)
    expect(page.locator("[data-live-state]")).to_have_text("Paused: selection")
    for job_id in ids:
        expect(page.get_by_label(f"Tick job {job_id}")).to_be_checked(checked=job_id in ids[:2])
    assert page.locator(f'tr[data-row="{new}"]').count() == 0

    for job_id in ids[:2]:
        page.get_by_label(f"Tick job {job_id}").uncheck()
    page.clock.run_for(5100)
    expect(page.locator(f'tr[data-row="{new}"]')).to_be_visible()
    state(page)


def test_9_what_is_begun_while_an_answer_is_on_its_way_stays(
    board: Board, visit: Opener, queue: str
) -> None:
    job_id = board.queue.enqueue("noop", queue=queue).job_id
    page = visit("operator", f"/jobs?queue={queue}")
    answers: list[Route] = []
    page.route(f"**/jobs?queue={queue}", lambda route: answers.append(route))
    new = board.queue.enqueue("noop", queue=queue).job_id
    while not answers:
        page.wait_for_timeout(50)
    page.get_by_label(f"Tick job {job_id}").check()
    with page.expect_response(f"**/jobs?queue={queue}"):
        answers[0].continue_()
    expect(page.locator("[data-live-state]")).to_have_text("Paused: selection")
    expect(page.get_by_label(f"Tick job {job_id}")).to_be_checked()
    assert page.locator(f'tr[data-row="{new}"]').count() == 0


def test_9_text_that_is_selected_stays_selected(board: Board, visit: Opener, queue: str) -> None:
    board.queue.enqueue("noop", queue=queue)
    page = visit("viewer")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    page.get_by_role("cell", name="noop").select_text()
    board.queue.enqueue("noop", queue=queue)
    page.clock.run_for(5100)
    expect(page.locator("[data-live-state]")).to_have_text("Paused: text selected")
    assert page.evaluate("getSelection().toString()") == "noop"
    page.get_by_role("heading", level=1).click()
    page.clock.run_for(5100)
    expect(page.locator("tr[data-row]")).to_have_count(2)


def test_9_focus_and_scroll_survive_a_refresh(board: Board, visit: Opener, queue: str) -> None:
    ids = [board.queue.enqueue("noop", queue=queue).job_id for _ in range(40)]
    page = visit("operator")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    link = page.get_by_role("link", name=f"#{ids[5]}", exact=True)
    link.focus()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 0

    new = board.queue.enqueue("noop", queue=queue).job_id
    page.clock.run_for(5100)
    expect(page.locator(f'tr[data-row="{new}"]')).to_be_attached()
    expect(link).to_be_focused()
    assert abs(page.evaluate("scrollY") - scrolled) < 60


def test_a_list_that_is_held_does_not_move_until_resumed(
    board: Board, visit: Opener, queue: str
) -> None:
    page = visit("viewer")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    page.get_by_role("button", name="Hold").click()
    board.queue.enqueue("noop", queue=queue)
    page.clock.run_for(11_000)
    expect(page.locator("[data-live-state]")).to_have_text("Paused: held")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.clock.run_for(5100)
    expect(page.get_by_text("No job matches.")).to_have_count(0)


def test_a_hidden_tab_asks_for_nothing(board: Board, visit: Opener, queue: str) -> None:
    page = visit("viewer")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    hidden = "Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s})"
    page.evaluate(hidden % "true")
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request))
    page.clock.run_for(11_000)
    expect(page.locator("[data-live-state]")).to_have_text("Paused: hidden")
    assert [each.url for each in asked if "x-live" in each.headers] == []

    page.clock.pause_at(datetime.now() + timedelta(minutes=1))
    made = board.queue.enqueue("noop", queue=queue)
    page.evaluate(hidden % "false")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.get_by_role("link", name=f"#{made.job_id}")).to_be_visible()


def test_a_page_says_so_when_its_job_is_gone(board: Board, visit: Opener, queue: str) -> None:
    job_id = board.queue.enqueue("noop", queue=queue).job_id
    page = visit("viewer", f"/jobs/{job_id}", expect=(404,))
    board.queue.cancel(job_id)
    board.queue.discard(job_id)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Job {job_id} is gone")


def test_new_events_are_counted_and_shown_when_asked_for(
    board: Board, visit: Opener, queue: str
) -> None:
    first = board.queue.enqueue("noop", queue=queue).job_id
    page = visit("viewer")
    page.clock.install()
    page.goto(f"/events?queue={queue}")
    expect(page.get_by_role("link", name=f"#{first}")).to_be_visible()
    made = board.queue.enqueue_many([{"kind": "noop", "queue": queue}] * 14)
    page.clock.run_for(5100)
    more = page.get_by_role("link", name="14 new events")
    expect(more).to_be_visible()
    expect(page.locator("tr[data-row]")).to_have_count(1)
    more.click()
    expect(page.get_by_role("link", name=f"#{made[-1].job_id}")).to_be_visible()


def test_the_script_counts_times_as_the_server_writes_them(visit: Opener) -> None:
    ages = [timedelta(seconds=each) for each in (70, 3695, 90_000, -100, -7300)]
    page = visit("viewer", "/queues")
    page.evaluate(
        """(times) => document.querySelector("main").insertAdjacentHTML("beforeend",
             times.map((time) => `<time datetime="${time}" class="test"></time>`).join(""))""",
        [(datetime.now(UTC) - age).isoformat() for age in ages],
    )
    written = [ago(datetime.now(UTC) - age) for age in ages]
    assert written == ["1 m ago", "1 h 1 m ago", "1 d 1 h ago", "in 1 m", "in 2 h 1 m"]
    expect(page.locator("time.test")).to_have_text(written)


def test_13_a_pause_is_told_everywhere_and_nothing_is_claimed(
    board: Board, visit: Opener, queue: str, worker: Workers
) -> None:
    page = visit("operator", f"/queues/{queue}")
    page.get_by_role("button", name="Pause…").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the bank is down")
    page.get_by_label("For", exact=True).fill("a while")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog")).to_be_visible()  # with what was typed
    page.get_by_label("For", exact=True).clear()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("main")).to_contain_text("by operator: the bank is down")

    job_id = board.queue.enqueue("noop", queue=queue).job_id
    for path in ("/", "/queues", f"/jobs?queue={queue}"):
        page.goto(path)
        words = page.get_by_role("main")
        expect(words, path).to_contain_text("the bank is down")
        expect(words, path).to_contain_text("operator")
    with worker(queue) as process:
        eventually(lambda: board.queue.list_workers(), what="the worker is there")
        assert process.popen.poll() is None
        page.wait_for_timeout(1500)
        assert board.queue.get_job(job_id).status == "queued"

        page.goto(f"/queues/{queue}")
        page.get_by_role("button", name="Resume").first.click()
        eventually(lambda: board.queue.get_job(job_id).status == "succeeded")
    expect(page.get_by_role("main")).not_to_contain_text("the bank is down")


def test_the_page_of_a_job_works_in_the_dark_by_choice(
    board: Board, visit: Opener, queue: str
) -> None:
    page = visit("viewer", "/", color_scheme="light")

    def ground() -> str:
        page.wait_for_load_state()  # a page without its style sheet has none
        found: str = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return found

    light = ground()
    page.get_by_label("Theme").select_option("dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = ground()
    assert dark != light
    page.goto("/jobs")
    assert ground() == dark
    page.get_by_label("Theme").select_option("auto")
    expect(page.locator("html")).to_have_attribute("data-theme", "auto")
    assert ground() == light
    page.emulate_media(color_scheme="dark")
    assert ground() == dark
