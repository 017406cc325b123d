"""For everybody: keys alone, a screen reader's rules, a phone, large type, both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Board, Opener
from tests.browser.screens import LivedIn, live_in
from tests.support import browsers

_ASK_AXE = """async (only) => {
  const found = await axe.run(document, {resultTypes: ["violations"], ...only});
  return found.violations
    .filter((rule) => ["serious", "critical"].includes(rule.impact))
    .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`);
}"""


# Tables that are cards, with their menus open, and yet reach beyond the screen.
_CUT = """() => {
  for (const menu of document.querySelectorAll("details.menu")) menu.open = true;
  return [...document.querySelectorAll(".scroll:has(.cards)")]
    .filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.querySelector("caption").textContent);
}"""


@pytest.fixture(scope="module")
def lived_in(board: Board) -> LivedIn:
    return live_in(board.queue, "lived-in")


def open_dialogs(page: Page) -> None:
    """Shows what stands in dialogs, not as one, so that all of it is looked at at once."""
    page.evaluate(
        'for (const each of document.querySelectorAll("dialog")) each.setAttribute("open", "")'
    )


@pytest.mark.parametrize("part", [0, 1])
def test_18_axe_finds_nothing_serious_in_light_and_dark(
    visit: Opener, lived_in: LivedIn, part: int
) -> None:
    script = browsers.axe()
    page = visit("admin", expect=(400, 404), color_scheme="light")
    found = {}
    for path in lived_in.paths[part::2]:
        page.goto(path)
        page.evaluate(script)
        found[path, "light"] = page.evaluate(_ASK_AXE, {})
        open_dialogs(page)
        page.emulate_media(color_scheme="dark")
        only = {"runOnly": ["color-contrast"]}  # the rest does not depend on colours
        found[path, "dark"] = page.evaluate(_ASK_AXE, only)
        page.emulate_media(color_scheme="light")
        if page.locator("dialog.ask").count():
            found[path, "dialogs"] = page.evaluate(_ASK_AXE, only)
    assert {place: rules for place, rules in found.items() if rules} == {}


def test_18_axe_finds_nothing_serious_where_nobody_is_signed_in(
    board: Board, visit: Opener
) -> None:
    script = browsers.axe()
    page = visit(None)
    board.queue.create_account("guest", "viewer")
    for path in ("/sign-in", f"/sign-in/link/{board.queue.create_link('guest')}"):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto(path)
            page.evaluate(script)
            assert page.evaluate(_ASK_AXE, {}) == [], (path, scheme)


def test_18_axe_would_say_so(visit: Opener) -> None:
    page = visit("viewer", "/")
    page.evaluate(browsers.axe())
    for name in ("aria-label", "placeholder", "title"):
        page.evaluate(f'document.querySelector("[data-search]").removeAttribute("{name}")')
    assert any(rule.startswith("label:") for rule in page.evaluate(_ASK_AXE, {}))


def test_18_no_screen_scrolls_sideways_on_a_phone_or_at_twice_the_size(
    visit: Opener, lived_in: LivedIn
) -> None:
    page = visit("admin", expect=(400, 404))
    wide = []
    for path in lived_in.paths:
        page.goto(path)
        for width, height in ((360, 740), (640, 400)):  # 640 is a window of 1280 at 200 %
            page.set_viewport_size({"width": width, "height": height})
            inside = page.evaluate("document.scrollingElement.scrollWidth")
            if inside > width:
                wide.append((path, width, inside))
            if width == 360:
                wide += [(path, width, table) for table in page.evaluate(_CUT)]
        page.set_viewport_size({"width": 1280, "height": 800})
    assert wide == []


def test_18_a_job_is_found_opened_and_retried_by_keys_alone(
    board: Board, visit: Opener, queue: str
) -> None:
    job_id = board.fail(queue)
    page = visit("operator", "/")
    keys = page.keyboard
    keys.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    keys.type(str(job_id))
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"#{job_id}")
    page.wait_for_load_state()

    opener = page.get_by_role("button", name="Retry…")
    keys.press("r")
    expect(page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    opener.focus()
    keys.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    expect(opener).to_be_focused()

    keys.press("Enter")
    for _ in range(2):
        keys.press("Tab")
    expect(page.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
    keys.type("the bank is back")
    keys.press("Enter")
    expect(page.get_by_text("Queued again.")).to_be_visible()
    assert board.events(job_id)[-1] == ("retried", "operator", "the bank is back")


def test_18_keys_walk_the_rows_and_are_listed(board: Board, visit: Opener, queue: str) -> None:
    older, newer = board.fail(queue), board.fail(queue)
    page = visit("operator", f"/jobs?queue={queue}")
    keys = page.keyboard
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Next and previous row")
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()

    keys.press("j")
    expect(page.get_by_role("link", name=f"#{newer}", exact=True)).to_be_focused()
    keys.press("x")
    expect(page.get_by_label(f"Tick job {newer}")).to_be_checked()
    keys.press("x")
    expect(page.get_by_label(f"Tick job {newer}")).not_to_be_checked()
    page.get_by_text("All that match").click()
    keys.press("Escape")
    expect(page.locator("#all-matching")).not_to_have_attribute("open", "")
    keys.press("j")
    expect(page.locator(f'tr[data-row="{older}"]')).to_have_attribute("data-at", "")
    keys.press("k")
    keys.press("j")
    page.evaluate("document.activeElement.blur()")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"#{older}")
    page.wait_for_load_state()
    keys.press("g")
    keys.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    page.wait_for_load_state()
    keys.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_18_keys_can_be_switched_off_and_are_off_while_typing(visit: Opener) -> None:
    page = visit("viewer", "/jobs")
    page.get_by_label("Search").focus()
    page.keyboard.type("?gd.t")
    expect(page.get_by_label("Search")).to_have_value("?gd.t")
    expect(page.get_by_role("dialog")).to_be_hidden()

    page.get_by_role("heading", level=1).click()
    page.get_by_role("button", name="Keys").click()
    page.get_by_label("Do not use single keys in this browser").check()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    page.reload()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_18_the_skip_link_leads_past_the_navigation(visit: Opener) -> None:
    page = visit("viewer", "/queues")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
