"""How results are printed: as a table, JSON, JSON Lines or CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import click

from pyworker import logs
from pyworker.cli.arguments import SETTING_SPANS
from pyworker.cli.shared import Run
from pyworker.client import Page, Setting
from pyworker.durations import interval, typed


def _plain(value: Any) -> Any:
    """A value as JSON has it: instants in UTC, durations in seconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def members_of(row: Any) -> dict[str, Any]:
    if isinstance(row, Mapping):
        return dict(row)
    return {f.name: getattr(row, f.name) for f in fields(row)}


def _json_line(row: Any, indent: int | None = None) -> str:
    plain = {name: _plain(value) for name, value in members_of(row).items()}
    return json.dumps(plain, default=str, indent=indent)


class Lines:
    """Prints rows as they come, a line each."""

    def __init__(self, output: str, columns: Sequence[str]) -> None:
        self._output = output
        self._columns = columns
        self._begun = False

    def print(self, row: Any) -> None:
        members = members_of(row)
        if self._output == "csv":
            if not self._begun:
                click.echo(_csv_line(members))
            click.echo(_csv_line(map(_csv_value, members.values())))
        elif self._output == "table":
            click.echo("  ".join(cell_of(members[name]) for name in self._columns))
        else:
            click.echo(_json_line(row))
        self._begun = True


def _csv_line(values: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(values)
    return line.getvalue()


def _csv_value(value: Any) -> Any:
    """What is a document stays JSON; what a spreadsheet would take for a formula becomes text;
    of control characters only ends of lines stay."""
    plain = _plain(value)
    if isinstance(plain, dict | list | bool):
        return json.dumps(plain)
    if not isinstance(plain, str):
        return plain
    text = "\n".join(map(logs.escape, plain.split("\n")))
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


_WIDEST = 80


def cell_of(value: Any, widest: int = _WIDEST) -> str:
    """One line that fits a table: no control character of a job's text reaches the terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, timedelta):
        return _age(value)
    if isinstance(value, dict | list):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, Decimal):
        value = f"{_plain(value):,}"
    text = logs.escape(str(value))
    return text if len(text) <= widest else text[: widest - 1] + "…"


def _age(span: timedelta) -> str:
    seconds = span.total_seconds()
    sign, seconds = ("-" if seconds < 0 else ""), abs(seconds)
    if seconds < 60:
        return f"{sign}{seconds:.3g} s"
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            smaller = {"d": ("h", 3600), "h": ("m", 60), "m": ("s", 1)}[unit]
            rest = whole % size // smaller[1]
            return f"{sign}{whole // size} {unit}" + (f" {rest} {smaller[0]}" if rest else "")
    raise AssertionError("unreachable")


def print_rows(
    ctx: click.Context,
    rows: Iterable[Any],
    columns: Sequence[str],
    empty: str,
    widest: int = _WIDEST,
) -> None:
    """Rows as asked for: JSON and CSV have every column, a table those named."""
    output = ctx.ensure_object(Run).output
    if output in ("jsonl", "csv"):
        lines = Lines(output, columns)
        for row in rows:
            lines.print(row)
        return
    found = list(rows)
    if output == "json":
        click.echo("[" + ",".join("\n  " + _json_line(row) for row in found) + "\n]")
        return
    if not found:
        click.echo(empty, err=True)
        return
    cells = [[cell_of(members_of(row)[name], widest) for name in columns] for row in found]
    titles = [name.replace("_", " ").upper() for name in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    for n, line in enumerate([titles, *cells]):
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.secho(text.rstrip(), bold=n == 0 or None)


def print_settings(ctx: click.Context, settings: Iterable[Setting]) -> None:
    """Each value of its own type; in a table as it is written, so that it can be given back."""
    table = ctx.ensure_object(Run).output == "table"

    def value_of(setting: Setting) -> Any:
        if setting.value is None:
            return None
        if setting.name in SETTING_SPANS:
            return typed(setting.value) if table else interval(setting.value) or setting.value
        return json.loads(setting.value)

    rows = [{"name": setting.name, "value": value_of(setting)} for setting in settings]
    print_rows(ctx, rows, ["name", "value"], "")


def print_one(ctx: click.Context, row: Any) -> None:
    """One thing, a line for each of its values."""
    output = ctx.ensure_object(Run).output
    if output == "csv":
        print_rows(ctx, [row], [], "")
        return
    if output != "table":
        click.echo(_json_line(row, indent=2 if output == "json" else None))
        return
    members = {name: value for name, value in members_of(row).items() if value is not None}
    width = max(map(len, members))
    for name, value in members.items():
        if isinstance(value, dict | list):
            text = json.dumps(value, ensure_ascii=False, indent=2)
            lines = [logs.escape(line) for line in text.splitlines()]
        elif isinstance(value, str):
            lines = [logs.escape(line) for line in value.splitlines()] or [""]
        else:
            lines = [cell_of(value)]
        click.secho(name.replace("_", " ").ljust(width), bold=True, nl=False)
        click.echo(f"  {lines[0]}")
        for line in lines[1:]:
            click.echo(" " * (width + 2) + line)


def print_pages(
    ctx: click.Context,
    fetch: Callable[[str | None, int], Page[Any]],
    cursor: str | None,
    limit: int,
    most: int,
    columns: Sequence[str],
    empty: str,
) -> None:
    """Up to `limit` rows of a list that comes by pages of `most`, and where to go on."""

    def rows() -> Iterator[Any]:
        nonlocal cursor
        missing = limit
        while missing > 0:
            page = fetch(cursor, min(missing, most))
            yield from page.rows
            missing -= len(page.rows)
            cursor = page.next_cursor
            if cursor is None:
                return

    print_rows(ctx, rows(), columns, empty)
    say_where(cursor)


def say_where(cursor: str | None) -> None:
    if cursor is not None:
        click.echo(f"more: --cursor '{logs.escape(cursor)}'", err=True)
