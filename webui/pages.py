"""What all pages share: how they are rendered, how values read, and how a live part is polled.

A page's live part is a template of its own, `<noun>/_<name>.html`, which the page includes. The
browser asks for it again with the header X-Live and gets that part alone, or 304.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from flask import Flask, Response, g, make_response, redirect, render_template, request, url_for

from pyworker.client import Client, JobCount, JobSummary, JsonText, Page
from pyworker.durations import typed
from webui import auth

# What a page says after a change: the code travels in the address, the words stay here.
NOTICES = {
    "retried": "Queued again.",
    "cancelled": "Cancelled.",
    "cancel_requested": "The worker was asked to stop.",
    "made_due": "Due now.",
    "reprioritized": "Priority changed.",
    "discarded": "Discarded: the job is gone, its events stay.",
    "created": "Job created.",
    "exists": "The key is known: this is the job that has it.",
    "paused": "Paused: no job of the queue is claimed.",
    "resumed": "Resumed.",
    "not_paused": "It was not paused.",
    "policy": "Policy saved.",
    "saved": "Settings saved.",
    "account": "Account saved.",
    "revoked": "Token revoked.",
    "ticked": "Maintenance has run.",
    "signed_out": "Signed out.",
}

# How a value that is not there reads.
NONE = "\N{EN DASH}"

# At most so much of a document stands in a page; the whole is a link away.
LONGEST_DOCUMENT = 100_000


def register(app: Flask) -> None:
    app.jinja_env.filters.update(
        ago=ago,
        span=span,
        instant=instant,
        stamp=stamp,
        read_stamp=read_stamp,
        number=number,
        pretty=pretty,
        visible=visible,
        excerpt=excerpt,
        typed=typed,
        short=short,
        compact=compact,
    )
    app.context_processor(_context)


@contextmanager
def reading() -> Iterator[Client]:
    """A transaction of whoever asks; a whole page's also counts what the navigation shows."""
    who = auth.caller()
    with auth.database().as_role(who.role, who.actor) as client:
        if not request.headers.get("X-Live"):
            g.dead = client.count_jobs({"status": "failed"}).jobs
        yield client


@contextmanager
def acting() -> Iterator[Client]:
    """A transaction of whoever asks, to change something: the database decides whether it may."""
    who = auth.caller()
    with auth.database().as_role(who.role, who.actor) as client:
        yield client


def count_all(
    client: Client, query: Mapping[str, Any], found: Page[JobSummary], size: int
) -> JobCount:
    """How many jobs match, of whom `found` is the first page: it has read as much as counting would
    where it did not fill, unless counters know."""
    if found.next_cursor is None:
        return JobCount(len(found.rows), False)
    if len(found.rows) < size and query.keys() - {"status", "queue", "kind"}:
        return JobCount(len(found.rows), True)
    return client.count_jobs(query)


def page(template: str, status: int = 200, **context: Any) -> Response:
    """A whole page, or its live part when that is what the browser asks for."""
    live = context.get("live")
    if live and request.headers.get("X-Live"):
        html = render_template(live, **context)
        response = make_response(html, status)
        response.headers["Cache-Control"] = "private, no-cache"
        response.vary.update(["Cookie", "X-Live"])
        # How long ago something was is the browser's to count: it is no change.
        still = re.sub(r"(<time[^>]*>)[^<]*", r"\1", html)
        response.set_etag(hashlib.sha256(still.encode()).hexdigest()[:32])
        if status == 200:
            response.make_conditional(request)
        return response
    return make_response(render_template(template, **context), status)


def done(endpoint: str, notice: str | None = None, **values: Any) -> Response:
    """To the page that shows what a change did."""
    target = auth.safe_path(request.form.get("back")) or url_for(endpoint, **values)
    if notice:
        target = f"{target}{'&' if '?' in target else '?'}{urlencode({'notice': notice})}"
    return make_response(redirect(target, 303))


def _context() -> dict[str, Any]:
    theme = request.cookies.get("theme", "auto")
    # With the base path, since it goes back into forms; a notice is said once.
    arguments = urlencode([item for item in request.args.items(multi=True) if item[0] != "notice"])
    return {
        "config": auth.config(),
        "who": auth.current(),
        "theme": theme if theme in {"light", "dark"} else "auto",
        "notice": NOTICES.get(request.args.get("notice", "")),
        "here": request.script_root + request.path + (f"?{arguments}" if arguments else ""),
        "dead": g.get("dead", 0),
        "now": datetime.now(UTC),
    }


# -- how values read


def span(value: timedelta | float | None) -> str:
    """`1.2 s`, `14 m 2 s`, `3 h 5 m`, `2 d 4 h`; a dash for none."""
    if value is None:
        return NONE
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    if seconds < 0.0995:
        return f"{sign}{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{sign}{seconds:.1f} s"
    whole = round(seconds)
    for size, name, lower_size, lower_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "m"),
        (60, "m", 1, "s"),
    ):
        if whole >= size:
            lower = whole % size // lower_size
            return f"{sign}{whole // size} {name}" + (f" {lower} {lower_name}" if lower else "")
    return f"{sign}{whole} s"


def ago(value: datetime | None) -> str:
    """How far an instant lies from now: `5 s ago`, `in 2 h`; in whole seconds up to a minute, in
    whole minutes from then on, as the script goes on counting."""
    if value is None:
        return NONE
    away = (datetime.now(UTC) - value).total_seconds()
    whole = int(abs(away))
    if not whole:
        return "now"
    text = f"{whole} s" if whole < 60 else span(whole - whole % 60)
    return f"{text} ago" if away > 0 else f"in {text}"


def instant(value: datetime) -> str:
    """An instant for programs, to the millisecond."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds")[:23] + "Z"


def stamp(value: datetime | None) -> str:
    """An instant in full, UTC."""
    return NONE if value is None else instant(value)[:23].replace("T", " ") + " UTC"


def read_stamp(text: Any) -> str:
    """An instant as a document has it, as `stamp` writes it; what is none as it stands."""
    try:
        return stamp(datetime.fromisoformat(str(text)))
    except ValueError:
        return visible(str(text))[:40]


def number(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"


def short(value: int) -> str:
    """4,210 as it is, then 42k, 3.0M: for a tab."""
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if value >= size:
            count = value / (1_000_000 if unit == "M" else 1000)
            return f"{count:.1f}{unit}" if count < 10 else f"{count:,.0f}{unit}"
    return f"{value:,}"


def pretty(value: Any) -> str:
    """A JSON document for reading."""
    if isinstance(value, JsonText):
        return str(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def compact(value: Any) -> str:
    """A JSON document on one line."""
    return json.dumps(value, ensure_ascii=False)


def excerpt(text: str, longest: int = LONGEST_DOCUMENT) -> tuple[str, bool]:
    """The beginning of a long text, and whether something is missing."""
    return (text, False) if len(text) <= longest else (text[:longest], True)


def visible(text: str | None) -> str:
    """Text from outside with the characters shown that would change how it reads."""
    return "".join(
        f"\\u{ord(character):04x}"
        if character in _MISLEADING or (ord(character) < 32 and character not in "\n\t")
        else character
        for character in text or ""
    )


# Marks that turn the direction of the text around them.
_MISLEADING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
