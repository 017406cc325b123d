"""A real browser, and the script that looks for barriers.

The browser is the system's own: nothing is downloaded. ROWLOCK_BROWSER names another than the one
found; with ROWLOCK_REQUIRE_BROWSER=1 a test fails, not skips, where something is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support.servers import ROOT

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

_ARGUMENTS = (
    "--no-sandbox",  # CI runs as root in a container
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--font-render-hinting=none",
)

_NPM = ROOT / "tests" / "browser"


def lacking(what: str) -> NoReturn:
    """Skips the test, or fails it where a browser is required."""
    if os.environ.get("ROWLOCK_REQUIRE_BROWSER") == "1":
        pytest.fail(f"{what}, and ROWLOCK_REQUIRE_BROWSER=1", pytrace=False)
    pytest.skip(what)


def find_browser() -> str | None:
    """The path of a Chromium, or None."""
    given = os.environ.get("ROWLOCK_BROWSER")
    return given or next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """The browser at that path, without a window. While it runs, this thread has an event loop."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """The script that looks for barriers, from npm: fetched once, as its lock file pins it."""
    script = ROOT / ".cache" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            lacking("axe-core needs npm, which is not there")
        script.parents[2].parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix="axe.", dir=ROOT / ".cache"))
        try:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_NPM / name, draft)
            done = subprocess.run(
                [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
                cwd=draft,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            if done.returncode != 0:
                lacking(f"npm could not fetch axe-core: {done.stderr.strip()[-300:]}")
            with suppress(OSError):  # the run's other process was faster
                os.rename(draft, script.parents[2])
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return script.read_text()
