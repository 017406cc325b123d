"""`rowlock enqueue`: one job, or a line each of standard input."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from pyworker import client
from pyworker.cli.arguments import ATTEMPTS, PRIORITY, instant, span
from pyworker.cli.output import Lines, print_one, print_rows
from pyworker.cli.shared import Command, Run, connected, telling
from pyworker.client import Client, JsonText, NewJob
from pyworker.errors import RowlockError


@click.command(cls=Command)
@click.argument("kind")
@click.argument("payload", required=False)
@click.option("-q", "--queue", help="Which queue [default: default].")
@click.option("--priority", type=PRIORITY, help="0 to 9, higher first [default: 5].")
@click.option("--in", "delay", type=span, metavar="SPAN", help="Due in, such as 5m.")
@click.option(
    "--at",
    "available_at",
    type=instant,
    metavar="TIME",
    help="Due at, such as 2027-01-31T12:00:00Z.",
)
@click.option("--key", "idempotency_key", help="The same key in a queue is the same job.")
@click.option("--max-attempts", type=ATTEMPTS, help="Runs before the job counts as failed.")
@click.option(
    "--lease", type=span, metavar="SPAN", help="How long a worker has before it must renew."
)
@click.option("--timeout", type=span, metavar="SPAN", help="How long a run may take.")
@click.pass_context
def enqueue(ctx: click.Context, /, kind: str, payload: str | None, **options: Any) -> None:
    """Enqueue jobs of KIND.

    PAYLOAD is JSON, @FILE, or - to read JSON Lines from standard input: each line the payload of
    one job, a thousand jobs a transaction. With - for KIND, each line is a whole job:
    {"kind": "email.send", "payload": {}, "priority": 9}.
    """
    if kind == "-" or payload == "-":
        if kind == "-" and (payload is not None or any(v is not None for v in options.values())):
            raise click.UsageError("with - for KIND, each line says everything about its job")
        if options["idempotency_key"]:
            raise click.UsageError("--key would make all lines one job")
        _enqueue_lines(ctx, connected(ctx), None if kind == "-" else kind, options)
        return

    text = _read_payload(payload)
    made = connected(ctx).enqueue(kind, text, **options)
    if ctx.ensure_object(Run).output == "table":
        click.echo(f"job {made.job_id}" + ("" if made.created else " exists already"))
    else:
        print_one(ctx, made)


def _read_payload(payload: str | None) -> JsonText | None:
    if payload is None:
        return None
    if payload.startswith("@"):
        try:
            payload = Path(payload[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise click.UsageError(f"cannot read {payload[1:]}: {exc}") from exc
    return _json_text(payload, "the payload")


class _NotJsonError(Exception):
    pass


def _refuse(constant: str) -> None:
    raise _NotJsonError(f"{constant} is a value of Python's only")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def _json_text(text: str, what: str) -> JsonText:
    """JSON that goes to the database as it was written: numbers keep every digit."""
    try:
        _decode(text)
    except (json.JSONDecodeError, _NotJsonError) as exc:
        raise click.UsageError(f"{what} is not JSON: {exc}") from exc
    except (ValueError, RecursionError):
        pass  # more than Python can hold, and none of its business
    return JsonText(text)


# Characters: payloads of 1 MiB are not gathered by the thousand.
_BATCH_SIZE = 4 * 2**20


def _enqueue_lines(
    ctx: click.Context, db: Client, kind: str | None, options: Mapping[str, Any]
) -> None:
    if sys.stdin is None:
        raise click.UsageError("standard input is closed")
    stream = sys.stdin.buffer
    done = created = size = 0
    batch: list[NewJob | Mapping[str, Any]] = []
    numbers: list[int] = []
    output = ctx.ensure_object(Run).output
    lines = Lines(output, [])
    kept: list[dict[str, Any]] = []

    def send() -> None:
        nonlocal done, created, size
        try:
            answers = db.enqueue_many(batch)
        except RowlockError as exc:
            if element := re.search(r"\belement ([0-9]+)\b", str(exc)):
                where = f"element {element[1]} is line {numbers[int(element[1]) - 1]}"
                click.echo(f"{where} of standard input:", err=True)
            raise
        done += len(answers)
        created += sum(answer.created for answer in answers)
        told = [{"job_id": answer.job_id, "created": answer.created} for answer in answers]
        if output == "json":
            kept.extend(told)
        elif output != "table":
            for row in told:
                lines.print(row)
        batch.clear()
        numbers.clear()
        size = 0

    try:
        with (
            telling(lambda: f"{done} jobs were enqueued before this:"),
            _progress(stream) as advance,
        ):
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    batch.append(_line_job(line, number, kind, options))
                    numbers.append(number)
                    size += len(line)
                if len(batch) == client.MAX_BATCH or size > _BATCH_SIZE:
                    send()
                advance(len(line))
            if batch:
                send()
    finally:
        if output == "json":
            print_rows(ctx, kept, [], "")
    click.echo(f"{done} jobs, {created} of them new", err=True)


def _line_job(
    line: bytes, number: int, kind: str | None, options: Mapping[str, Any]
) -> NewJob | Mapping[str, Any]:
    try:
        text = _json_text(line.decode().strip(), f"line {number}")
    except UnicodeDecodeError as exc:
        raise click.UsageError(f"line {number} is not UTF-8: {exc}") from exc
    if kind is not None:
        return NewJob(kind=kind, payload=text, **options)
    try:
        job = client.decode_json(text)
    except ValueError as exc:
        raise click.UsageError(f"line {number} cannot be read: {exc}") from exc
    if not isinstance(job, dict):
        raise click.UsageError(f"line {number} is not an object")
    return job


@contextmanager
def _progress(stream: IO[bytes]) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal where the input's size is known, else nothing."""
    try:
        size = os.fstat(stream.fileno()).st_size
    except (OSError, ValueError):
        size = 0
    if not size or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=size, label="enqueueing", file=sys.stderr) as bar:

        def advance(count: int) -> None:
            bar.update(count)

        yield advance
