"""One job in a browser: its failures, two people at once, a stop, a worker that was killed."""

from __future__ import annotations

import re
from datetime import timedelta

from playwright.sync_api import Route, expect

from tests.browser.conftest import Board, Opener, Workers
from tests.workers import eventually


def test_7_each_attempt_of_a_failed_job_is_told(
    board: Board, visit: Opener, queue: str, worker: Workers
) -> None:
    second = timedelta(seconds=1)
    board.queue.set_policy(queue, backoff_base=second, backoff_cap=second)
    job_id = board.queue.enqueue("card.charge", {}, queue, max_attempts=2).job_id
    page = visit("viewer", f"/jobs/{job_id}")
    with worker(queue):
        expect(page.get_by_role("heading", level=1)).to_contain_text("dead")

    attempts = page.get_by_role("table", name="Attempts").locator("tbody tr")
    expect(attempts).to_have_count(2)
    for attempt in attempts.all():
        expect(attempt).to_contain_text("CardDeclinedError")
        expect(attempt).to_contain_text("insufficient funds")
        trace = attempt.locator("details pre")
        expect(trace).to_be_hidden()
        attempt.locator("summary").click()
        expect(trace).to_contain_text('raise CardDeclinedError("insufficient funds")')
    expect(attempts.nth(1)).to_contain_text("waited")
    history = page.locator(".timeline")
    expect(history).to_contain_text("retry scheduled")
    expect(history).to_contain_text("moved to the dead letters")


def test_11_the_second_of_two_people_learns_that_it_is_done(
    board: Board, visit: Opener, queue: str
) -> None:
    job_id = board.fail(queue)
    one = visit("operator", f"/jobs/{job_id}")
    other = visit("admin", f"/jobs/{job_id}", expect=(409,))
    for page in (one, other):
        page.get_by_role("button", name="Retry…").click()
        with page.expect_navigation():
            page.get_by_role("dialog").get_by_role("button", name="Retry", exact=True).click()
    expect(one.get_by_text("Queued again.")).to_be_visible()
    expect(other.get_by_role("alert")).to_contain_text("queued")
    expect(other.get_by_role("heading", level=1)).to_contain_text("ready")
    expect(other.get_by_role("button", name="Retry…")).to_be_disabled()
    assert [event for event, _, _ in board.events(job_id)].count("retried") == 1


def test_a_form_is_sent_once_and_its_answer_said_once(
    board: Board, visit: Opener, queue: str
) -> None:
    page = visit("operator", "/jobs/new")
    sent: list[Route] = []
    page.route("**/jobs/new", lambda route: sent.append(route))
    page.get_by_label("Kind").fill("noop")
    page.get_by_label("Queue").fill(queue)
    page.evaluate(
        """const button = document.querySelector("main form .main");
           for (const after of [0, 150]) setTimeout(() => button.click(), after);"""
    )
    page.wait_for_timeout(500)
    assert len(sent) == 1
    sent[0].continue_()
    expect(page.get_by_text("Job created.")).to_be_visible()
    expect(page).not_to_have_url(re.compile("notice"))
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("noop")
    expect(page.get_by_text("Job created.")).to_have_count(0)
    assert len(board.queue.list_jobs({"queue": queue}).rows) == 1


def test_12_a_running_job_is_asked_to_stop_and_stops(
    board: Board, visit: Opener, queue: str, worker: Workers
) -> None:
    job_id = board.queue.enqueue(
        "report.render", {"seconds": 120}, queue, lease=timedelta(seconds=6)
    ).job_id
    page = visit("operator", f"/jobs/{job_id}")
    with worker(queue):
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("running")
        page.get_by_role("button", name="Cancel…").click()
        page.get_by_role("dialog").get_by_label("Reason").fill("ordered twice")
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        expect(page.get_by_text("The worker was asked to stop.")).to_be_visible()
        expect(page.locator(".timeline")).to_contain_text("cancel requested")
        expect(heading).to_contain_text("cancelled")
    expect(page.locator(".timeline")).to_contain_text("ordered twice")
    assert ("cancel_requested", "operator", "ordered twice") in board.events(job_id)


def test_12_a_job_of_a_killed_worker_is_taken_by_another(
    board: Board, visit: Opener, queue: str, worker: Workers
) -> None:
    second = timedelta(seconds=1)
    board.queue.set_policy(queue, backoff_base=second, backoff_cap=second)
    job_id = board.queue.enqueue("slow.first", {}, queue, lease=timedelta(seconds=2)).job_id
    page = visit("viewer", f"/jobs/{job_id}")
    with worker(queue) as first:
        eventually(lambda: board.queue.get_job(job_id).status == "running")
        lost = board.queue.get_job(job_id).worker
        first.kill()
    with worker(queue):
        expect(page.get_by_role("heading", level=1)).to_contain_text("succeeded")
    expect(page.locator(".timeline")).to_contain_text("lease expired")
    attempts = page.get_by_role("table", name="Attempts").locator("tbody tr")
    expect(attempts).to_have_count(2)
    expect(attempts.nth(1)).to_contain_text(lost or "?")
    expect(attempts.nth(0)).not_to_contain_text(lost or "?")
