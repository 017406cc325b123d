"""The README's pictures of the dashboard, taken anew: `make screenshots`."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from PIL import Image
from playwright.sync_api import Browser, Page, expect
from psycopg import sql

from pyworker.client import Client, connect
from tests.browser import scene
from tests.support import browsers
from tests.support.cluster import Cluster, Database, with_user
from tests.support.processes import Dashboard
from tests.support.servers import ROOT

FOLDER = ROOT / "docs" / "images"
LARGEST = 250_000
_LOGINS = {"shop_api": "queue_producer", "shop_worker": "queue_worker", "dashboard": "queue_web"}


def main() -> None:
    path = browsers.find_browser()
    if path is None:
        raise SystemExit("no Chromium is installed; ROWLOCK_BROWSER names one elsewhere")
    cluster = Cluster()
    try:
        with browsers.launched(path) as browser, staged(cluster.create()) as (address, secret, job):
            pages = {name: look(browser, address, secret, name) for name in ("light", "dark")}
            for name in ("job", "overview", "dead-letters"):
                for scheme, page in pages.items():
                    show(page, name, job)
                    save(page, name if scheme == "light" else f"{name}-dark")
    finally:
        cluster.close()


def login(database: Database, name: str) -> str:
    with database.connect() as conn:
        conn.execute(
            sql.SQL("create role {} login password {} in role {}").format(
                sql.Identifier(name), sql.Literal(name), sql.Identifier(_LOGINS[name])
            )
        )
    return with_user(database.url, name, name)


@contextmanager
def staged(database: Database) -> Iterator[tuple[str, str, int]]:
    """The dashboard's address, a session's secret and the job to show, with workers at work."""
    urls = {name: login(database, name) for name in _LOGINS}
    with (
        connect(database.url, "scene") as conn,
        connect(urls["shop_worker"], "scene") as workers,
        connect(urls["shop_api"], "scene") as shop,
        ExitStack() as running,
    ):
        client = Client(conn)
        client.create_account("ada", "operator")
        job = scene.play(conn, Client(shop), Client(workers))
        scene.fill(Client(shop))
        with conn.transaction():
            client.act_as("queue_operator", "ada")
            client.pause("sync", "the CRM is being upgraded")
        with conn.transaction():
            client.act_as("queue_operator", "ada")
            client.run_now(job, "the warehouse is back")

        dashboard = Dashboard(
            urls["dashboard"], ROWLOCK_INSTANCE="production", ROWLOCK_INSTANCE_COLOUR="green"
        )
        running.callback(dashboard.close)
        for name, queues in scene.WORKERS.items():
            words = ["-m", "tests.browser.scene", urls["shop_worker"], name, *queues]
            worker = subprocess.Popen([sys.executable, *words], cwd=ROOT, stderr=subprocess.DEVNULL)
            running.callback(worker.wait)
            running.callback(worker.kill)
        stop = threading.Event()
        feeder = threading.Thread(target=scene.feed, args=[Client(shop), stop])
        feeder.start()
        running.callback(feeder.join)
        running.callback(stop.set)
        yield dashboard.address, client.start_session("ada"), job


def look(browser: Browser, address: str, secret: str, scheme: str) -> Page:
    context = browser.new_context(
        base_url=address,
        viewport={"width": 1280, "height": 800},
        device_scale_factor=2,
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    context.add_cookies([{"name": "rowlock", "value": secret, "url": address + "/"}])
    return context.new_page()


def show(page: Page, name: str, job: int) -> None:
    """Opens what is to be in the picture and waits until it is there."""
    page.goto({"job": f"/jobs/{job}", "overview": "/?range=1h", "dead-letters": "/dead"}[name])
    if name == "job":
        done = re.compile("[4-9][0-9] %")
        expect(page.locator("section.progress")).to_contain_text(done, timeout=60_000)


def save(page: Page, name: str) -> None:
    """As a picture of 256 colours: flat areas do not need more, and it is a third of the size."""
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture = picture.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    place = FOLDER / f"{name}.png"
    picture.save(place, optimize=True)
    size = place.stat().st_size
    print(f"{place.relative_to(ROOT)}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"larger than {LARGEST:,} bytes")


if __name__ == "__main__":
    main()
