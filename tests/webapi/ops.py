"""What the tests of metrics, alerts and dashboards share."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyworker.client import Client
from pyworker.metrics import Metrics
from pyworker.worker import Worker
from tests.support.cluster import Connection
from tests.webapi.conftest import Api

ROOT = Path(__file__).parents[2]


def promtool(*arguments: str, input: str | None = None) -> None:
    """Runs Prometheus' own checks; skips where it is not installed (`make promtool`)."""
    found = shutil.which("promtool") or ROOT / ".cache" / "promtool" / "usr" / "bin" / "promtool"
    if not Path(found).exists():
        pytest.skip("promtool is not here: make promtool")
    done = subprocess.run(
        [found, *arguments], input=input, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def families(exposition: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+)", exposition, re.M))


def documented_metrics() -> dict[str, str]:
    """The names in docs/metrics.md, and whose they are."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(rowlock_\w+)` \| \w+ \| [^|]*\| ([\w, ]+) \|", text, re.M)
    assert len(rows) == text.count("| `rowlock_"), "a row that cannot be read"
    return dict(rows)


def worker_at_work() -> Worker:
    """Enough of a worker to have its metrics asked for."""
    return cast(
        Worker,
        SimpleNamespace(
            metrics=Metrics(),
            slots=1,
            claims=[],
            stuck=0,
            is_draining=False,
            cover="polling",
            links=[],
            loops=[],
        ),
    )


def make_history(api: Api, conn: Connection) -> None:
    """Jobs that ended in every way, counted."""
    client = Client(conn)

    def claimed(**fields: Any) -> tuple[int, int]:
        api.job(**fields)
        (claim,) = client.claim("w1")
        return claim.job_id, claim.fence

    client.complete(*claimed())
    client.fail(*claimed(), "E", "m", fatal=True)
    failed, fence = claimed()
    client.fail(failed, fence, "E", "m")
    client.cancel(failed)
    client.retry(failed)
    lost, _ = claimed(priority=9)
    conn.execute("select queue_tests.expire_lease(%s)", [lost])
    client.reap()
    claimed()
    client.pause("billing", "r")
    while client.roll_up().more:
        pass
