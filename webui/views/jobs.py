"""Jobs: the list, one job, what can be done with them, and a new one."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import (
    Blueprint,
    Response,
    make_response,
    redirect,
    request,
    stream_with_context,
    url_for,
)

from pyworker.client import (
    Attempt,
    BulkOutcome,
    Client,
    Event,
    Job,
    JobCount,
    JobSummary,
    JsonText,
    Page,
    QueueStatus,
)
from pyworker.errors import (
    InvalidArgument,
    JobNotFound,
    KeyReused,
    RowlockError,
    TooLarge,
    Unavailable,
    WrongState,
)
from webui import auth, bulk, forms
from webui.filters import Filter
from webui.pages import acting, count_all, done, page, pretty, reading, visible

blueprint = Blueprint("jobs", __name__)

_SIZES = (20, 50, 100, 200)
_MOST_EVENTS = 500

TABS: tuple[tuple[str, dict[str, str]], ...] = (
    ("All", {}),
    ("Ready", {"label": "ready"}),
    ("Scheduled", {"label": "scheduled"}),
    ("Retrying", {"label": "retrying"}),
    ("Running", {"status": "running"}),
    ("Succeeded", {"status": "succeeded"}),
    ("Dead", {"status": "failed"}),
    ("Cancelled", {"status": "cancelled"}),
)


# -- the list


@dataclass(frozen=True)
class Tab:
    """`jobs` is None where counting would take reading the jobs."""

    name: str
    place: dict[str, str]
    jobs: int | None
    capped: bool
    chosen: bool


@blueprint.get("/jobs")
def index() -> Response:
    """Jobs that match, a page at a time; the filter is the address."""
    chosen = Filter.of(request.args)
    size = forms.whole(request.args.get("size"), "page size", 1, 200) or 50
    cursor = request.args.get("cursor") or None
    backwards = request.args.get("back") == "1"

    problem: RowlockError | None = None
    found: Page[JobSummary] = Page([], None)
    tabs: Sequence[Tab] = ()
    queues: Sequence[QueueStatus] = ()
    queue: QueueStatus | None = None
    total: JobCount | None = None
    status = 200
    try:
        query = chosen.to_query()
        with reading() as client:
            found = client.list_jobs(query, cursor, size, backwards)
            # Only the filter's own queue is counted; a live part has no need of the others' names.
            if name := chosen.get("queue"):
                queue = next(iter(client.list_queues(queues=[name])), None)
            tabs = _tabs(client, chosen, queue)
            if not request.headers.get("X-Live"):
                queues = client.list_queues(0)
            if chosen.without("status", "queue", "kind") and not cursor:
                total = count_all(client, query, found, size)
    except InvalidArgument as error:
        problem, status = error, 400
    except Unavailable as error:
        if error.sqlstate != "57014":
            raise
        problem, status = error, 503

    return page(
        "jobs/list.html",
        status,
        live="jobs/_list.html",
        chosen=chosen,
        size=size,
        sizes=_SIZES,
        cursor=cursor,
        found=found,
        tabs=tabs or _tabs(None, chosen, None),
        total=total,
        queues=queues,
        paused=queue if queue and queue.paused else None,
        problem=problem,
        slow=status == 503,
        # Fewer than fit, and yet more to come: the page ended where 10,000 rows were read.
        unfinished=len(found.rows) < size
        and (found.previous_cursor if backwards else found.next_cursor),
        backwards=backwards,
        queued_order=chosen.get("status") == "queued"
        or chosen.get("label") in {"ready", "scheduled", "retrying"},
    )


def _tabs(client: Client | None, chosen: Filter, of: QueueStatus | None) -> list[Tab]:
    """Counts come from the counters, labels' from what waits; a finer filter has none."""
    finer = chosen.without("status", "label", "queue", "kind")
    queue, kind = chosen.get("queue"), chosen.get("kind")
    waiting: dict[str, tuple[int, bool]] = {}
    if client is not None and not finer and not kind:
        if not queue:
            waiting = {
                stat.name: (min(int(stat.value), 10_000), stat.capped) for stat in client.stats()
            }
        elif of is not None:
            counts = {"ready": of.ready, "scheduled": of.scheduled, "retrying": of.retrying}
            waiting = {name: (min(count, 1000), count > 1000) for name, count in counts.items()}
    tabs = []
    for name, place in TABS:
        jobs: int | None = None
        capped = False
        if client is not None and not finer:
            if "label" not in place:
                narrowed = {k: v for k, v in (("queue", queue), ("kind", kind)) if v}
                jobs = client.count_jobs({**place, **narrowed}).jobs
            elif not kind:
                jobs, capped = waiting.get(place["label"], (0, False))
        tabs.append(Tab(name, place, jobs, capped, chosen.place == place))
    return tabs


@blueprint.get("/jobs/jump")
def jump() -> Response:
    """To the job whose id was typed."""
    job_id = forms.job_id(request.args.get("id"))
    return make_response(redirect(url_for("jobs.show", job_id=job_id), 303))


_EXPORTED = tuple(
    f.name
    for f in fields(JobSummary)
    if f.name not in {"worker", "lease_expires_at", "progress", "progress_message"}
)


# An export ends after so many pages of 200: 100,000 jobs, or 5 million read for fewer.
_MOST_PAGES = 500


@blueprint.get("/jobs/export.<form>")
def export(form: str) -> Response:
    """The jobs that match, without payloads, as CSV or as a JSON object a line. The last line of
    one that ends before them says where to go on."""
    if form not in {"csv", "jsonl"}:
        raise InvalidArgument(f"no export as {form[:20]!r}", hint="It is csv or jsonl.")
    chosen = Filter.of(request.args)
    query = chosen.to_query()
    with reading() as client:
        first = client.list_jobs(query, request.args.get("cursor") or None, 200)

    def more(cursor: str) -> str:
        place: dict[str, Any] = {**chosen.values, "form": form, "cursor": cursor}
        return url_for("jobs.export", **place)

    write = _csv_lines if form == "csv" else _json_lines
    response = Response(
        stream_with_context(write(_pages(query, first), more)),
        mimetype="text/csv" if form == "csv" else "application/jsonl",
    )
    response.headers["Content-Disposition"] = f'attachment; filename="jobs.{form}"'
    return response


def _pages(query: dict[str, Any], first: Page[JobSummary]) -> Iterator[Page[JobSummary]]:
    """A page a transaction, so that none is open for long."""
    found = first
    yield found
    for _ in range(_MOST_PAGES - 1):
        if found.next_cursor is None:
            return
        with acting() as client:
            found = client.list_jobs(query, found.next_cursor, 200)
        yield found


def _csv_lines(pages: Iterator[Page[JobSummary]], more: Callable[[str], str]) -> Iterator[str]:
    line = io.StringIO()
    writer = csv.writer(line)
    writer.writerow(_EXPORTED)
    next_cursor: str | None = None
    for found in pages:
        for job in found.rows:
            writer.writerow([_csv_cell(getattr(job, name)) for name in _EXPORTED])
        yield line.getvalue()
        line.seek(0)
        line.truncate()
        next_cursor = found.next_cursor
    if next_cursor:
        writer.writerow([f"There are more: {more(next_cursor)}"])
        yield line.getvalue()


def _csv_cell(value: Any) -> str:
    """A text that a spreadsheet would take for a formula is marked as text."""
    text = "" if value is None else _plain(value)
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _json_lines(pages: Iterator[Page[JobSummary]], more: Callable[[str], str]) -> Iterator[str]:
    next_cursor: str | None = None
    for found in pages:
        for job in found.rows:
            row = {name: getattr(job, name) for name in _EXPORTED}
            row["id"] = str(job.id)
            yield json.dumps(row, default=_plain, ensure_ascii=False) + "\n"
        next_cursor = found.next_cursor
    if next_cursor:
        yield json.dumps({"more": more(next_cursor)}) + "\n"


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    return str(value)


# -- one job


@blueprint.get("/jobs/<job_id>")
def show(job_id: str) -> Response:
    """One job: what happened to it, what it carries, and what can be done."""
    return _job_page(forms.job_id(job_id))


def _job_page(job_id: int, problem: RowlockError | None = None) -> Response:
    after = forms.whole(request.args.get("after"), "after") or 0
    job: Job | None = None
    attempts: list[Attempt] = []
    with reading() as client:
        told = client.list_events(job_id, {}, after, _MOST_EVENTS)
        try:
            job = client.get_job(job_id)
        except JobNotFound:
            if not told.rows:
                raise
    if job is None:
        return page(
            "jobs/gone.html",
            404,
            job_id=job_id,
            history=list(_history(told.rows)),
            events=told.rows,
        )
    with reading() as client:
        attempts = client.job_attempts(job_id)
    return page(
        "jobs/show.html",
        409 if problem else 200,
        live="jobs/_show.html",
        job=job,
        problem=problem,
        events=told.rows,
        history=list(_history(told.rows)),
        more=told.next_cursor,
        attempts=attempts[::-1],
        settled=job.status in {"succeeded", "failed", "cancelled"},
        why_not=_why_not(job),
        now=datetime.now(UTC),
    )


@dataclass(frozen=True)
class Line:
    """One line of the history: an event, how long after the one before, how many it stands for."""

    event: Event
    gap: timedelta | None
    new_day: bool
    folded: int
    tone: str


_TONES = {
    "succeeded": "good",
    "failed": "bad",
    "lease_expired": "bad",
    "timed_out": "bad",
    "retry_scheduled": "warn",
    "cancelled": "warn",
    "cancel_requested": "warn",
    "discarded": "warn",
    "claimed": "work",
    "progressed": "work",
}


def _history(events: Sequence[Event]) -> Iterator[Line]:
    """Reports of progress in a row are one line: the last of them."""
    before: datetime | None = None
    folded = 0
    for at, event in enumerate(events):
        following = events[at + 1] if at + 1 < len(events) else None
        if event.event == "progressed" and following and following.event == "progressed":
            folded += 1
            continue
        gap = event.at - before if before else None
        new_day = before is None or before.date() != event.at.date()
        yield Line(event, gap, new_day, folded, _TONES.get(event.event, "wait"))
        before, folded = event.at, 0


def _why_not(job: Job) -> dict[str, str]:
    """Why an action does not fit the job as it is, for those that do not."""
    reasons = {}
    finished = job.status in {"succeeded", "failed", "cancelled"}
    if job.status not in {"failed", "cancelled"}:
        reasons["retry"] = (
            f"Only a failed or cancelled job can be retried; this one is {job.status}."
        )
    if finished:
        reasons["cancel"] = f"The job is {job.status} already."
    elif job.cancel_requested_at:
        reasons["cancel"] = "Its worker has been asked to stop."
    if job.status != "queued":
        reasons["run_now"] = f"Only a queued job can be made due; this one is {job.status}."
        reasons["priority"] = f"Only a queued job has a place in line; this one is {job.status}."
    elif job.label == "ready":
        reasons["run_now"] = "The job is due already."
    if not finished:
        reasons["discard"] = f"Only a finished job can be discarded; this one is {job.status}."
    return reasons


@blueprint.get("/jobs/<job_id>/<part>.json")
def raw(job_id: str, part: str) -> Response:
    """The whole of what a job carries: payload, result, headers, or the job itself."""
    with reading() as client:
        job = client.get_job(forms.job_id(job_id))
    if part == "job":
        value: Any = {f.name: getattr(job, f.name) for f in fields(job) if f.name != "fence"} | {
            "id": str(job.id)
        }
    elif part in {"payload", "result", "headers"}:
        value = getattr(job, part)
    else:
        raise JobNotFound(f"a job has no {part[:20]!r}", hint="payload, result, headers or job.")
    text = (
        value
        if isinstance(value, JsonText)
        else json.dumps(value, indent=2, default=_plain, ensure_ascii=False)
    )
    return Response(text + "\n", mimetype="application/json")


# -- what can be done with one


def _change(job_id: str, notice: str, act: Callable[[Client, int], Any]) -> Response:
    """Does it and shows the job; a job that another state has by now is shown as it is."""
    number = forms.job_id(job_id)
    try:
        with acting() as client:
            answer = act(client, number)
    except WrongState as error:
        return _job_page(number, error)
    return done("jobs.show", answer if isinstance(answer, str) else notice, job_id=number)


@blueprint.post("/jobs/<job_id>/retry")
@auth.answers_form
def retry(job_id: str) -> Response:
    """failed or cancelled -> queued"""
    extra = forms.whole(request.form.get("extra_attempts"), "extra attempts", 1, 100_000) or 1
    delay = forms.span(request.form.get("delay"), "delay")
    reason = forms.reason()

    def act(client: Client, number: int) -> None:
        client.retry(number, extra, delay, reason)

    return _change(job_id, "retried", act)


@blueprint.post("/jobs/<job_id>/cancel")
@auth.answers_form
def cancel(job_id: str) -> Response:
    """queued -> cancelled, or a running job is asked to stop"""
    reason = forms.reason()

    def act(client: Client, number: int) -> str:
        answer = client.cancel(number, reason)
        return "cancel_requested" if answer.status == "running" else "cancelled"

    return _change(job_id, "cancelled", act)


@blueprint.post("/jobs/<job_id>/run-now")
@auth.answers_form
def run_now(job_id: str) -> Response:
    """queued -> queued, due at once"""
    reason = forms.reason()
    return _change(job_id, "made_due", lambda client, number: client.run_now(number, reason))


@blueprint.post("/jobs/<job_id>/priority")
@auth.answers_form
def reprioritize(job_id: str) -> Response:
    """queued -> queued, at another place in line"""
    priority = forms.whole(request.form.get("priority"), "priority", 0, 9)
    if priority is None:
        raise InvalidArgument("no priority was given", hint="0 to 9, higher first.")
    reason = forms.reason()
    return _change(
        job_id,
        "reprioritized",
        lambda client, number: client.reprioritize(number, priority, reason),
    )


@blueprint.post("/jobs/<job_id>/discard")
@auth.answers_form
def discard(job_id: str) -> Response:
    """finished -> gone"""
    reason = forms.reason()

    def act(client: Client, number: int) -> str:
        client.discard(number, reason)
        return "discarded"

    return _change(job_id, "discarded", act)


# -- with many


@blueprint.get("/jobs/bulk")
def preview() -> Response:
    """What an action on many would concern, and a form to act; `changed` and `skipped` tell of the
    steps so far."""
    asked = bulk.Ask.of(request.args)
    found: Page[BulkOutcome] = Page([], asked.cursor)
    with reading() as client:
        if not asked.begun:
            found = client.bulk(
                asked.action, asked.query, True, bulk.PREVIEW, {}, None, asked.cursor
            )
        ids = [row.job_id for row in found.rows[:10]]
        shown = client.list_jobs({"ids": ids}, None, 10).rows if ids else []
        left = client.list_jobs({"ids": asked.skipped}, None, 20).rows if asked.skipped else []
    return page(
        "jobs/bulk.html",
        asked=asked,
        found=asked.found + len(found.rows),
        read=asked.read + bulk.PREVIEW,
        next_cursor=found.next_cursor,
        shown=shown,
        left=left,
    )


@blueprint.post("/jobs/bulk")
@auth.answers_form
def change_many() -> Response:
    """Some seconds of the action; answers with how far it is."""
    asked = bulk.Ask.of(request.form)
    arguments, reason = bulk.arguments(asked.action), forms.reason()

    def call(cursor: str | None) -> Page[BulkOutcome]:
        with acting() as client:
            return client.bulk(
                asked.action, asked.query, False, bulk.STEP, arguments, reason, cursor
            )

    return make_response(redirect(url_for("jobs.preview", **asked.act(call)), 303))


# -- a new one


@blueprint.get("/jobs/new")
def new() -> Response:
    """The form; `like` is a job whose values stand in it."""
    values: dict[str, str] = {"queue": "default", "payload": "{}", "priority": "5"}
    like = request.args.get("like")
    with reading() as client:
        queues = client.list_queues(0)
        job = client.get_job(forms.job_id(like)) if like else None
    if job:
        values = {
            "kind": job.kind,
            "queue": job.queue,
            # The escape that shows a misleading character is one of JSON's too.
            "payload": visible(pretty(job.payload)),
            "priority": str(job.priority),
            "max_attempts": str(job.max_attempts),
            "lease": f"{job.lease.total_seconds():g}s" if job.lease else "",
            "timeout": f"{job.timeout.total_seconds():g}s" if job.timeout else "",
        }
    return page("jobs/new.html", values=values, queues=queues, like=like, problem=None)


@blueprint.post("/jobs/new")
@auth.answers_form
def create() -> Response:
    """-> queued"""
    try:
        payload = forms.document(request.form.get("payload"), "payload")
        with acting() as client:
            made = client.enqueue(
                forms.given("kind") or "",
                {}
                if payload is None and not forms.given("payload")
                else JsonText(forms.given("payload") or "{}"),
                forms.given("queue"),
                forms.whole(request.form.get("priority"), "priority", 0, 9),
                forms.instant(request.form.get("available_at"), "due at"),
                forms.span(request.form.get("delay"), "delay"),
                forms.whole(request.form.get("max_attempts"), "attempts", 1, 100_000),
                forms.span(request.form.get("lease"), "lease"),
                forms.span(request.form.get("timeout"), "timeout"),
                forms.given("key"),
            )
    except (InvalidArgument, TooLarge, KeyReused) as error:
        with reading() as client:
            queues = client.list_queues(0)
        status = {InvalidArgument: 400, TooLarge: 413, KeyReused: 422}[type(error)]
        return page(
            "jobs/new.html",
            status,
            values=request.form,
            queues=queues,
            like=None,
            problem=error,
        )
    return done("jobs.show", "created" if made.created else "exists", job_id=made.job_id)
