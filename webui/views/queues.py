"""Queues: how each is doing, its pause and its policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Blueprint, Response, request, url_for

from pyworker.client import QueueStatus
from pyworker.durations import typed
from pyworker.errors import InvalidArgument
from webui import auth, charts, forms
from webui.pages import acting, done, page, reading
from webui.views.overview import RANGES, choose_range, flow_of, waits_of

blueprint = Blueprint("queues", __name__)

# Queues a page.
_PAGE = 100

# A policy's names, what they mean, and whether a value is a number rather than a duration.
POLICY = (
    ("lease", "Lease", "how long a worker has before it must renew"),
    ("timeout", "Timeout", "how long one attempt may run"),
    (
        "max_attempts",
        "Attempts",
        "runs before a job counts as failed; for jobs enqueued from now on",
    ),
    ("backoff_base", "Backoff, base", "the first wait after a failure; doubles each time"),
    ("backoff_cap", "Backoff, cap", "the longest wait after a failure"),
    ("finished_retention", "Keep succeeded and cancelled", "then they are removed"),
    ("failed_retention", "Keep failed", "then they are removed"),
)


@blueprint.get("/queues")
def index() -> Response:
    """Every queue with jobs or a policy, a hundred a page; `name` is a part of the names wanted."""
    part = (request.args.get("name") or "").strip()[:63]
    number = forms.whole(request.args.get("page"), "page", 1, 10_000) or 1
    with reading() as client:
        names = [queue.queue for queue in client.list_queues(0) if part in queue.queue]
        chosen = names[(number - 1) * _PAGE : number * _PAGE]
        queues = client.list_queues(queues=chosen)
    return page(
        "queues/list.html",
        live="queues/_list.html",
        queues=queues,
        number=number,
        pages=-(-len(names) // _PAGE),
        total=len(names),
        part=part,
    )


@blueprint.get("/queues/<name>")
def show(name: str) -> Response:
    """One queue: depth, charts, kinds, pause and policy."""
    chosen, since, resolution = choose_range()
    with reading() as client:
        policy = {setting.name: setting.value for setting in client.get_policy(name)}
        settings = {setting.name: setting.value for setting in client.get_settings()}
        queue = next(
            iter(client.list_queues(queues=[name])),
            QueueStatus(name, 0, 0, 0, 0, 0, None, False, None, None, None, 1000),
        )
        flow = client.throughput(since, None, resolution, name)
        waits = client.latency(since, None, resolution, name)
        kinds = client.list_kinds(name, datetime.now(UTC) - timedelta(days=1))
        minutes = client.throughput(
            datetime.now(UTC) - timedelta(minutes=15), None, timedelta(minutes=1), name
        )

    came = sum(slot.enqueued for slot in minutes) / 15 / 60
    went = sum(slot.succeeded + slot.failed + slot.cancelled for slot in minutes) / 15 / 60
    flow_series, wait_series = flow_of(flow), waits_of(waits)
    return page(
        "queues/show.html",
        live="queues/_show.html",
        queue=queue,
        policy=policy,
        settings=settings,
        names=POLICY,
        chosen=chosen,
        resolution=resolution,
        ranges={each: url_for("queues.show", name=name, range=each) for each in RANGES},
        flow=flow,
        waits=waits,
        flow_series=flow_series,
        wait_series=wait_series,
        flow_chart=charts.bars([slot.at for slot in flow], flow_series, "Jobs ended, by outcome"),
        wait_chart=charts.lines([slot.at for slot in waits], wait_series, "Seconds waited and run"),
        kinds=kinds,
        came=came,
        went=went,
        # When the line is empty if things go on as in the last quarter of an hour.
        empty_in=queue.ready / (went - came) if queue.ready and went > came else None,
    )


@blueprint.post("/queues/<name>/pause")
@auth.answers_form
def pause(name: str) -> Response:
    """Nothing of the queue is claimed until resume, or until an instant."""
    until = forms.instant(request.form.get("until"), "until")
    span = forms.span(request.form.get("for"), "for")
    if until and span:
        raise InvalidArgument("until and for exclude each other", hint="Give one of them.")
    if span:
        until = datetime.now(UTC) + span
    with acting() as client:
        client.pause(name, forms.reason(), until)
    return done("queues.show", "paused", name=name)


@blueprint.post("/queues/<name>/resume")
@auth.answers_form
def resume(name: str) -> Response:
    """Jobs of the queue are claimed again."""
    with acting() as client:
        was_paused = client.resume(name, forms.reason())
    return done("queues.show", "resumed" if was_paused else "not_paused", name=name)


@blueprint.post("/queues/<name>/policy")
@auth.answers_form
def set_policy(name: str) -> Response:
    """What differs for the queue; a field left empty goes back to the settings."""
    values = {key: request.form.get(key) for key, _, _ in POLICY}
    attempts = forms.whole(values["max_attempts"], "attempts", 1, 100_000)
    unset = [key for key, value in values.items() if value is not None and not value.strip()]
    with acting() as client:
        now = {setting.name: typed(setting.value) for setting in client.get_policy(name)}
        spans = {
            key: forms.span(value, key.replace("_", " "))
            for key, value in values.items()
            if key != "max_attempts" and value != now[key]
        }
        client.set_policy(name, **spans, max_attempts=attempts, unset=unset, reason=forms.reason())
    return done("queues.show", "policy", name=name)
