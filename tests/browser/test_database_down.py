"""Check 20: the database is away, and comes back; a search takes too long."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Board, Opener, board_on
from tests.support.cluster import Cluster


def test_20_pages_say_that_the_database_is_away_and_recover_by_themselves(
    own_cluster: Cluster, visit: Opener
) -> None:
    server = own_cluster.server
    assert server is not None
    with board_on(own_cluster.create()) as board:
        job_id = board.queue.enqueue("noop").job_id
        open_list = visit("viewer", "/jobs", on=board, expect=(503,))
        page = visit("operator", "/queues", on=board, expect=(503,))
        asking = visit("operator", f"/jobs/{job_id}", on=board, expect=(503,))
        asking.get_by_role("button", name="Cancel…").click()
        health = open_list.request

        board.conn.close()
        server.stop()
        try:
            page.goto("/jobs?queue=default")
            expect(page.get_by_role("heading", level=1)).to_have_text("Database unreachable")
            expect(page.get_by_text("Retrying every 5 seconds.")).to_be_visible()
            expect(open_list.locator("[data-live-state]")).to_contain_text("No answer (503)")
            asking.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
            expect(asking.get_by_role("heading", level=1)).to_have_text("Database unreachable")
            expect(asking.get_by_role("main")).to_contain_text("Look whether what you asked for")
            expect(open_list.get_by_role("link", name=f"#{job_id}", exact=True)).to_be_visible()
            assert health.get(f"{board.address}/healthz").status == 200
            assert health.get(f"{board.address}/readyz").status == 503
        finally:
            server.start()

        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs", timeout=30_000)
        expect(page).to_have_url(re.compile("queue=default"))
        expect(asking.get_by_role("heading", level=1)).to_contain_text(f"#{job_id}", timeout=30_000)
        expect(open_list.locator("[data-live-state]")).to_contain_text("Live", timeout=30_000)
        assert health.get(f"{board.address}/readyz").status == 200


def test_20_a_search_that_takes_too_long_leaves_filters(own_board: Board, visit: Opener) -> None:
    own_board.queue.enqueue("noop", {"user_id": 42}, "billing")
    own_board.conn.execute(
        """
        create or replace function queue._check_job_filter(p_filter jsonb) returns void
        language plpgsql as $$
        begin
          if p_filter ? 'payload' then
            perform pg_sleep(5);
          end if;
        end
        $$
        """
    )
    page = visit("viewer", "/jobs?queue=billing", on=own_board, expect=(503,))
    page.get_by_label("Search").fill("payload.user_id:42")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The search was stopped after 2.0 s.")
    expect(page.get_by_label("Queue")).to_have_value("billing")
    page.get_by_label("Search").fill("kind:noop")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-row]")).to_have_count(1)
