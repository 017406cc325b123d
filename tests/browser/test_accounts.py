"""Who may what, as the browser shows it and the database decides it."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD, Board, Opener

_EXPLAINED = re.compile("^Your role, viewer, cannot .*; ask an (operator|admin).$")


def test_16_a_viewers_buttons_are_off_and_say_why(board: Board, visit: Opener, queue: str) -> None:
    job_id = board.fail(queue)
    board.queue.pause(queue, "so that there is a button to resume")
    page = visit("viewer")
    harmless = re.compile("Hold|Resume|Filter|Sign out|Copy|Close|Set|Show|^Back$|Traceback")
    seen = 0
    for path in ("/", f"/jobs?queue={queue}", f"/jobs/{job_id}", "/dead", f"/queues/{queue}",
                 "/settings", "/settings/maintenance"):  # fmt: skip
        page.goto(path)
        buttons = page.locator("main button:visible")
        for button in buttons.all():
            if button.is_enabled():
                live = button.get_attribute("data-live-toggle") is not None
                words = button.inner_text()
                assert live or (re.search(harmless, words) and words != "Resume"), (path, words)
            else:
                assert re.match(_EXPLAINED, button.get_attribute("title") or ""), path
                seen += 1
    assert seen > 15


def test_16_a_viewers_forged_form_dies_in_the_database(
    board: Board, visit: Opener, queue: str
) -> None:
    job_id = board.fail(queue)
    page = visit("viewer", f"/jobs/{job_id}", expect=(403,))
    page.evaluate(
        """(action) => {
          const form = document.createElement("form");
          const token = document.querySelector("input[name=form_token]").cloneNode();
          Object.assign(form, {method: "post", action});
          form.append(token);
          document.body.append(form);
          form.submit();
        }""",
        f"/jobs/{job_id}/retry",
    )
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    expect(page.locator(".message")).to_contain_text("permission denied for function retry")
    assert board.queue.get_job(job_id).status == "failed"

    audit = visit("admin", "/settings/audit")
    row = audit.locator("tbody tr").filter(has_text=f"POST /jobs/{job_id}/retry")
    expect(row).to_contain_text("refused")
    expect(row).to_contain_text("viewer")


def test_16_nobody_is_led_to_sign_in_and_on_to_where_they_were_going(visit: Opener) -> None:
    page = visit(None, "/queues?x=1")
    expect(page).to_have_url(re.compile(r"/sign-in\?next="))
    page.get_by_label("Account").fill("viewer")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/queues\?x=1$"))
    (cookie,) = [each for each in page.context.cookies() if each["name"] == "rowlock"]
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert page.evaluate("document.cookie") == ""


def test_16_ten_wrong_passwords_are_throttled_and_tell_nothing(
    own_board: Board, visit: Opener
) -> None:
    said: dict[str, list[str]] = {}
    page = visit(None, on=own_board, expect=(401, 429))
    for account, times in (("operator", 10), ("nobody.here", 6)):
        said[account] = []
        for number in range(times):
            page.goto("/sign-in")
            page.get_by_label("Account").fill(account)
            page.get_by_label("Password").fill(f"a wrong password {number}")
            page.keyboard.press("Enter")
            said[account].append(re.sub(r"\d+", "N", page.get_by_role("alert").inner_text()))
            expect(page.get_by_label("Account")).to_have_value(account)
    assert said["operator"][:6] == said["nobody.here"]
    assert said["operator"][:5] == ["Account or password is wrong."] * 5
    assert all("too many wrong passwords" in each for each in said["operator"][5:])

    page.get_by_label("Account").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("too many wrong passwords")
    own_board.conn.execute("update queue.sign_in_failures set at = at - interval '1 hour'")
    page.get_by_label("Account").fill("operator")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_link_signs_in_once(board: Board, visit: Opener) -> None:
    board.queue.create_account("guest.once", "viewer")
    path = f"/sign-in/link/{board.queue.create_link('guest.once')}"
    page = visit(None, path)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    again = visit(None, path, expect=(401,))
    again.get_by_role("button", name="Sign in").click()
    expect(again.get_by_role("alert")).to_contain_text("used or is too old")


def test_a_cookie_is_worth_nothing_after_sign_out_or_another_role(
    board: Board, visit: Opener
) -> None:
    board.queue.create_account("guest.twice", "viewer")
    for end in ("sign out", "role"):
        secret = board.queue.start_session("guest.twice")
        cookie = {"name": "rowlock", "value": secret, "url": board.address + "/"}
        page = visit(None)
        page.context.add_cookies([cookie])  # type: ignore[list-item]
        page.goto("/jobs")
        expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
        if end == "role":
            board.queue.set_account("guest.twice", "operator")
        else:
            with page.expect_navigation():
                page.get_by_role("button", name="Sign out").click()
        page.context.add_cookies([cookie])  # type: ignore[list-item]
        page.goto("/jobs")
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_a_new_token_is_shown_once(board: Board, visit: Opener, queue: str) -> None:
    page = visit("admin")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page.goto("/settings/tokens")
    page.get_by_label("Name").fill(f"ci {queue}")
    page.get_by_label("Role").select_option("viewer")
    with page.expect_navigation():
        page.get_by_role("button", name=re.compile("token", re.I)).click()
    secret = page.locator("main code").first.inner_text()
    answer = page.request.get(
        f"{board.address}/api/v1/whoami", headers={"Authorization": f"Bearer {secret}"}
    )
    assert answer.json()["role"] == "viewer"
    page.get_by_role("button", name="Copy").click()  # as without TLS
    expect(page.get_by_role("button", name="Selected: copy it")).to_be_visible()
    assert page.evaluate("getSelection().toString()") == secret
    page.reload()
    expect(page.locator("tbody")).to_contain_text(f"ci {queue}")
    assert secret not in page.content()

    row = page.locator("tbody tr").filter(has_text=f"ci {queue}")
    row.get_by_text("Revoke…").click()
    row.get_by_label("Reason").fill("leaked")
    row.get_by_role("button", name="Revoke for good").click()
    expect(page.get_by_text("Token revoked.")).to_be_visible()
    expect(row).to_contain_text("revoked")
    last = board.queue.list_audit(None, 1)[0]
    assert (last.action, last.reason) == ("revoke_token", "leaked")
