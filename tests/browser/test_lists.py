"""Lists in a browser: pages, filters, addresses, ticks and what is done with many."""

from __future__ import annotations

import re
import threading

from playwright.sync_api import Page, expect

from pyworker.client import Client, connect
from tests.browser.conftest import Board, Opener


def rows(page: Page) -> list[int]:
    page.wait_for_load_state("domcontentloaded")
    return [
        int(row)
        for row in page.locator("tr[data-row]").evaluate_all("all => all.map(r => r.dataset.row)")
    ]


def turn(page: Page, link: str) -> list[int]:
    """Follows a link and waits for the page it leads to."""
    with page.expect_navigation(wait_until="domcontentloaded"):
        page.get_by_role("link", name=link).click()
    return rows(page)


def test_3_a_list_of_more_than_10_000_says_so(board: Board, visit: Opener, queue: str) -> None:
    for _ in range(11):
        board.queue.enqueue_many([{"kind": "noop", "queue": queue}] * 1000)
    board.count()
    page = visit("viewer", f"/jobs?queue={queue}&q=priority:5")
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("more than 10,000 match")
    page.goto(f"/jobs?queue={queue}&q=payload.user_id:42")
    expect(page.get_by_text("None among the 10,000 read here.")).to_be_visible()
    page.get_by_role("link", name="Go on reading").click()
    expect(page.get_by_text("No job matches.")).to_be_visible()
    board.conn.execute("delete from queue.jobs where queue = %s", [queue])


def test_4_forty_pages_there_and_back_while_jobs_arrive(
    board: Board, visit: Opener, queue: str
) -> None:
    made = board.queue.enqueue_many([{"kind": "noop", "queue": queue}] * 215)
    expected = sorted((each.job_id for each in made), reverse=True)
    stop = threading.Event()

    def produce() -> None:
        with connect(board.database.url, "test") as conn:
            client = Client(conn)
            while not stop.wait(0.1):
                client.enqueue_many([{"kind": "noop", "queue": queue}] * 10)

    producer = threading.Thread(target=produce)
    page = visit("viewer", f"/jobs?queue={queue}&size=5", java_script_enabled=False)
    producer.start()
    try:
        there = [rows(page)]
        for _ in range(40):
            there.append(turn(page, "Older"))
        back = [there[-1]]
        for _ in range(40):
            back.append(turn(page, "Newer"))
    finally:
        stop.set()
        producer.join()
    seen = [row for each in there for row in each]
    assert seen == expected[: len(seen)], "no row twice, none missing"
    assert len(seen) == 41 * 5
    assert back[::-1] == there
    assert rows(page)[0] < max(job.id for job in board.queue.list_jobs({"queue": queue}).rows)


def test_5_an_address_shows_the_same_to_somebody_else(
    board: Board, visit: Opener, queue: str
) -> None:
    for user in range(30):
        board.queue.enqueue("mail.send", {"user_id": user % 3}, queue, priority=user % 2)
    page = visit("viewer", f"/jobs?queue={queue}&size=5")
    page.get_by_label("Search").fill("payload.user_id:1")
    page.get_by_role("button", name="Filter", exact=True).click()
    assert len(turn(page, "Older")) == 5

    other = visit(None, page.url)
    expect(other).to_have_url(re.compile(r"/sign-in\?next="))
    other.get_by_label("Account").fill("operator")
    other.get_by_label("Password").fill("correct horse battery")
    other.get_by_role("button", name="Sign in").click()
    expect(other).to_have_url(page.url)
    assert rows(other) == rows(page)
    chips = ".chips a:not(.clear)"
    assert other.locator(chips).all_inner_texts() == page.locator(chips).all_inner_texts()
    assert len(page.locator(chips).all_inner_texts()) == 2


def test_6_a_filter_that_finds_nothing_is_cleared_and_back_restores(
    board: Board, visit: Opener, queue: str
) -> None:
    (wanted, _) = (
        board.queue.enqueue("mail.send", {"user_id": user}, queue).job_id for user in (42, 43)
    )
    page = visit("viewer", f"/jobs?queue={queue}")
    page.get_by_label("Search").fill("payload.user_id:42")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert rows(page) == [wanted]

    page.get_by_label("Search").fill("payload.user_id:42 kind:no.such")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No job matches.")).to_be_visible()
    expect(page.locator(".empty").get_by_role("link", name="Clear filters")).to_be_visible()
    page.go_back()
    expect(page.locator("tr[data-row]")).to_have_count(1)
    expect(page.get_by_label("Search")).to_have_value("payload.user_id:42")


def test_10_a_range_is_ticked_and_all_that_match_are_what_the_preview_says(
    board: Board, visit: Opener, queue: str
) -> None:
    ids = [board.fail(queue) for _ in range(9)]
    newest = ids[::-1]
    page = visit("operator", f"/jobs?status=failed&queue={queue}")
    page.get_by_label(f"Tick job {newest[1]}").click()
    page.get_by_label(f"Tick job {newest[4]}").click(modifiers=["Shift"])
    expect(page.locator("[data-tick-count]")).to_have_text("4 ticked")
    page.get_by_role("group", name="With the ticked jobs").get_by_role(
        "button", name="Retry…"
    ).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 4 jobs")
    page.get_by_role("button", name="Retry 4 jobs").click()
    expect(page.locator("[data-changed]")).to_have_text("4")
    assert {board.queue.get_job(job_id).status for job_id in newest[1:5]} == {"queued"}

    page.get_by_role("link", name="Back to the list").last.click()
    expect(page.locator("tr[data-row]")).to_have_count(5)
    page.get_by_text("All that match").click()
    page.locator("#all-matching").get_by_role("link", name="Retry…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 5 jobs")
    taken = newest[0]
    board.queue.retry(taken)  # somebody else is faster
    page.get_by_role("button", name="Retry 5 jobs").click()
    expect(page.locator("[data-changed]")).to_have_text("4")
    assert board.queue.count_jobs({"status": "failed", "queue": queue}).jobs == 0


def test_10_a_ticked_job_that_changed_meanwhile_is_named(
    board: Board, visit: Opener, queue: str
) -> None:
    one, other = board.fail(queue), board.fail(queue)
    page = visit("operator", f"/jobs?status=failed&queue={queue}")
    for job_id in (one, other):
        page.get_by_label(f"Tick job {job_id}").check()
    page.keyboard.press("r")
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 2 jobs")
    board.queue.retry(one)
    page.get_by_role("button", name="Retry 2 jobs").click()
    expect(page.locator("[data-changed]")).to_have_text("1")
    expect(page.get_by_role("main")).to_contain_text("1 skipped")
    expect(page.get_by_role("listitem").filter(has_text=f"#{one}")).to_contain_text("ready now")


def test_10_steps_follow_by_themselves_only_where_the_first_was_sent(
    board: Board, visit: Opener, queue: str
) -> None:
    """Else a link that somebody is sent would do what its sender may not."""
    ids = [board.fail(queue) for _ in range(5)]
    dead = {"status": "failed", "queue": queue}
    cursor = board.queue.bulk("discard", dead, True, 1).next_cursor
    begun = f"/jobs/bulk?action=discard&all=1&status=failed&queue={queue}&changed=1&cursor={cursor}"
    page = visit("operator", begun)
    page.wait_for_timeout(1500)
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    assert board.queue.get_job(ids[0]).status == "failed"

    page.evaluate('sessionStorage.setItem("sent", "/jobs/bulk")')  # as a form sent here does
    page.goto(begun)
    expect(page.locator("[data-changed]")).to_have_text("5")
    page.go_back()
    expect(page.locator("[data-goes-on-state]")).to_be_empty()
    page.goto("/jobs")
    assert page.evaluate("sessionStorage.length") == 0


def test_10_without_a_tick_an_action_asks_for_one(board: Board, visit: Opener, queue: str) -> None:
    board.fail(queue)
    page = visit("operator", f"/jobs?queue={queue}")
    page.get_by_role("button", name="Discard…").click()
    expect(page.get_by_text("Tick some jobs first.")).to_be_visible()


def test_8_dead_letters_of_one_error_are_retried_together(
    board: Board, visit: Opener, queue: str
) -> None:
    ids = [board.fail(queue, f"insufficient funds on card {1000 + n}") for n in range(9)]
    board.fail(queue, "read timed out", "crm.sync")
    page = visit("operator", f"/dead?queue={queue}")
    expect(page.get_by_text("10 dead in 2 groups")).to_be_visible()
    group = page.locator("tr[data-row]").filter(has_text="CardDeclined").first
    group.get_by_role("link", name="Retry 9…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retry 9 jobs")
    page.get_by_label("Extra attempts").fill("3")
    page.get_by_label("Spread over").fill("10m")
    page.get_by_label("Reason").fill("the bank is back")
    page.get_by_role("button", name="Retry 9 jobs").click()
    expect(page.locator("[data-changed]")).to_have_text("9")
    expect(page.get_by_role("progressbar")).to_have_attribute("value", "9")
    page.get_by_role("link", name="Back to the list").last.click()
    expect(page.locator("tr[data-row]")).to_have_count(1)

    due = {board.queue.get_job(job_id).available_at for job_id in ids}
    assert len(due) > 5, "spread"
    for job_id in ids:
        assert board.queue.get_job(job_id).max_attempts == 4
        assert board.events(job_id)[-1] == ("retried", "operator", "the bank is back")
    page.goto(f"/events?queue={queue}&event=retried")
    expect(page.get_by_role("main")).to_contain_text("the bank is back")


def test_14_a_priority_moves_a_job_in_line_and_a_running_one_is_refused(
    board: Board, visit: Opener, queue: str
) -> None:
    first, second = (board.queue.enqueue("noop", queue=queue).job_id for _ in range(2))
    page = visit("operator", f"/jobs?label=ready&queue={queue}", expect=(409,))
    assert rows(page) == [first, second]
    page.goto(f"/jobs/{second}")
    page.get_by_role("button", name="Priority…").click()
    page.get_by_role("dialog").get_by_label("Priority").select_option("9")
    page.get_by_role("dialog").get_by_role("button", name="Set priority").click()
    expect(page.get_by_text("Priority changed.")).to_be_visible()
    page.goto(f"/jobs?label=ready&queue={queue}")
    assert rows(page) == [second, first]

    page.goto(f"/jobs/{first}")
    page.get_by_role("button", name="Priority…").click()
    board.queue.claim("tester-1-ab", [queue], 2)
    page.get_by_role("dialog").get_by_role("button", name="Set priority").click()
    expect(page.get_by_role("alert")).to_contain_text("running")
    button = page.get_by_role("button", name="Priority…")
    expect(button).to_be_disabled()
    expect(button).to_have_attribute("title", re.compile("this one is running"))
