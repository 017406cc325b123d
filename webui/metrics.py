"""/metrics: what the database counts, and the requests that this process served.

The database's figures are the same from whichever process they are scraped: scrape one. Who asks
needs a token of a viewer, or to ask from this machine and not through a proxy.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from itertools import groupby

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from pyworker import __version__
from pyworker.client import Sample
from pyworker.errors import Unavailable
from pyworker.metrics import CONTENT_TYPE
from webui import auth
from webui.api import caller

blueprint = Blueprint("metrics", __name__)

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+|::1|::ffff:127\.\d+\.\d+\.\d+")

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What one process counts. Labels are routes, never addresses: there are few of them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.up = Gauge(
            "rowlock_up", "Whether the database answered this scrape", registry=self.registry
        )
        self.build = Gauge(
            "rowlock_build_info",
            "1, with the versions of this process and of the SQL that is deployed",
            ["version", "schema_version"],
            registry=self.registry,
        )
        labels = ["method", "route", "code"]
        self.requests = Counter(
            "rowlock_http_requests", "Requests answered", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "rowlock_http_request_seconds",
            "Time from a request to its answer",
            ["method", "route"],
            buckets=_BUCKETS,
            registry=self.registry,
        )


def register(app: Flask) -> None:
    app.extensions["rowlock_metrics"] = Metrics()
    app.before_request(_start)
    app.after_request(_count)
    app.register_blueprint(blueprint)


def _start() -> None:
    g.started = time.perf_counter()


def _count(response: Response) -> Response:
    metrics: Metrics = current_app.extensions["rowlock_metrics"]
    method = request.method if request.method in _METHODS else "other"
    route = request.url_rule.rule if request.url_rule else "none"
    metrics.requests.labels(method, route, str(response.status_code)).inc()
    if (started := g.get("started")) is not None:
        metrics.seconds.labels(method, route).observe(time.perf_counter() - started)
    return response


@blueprint.get("/metrics")
@auth.public
def show() -> Response:
    """Prometheus' text format; `rowlock_up` is 0 while the database does not answer."""
    metrics: Metrics = current_app.extensions["rowlock_metrics"]
    try:
        who = _who()
        if isinstance(who, Response):
            return who
        with auth.database().as_role(who.role, who.actor) as client:
            samples = client.metrics()
            version = client.capabilities().version
        metrics.up.set(1)
        metrics.build.clear()
        metrics.build.labels(__version__, version or "").set(1)
    except Unavailable:
        if not _is_local():
            raise  # Whether the token is good is not known.
        samples = []
        metrics.up.set(0)
    text = "".join(_lines(samples)) + generate_latest(metrics.registry).decode()
    return Response(text, content_type=CONTENT_TYPE)


def _who() -> auth.Caller | Response:
    secret = caller.bearer()
    if secret is not None:
        return caller.find_token(secret) or caller.refused(True)
    return auth.Caller("metrics", "viewer") if _is_local() else caller.refused(False)


def _is_local() -> bool:
    """From this machine, as far as one can see: a proxy's requests come from it too."""
    return (
        caller.bearer() is None
        and _LOOPBACK.fullmatch(request.remote_addr or "") is not None
        and not any(name in request.headers for name in _PROXY_HEADERS)
    )


def _lines(samples: Iterable[Sample]) -> Iterable[str]:
    """The text format: families together, help once, everything escaped."""
    for family, members in groupby(samples, key=lambda sample: sample.family):
        for place, sample in enumerate(members):
            if not place:
                help_text = sample.help.replace("\\", "\\\\").replace("\n", "\\n")
                yield f"# HELP {family} {help_text}\n# TYPE {family} {sample.type}\n"
            labels = ",".join(f'{name}="{_escape(text)}"' for name, text in sample.labels.items())
            yield f"{sample.name}{f'{{{labels}}}' if labels else ''} {sample.value!r}\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
