"""What a hostile job, page or frame could do to whoever looks: nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from pyworker.client import connect
from tests.browser.conftest import Board, Opener
from tests.browser.screens import live_in

# -- a job, or a worker, that is not to be trusted

PROBES = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}} {% raw %}",
    '"><svg onload=alert(1)>',
    "' onmouseover=alert(1) x='",
    "javascript:alert(1)",
)
PROBE = " ".join(PROBES)
TURNED = "report\u202efdp.exe"

_INTRUDERS = """() => [
  ...document.querySelectorAll("img, iframe, object, embed, base, main svg[onload], main script"),
  ...[...document.querySelectorAll("*")].filter((each) => [...each.attributes].some((one) =>
    one.name.startsWith("on") || /^(href|src|action)$/.test(one.name) &&
    /^\\s*javascript:/i.test(one.value))),
].map((each) => each.outerHTML.slice(0, 300))"""


@pytest.fixture(scope="module")
def poisoned(board: Board) -> tuple[str, int]:
    """A queue, and a job with a probe wherever a text from outside is kept."""
    client, queue, worker = board.queue, "poisoned", PROBES[0] + PROBES[3]
    fields = {"text": PROBE, PROBE: {"url": "javascript:alert(1)"}, "name": TURNED}

    def take(job_id: int) -> tuple[int, int]:
        (claim,) = client.claim(worker, [queue])
        assert claim.job_id == job_id
        return job_id, claim.fence

    failed = client.enqueue(
        "noop", fields, queue, idempotency_key=PROBE[:200], headers={"x": PROBE}, max_attempts=1
    ).job_id
    _, fence = take(failed)
    client.progress(failed, fence, 50, PROBE)
    client.fail(failed, fence, PROBES[1], PROBE, {"traceback": PROBE})
    client.retry(failed, 1, None, PROBE)
    _, fence = take(failed)
    client.fail(failed, fence, PROBES[1], PROBE + TURNED, {PROBE: PROBE})
    done = client.enqueue("noop", PROBE, queue).job_id
    client.complete(*take(done), {PROBE: [PROBE]})
    running = client.enqueue("noop", [PROBE], queue).job_id
    _, fence = take(running)
    client.progress(running, fence, 50, PROBE)
    client.cancel(running, PROBE)
    gone = client.enqueue("noop", {}, queue).job_id
    client.cancel(gone, PROBE)
    client.discard(gone, PROBE)
    client.pause(queue, PROBE)
    client.create_token(PROBES[0], "viewer", timedelta(days=1), PROBE)
    with connect(board.database.url, f"rowlock:{PROBES[0]}:claim"):
        pass
    board.count()
    return queue, failed


def poisoned_paths(queue: str, failed: int) -> list[str]:
    return [
        "/", "/jobs", f"/jobs?queue={queue}", f"/jobs?q=payload.text:{PROBES[4]}".replace(" ", "+"),
        *(f"/jobs/{failed + n}" for n in range(4)), f"/jobs/new?like={failed}",
        f"/jobs/bulk?action=retry&ids={failed}", "/dead", f"/queues/{queue}", "/queues", "/workers",
        f"/events?queue={queue}", "/settings/tokens", "/settings/audit", f"/queues/{PROBES[1]}",
        f"/jobs?queue={PROBES[3]}", f"/jobs?notice={PROBES[0]}", f"/events?worker={PROBES[0]}",
        f"/jobs/{failed}/payload.json", f"/jobs/{failed}/job.json", f"/no/{PROBES[1]}",
    ]  # fmt: skip


def test_20_hostile_texts_are_shown_as_texts(
    board: Board, visit: Opener, poisoned: tuple[str, int]
) -> None:
    queue, failed = poisoned
    page = visit("admin", expect=(400, 404))
    for path in poisoned_paths(queue, failed):
        page.goto(board.address + path)
        if not path.endswith(".json"):
            assert page.evaluate(_INTRUDERS) == [], path
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")

    page.goto(f"/jobs/{failed}")
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    main = page.get_by_role("main")
    for probe in PROBES:
        expect(main).to_contain_text(probe)
    assert "49 {%" not in main.inner_text()
    assert "\u202e" not in main.inner_text()
    expect(main).to_contain_text("report\\u202efdp.exe")
    expect(page.locator('a[href*="javascript"]')).to_have_count(0)


def test_20_a_live_part_is_as_harmless(visit: Opener, board: Board, queue: str) -> None:
    page = visit("operator")
    page.clock.install()
    page.goto(f"/jobs?queue={queue}")
    board.fail(queue, PROBE)
    page.clock.run_for(2100)
    expect(page.locator("tr[data-row]")).to_contain_text("<script>alert(1)</script>")
    assert page.evaluate(_INTRUDERS) == []


# -- the policy


def shape_of(path: str) -> str:
    """The same for addresses that differ in values alone."""
    place, _, query = path.partition("?")
    names = sorted({part.partition("=")[0] for part in query.split("&")} - {"back", "size"})
    return re.sub(r"\d+|(?<=^/queues/).+", "N", place) + "?" + " ".join(names)


def test_17_a_full_crawl_violates_no_policy_and_stays_here(own_board: Board, visit: Opener) -> None:
    """Follows every link there is, the API's docs included; `visit` watches."""
    lived_in = live_in(own_board.queue, "lived-in")
    page = visit("admin", on=own_board, expect=(400, 404))
    left = [*lived_in.paths, "/api/docs/"]
    seen: set[str] = set()
    while left:
        path = left.pop()
        if shape_of(path) in seen or "/export." in path:
            continue
        seen.add(shape_of(path))
        answer = page.goto(path)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "unsafe" not in policy.replace("style-src 'self' 'unsafe-inline'", ""), path
        if "html" not in answer.headers["content-type"]:
            continue
        if "/api/docs/" in path:
            expect(page.locator(".opblock").first).to_be_visible()
            page.locator(".opblock-summary").first.click()
            expect(page.locator(".opblock-body").first).to_be_visible()
            continue
        for href in page.eval_on_selector_all("a[href]", "all => all.map(a => a.href)"):
            parts = urlsplit(href)
            assert f"{parts.scheme}://{parts.netloc}" == own_board.address, (path, href)
            left.append(parts.path + (f"?{parts.query}" if parts.query else ""))
    assert len(seen) > 40


# -- other sites


@contextmanager
def other_site(html: str) -> Iterator[int]:
    """A web server on another port that answers with one page."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = html.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def plain(browser: Browser, board: Board) -> Iterator[Page]:
    """An operator's page that may go elsewhere and is not watched."""
    context = browser.new_context()
    context.add_cookies(
        [{"name": "rowlock", "value": board.session("operator"), "url": board.address + "/"}]
    )
    yield context.new_page()
    context.close()


def fulfil(html: str) -> Callable[[Route], None]:
    return lambda route: route.fulfill(body=html, content_type="text/html")


@pytest.mark.parametrize("place", ["http://127.0.0.1", "http://localhost", "https://evil.example"])
def test_17_a_form_of_another_site_is_refused(
    board: Board, plain: Page, queue: str, place: str
) -> None:
    """Another port of this host even sends the cookie along: it counts as the same site."""
    job_id = board.fail(queue)
    form = (
        f'<form method="post" action="{board.address}/jobs/{job_id}/retry">'
        "<button>Win a prize</button></form>"
    )
    with other_site(form) as port:
        if place.startswith("https"):
            plain.route(f"{place}/**", fulfil(form))
            plain.goto(f"{place}/")
        else:
            plain.goto(f"{place}:{port}/")
        with plain.expect_navigation() as navigation:
            plain.get_by_role("button").click()
    assert navigation.value.status == 403
    expect(plain.get_by_role("heading", level=1)).to_have_text("Not allowed")
    assert board.queue.get_job(job_id).status == "failed"
    assert "retried" not in [event for event, _, _ in board.events(job_id)]


def test_17_another_site_cannot_read_or_write_by_script(
    board: Board, plain: Page, queue: str
) -> None:
    job_id = board.fail(queue)
    with other_site("<p>hello</p>") as port:
        plain.goto(f"http://127.0.0.1:{port}/")
        for path, method in (
            ("/jobs", "GET"), ("/api/v1/jobs", "GET"), (f"/jobs/{job_id}/retry", "POST"),
            (f"/api/v1/jobs/{job_id}/retry", "POST"),
        ):  # fmt: skip
            answer = plain.evaluate(
                """([address, method]) => fetch(address, {method, credentials: "include"})
                     .then((answer) => answer.text(), (error) => `refused: ${error}`)""",
                [board.address + path, method],
            )
            assert answer.startswith("refused:"), (path, answer[:200])
            plain.evaluate(
                """([address, method]) =>
                     fetch(address, {method, credentials: "include", mode: "no-cors"})""",
                [board.address + path, method],
            )
    assert board.queue.get_job(job_id).status == "failed"


@pytest.mark.parametrize("path", ["/", "/jobs", "/sign-in", "/api/docs/", "/no/such/page"])
def test_17_no_page_can_be_framed(board: Board, plain: Page, path: str) -> None:
    refused: list[str] = []
    plain.on("console", lambda message: refused.append(message.text))
    with other_site(f'<iframe src="{board.address}{path}"></iframe>') as port:
        plain.goto(f"http://127.0.0.1:{port}/")
        frame = plain.frames[1]
        frame.wait_for_load_state()
        assert frame.get_by_role("heading").count() == 0
        plain.wait_for_function("true")
    assert any("frame-ancestors 'none'" in text for text in refused), refused
    assert frame.url.startswith("chrome-error:")
