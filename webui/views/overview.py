"""How the whole queue is doing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from flask import Blueprint, Response, request, url_for

from pyworker.client import Latency, Throughput
from pyworker.errors import InvalidArgument
from webui import charts
from webui.pages import page, reading

blueprint = Blueprint("overview", __name__)

# Queues in the table; the others have their page.
_MOST_QUEUES = 20

# How far back, and how wide a slot of it is.
RANGES = {
    "15m": (timedelta(minutes=15), timedelta(minutes=1)),
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "6h": (timedelta(hours=6), timedelta(minutes=5)),
    "24h": (timedelta(hours=24), timedelta(hours=1)),
    "7d": (timedelta(days=7), timedelta(hours=3)),
}


def choose_range() -> tuple[str, datetime, timedelta]:
    """The time a chart covers, as the address says: its name, its begin, and a slot's width."""
    chosen = request.args.get("range", "1h")
    if chosen not in RANGES:
        raise InvalidArgument(
            f"range {chosen[:20]!r} is unknown", hint=f"It is one of {', '.join(RANGES)}."
        )
    back, resolution = RANGES[chosen]
    return chosen, datetime.now(UTC) - back, resolution


def flow_of(slots: Sequence[Throughput]) -> list[charts.Series]:
    return [
        charts.Series("succeeded", [slot.succeeded for slot in slots]),
        charts.Series("failed", [slot.failed for slot in slots]),
        charts.Series("retried", [slot.retried for slot in slots]),
        charts.Series("lease lost", [slot.expired for slot in slots]),
    ]


def waits_of(slots: Sequence[Latency]) -> list[charts.Series]:
    return [
        charts.Series("wait p50", [slot.wait_p50 for slot in slots]),
        charts.Series("wait p95", [slot.wait_p95 for slot in slots]),
        charts.Series("run p50", [slot.run_p50 for slot in slots]),
        charts.Series("run p95", [slot.run_p95 for slot in slots]),
    ]


@blueprint.get("/")
def show() -> Response:
    """Figures, charts, queues and what failed last; `range` and `queue` narrow the charts."""
    chosen, since, resolution = choose_range()
    queue = request.args.get("queue") or None
    with reading() as client:
        stats = client.stats()
        queues = client.list_queues(max_queues=_MOST_QUEUES)
        flow = client.throughput(since, None, resolution, queue)
        waits = client.latency(since, None, resolution, queue)
        failures = client.failure_groups(
            since=datetime.now(UTC) - timedelta(hours=24), max_groups=5
        )
        checks = [check for check in client.health() if check.status != "ok"]
        workers = client.list_workers()
        capabilities = client.capabilities()

    flow_series, wait_series = flow_of(flow), waits_of(waits)
    return page(
        "overview/show.html",
        live="overview/_show.html",
        chosen=chosen,
        resolution=resolution,
        ranges={name: url_for("overview.show", range=name, queue=queue) for name in RANGES},
        queue=queue,
        queues=queues,
        are_all=len(queues) < _MOST_QUEUES,
        figures={(stat.name, stat.priority): stat for stat in stats},
        flow=flow,
        waits=waits,
        flow_series=flow_series,
        wait_series=wait_series,
        flow_chart=charts.bars([slot.at for slot in flow], flow_series, "Jobs ended, by outcome"),
        wait_chart=charts.lines([slot.at for slot in waits], wait_series, "Seconds waited and run"),
        failures=failures,
        checks=checks,
        gone=[worker for worker in workers if worker.state == "gone"],
        live_workers=sum(worker.state == "live" for worker in workers),
        capabilities=capabilities,
    )
