"""`make bench [QUICK=1] [PG=18]`: queues at the same work, beside the server's limit.

One server of its own, fsync and synchronous_commit on, one database a measure. Every job's end is
checked: once, or there is no figure. Figures are medians of rounds, in which all take turns; what a
ratio compares takes turns within its measure, since a machine's load comes and goes. Prints a
Markdown table and, as its last line, a JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime

from bench.queues import limits
from bench.queues.contract import Queue
from bench.queues.measures import WHAT, Figure, Measures, Sizes, count_idle_statements
from bench.queues.rowlock import Rowlock
from bench.server import Server

QUEUES: list[type[Queue]] = [Rowlock]

LIMIT = "limit"
LIMITS = {
    "insert": "insert and commit, rows/s",
    "update": "update and commit, rows/s",
    "delete1": "delete ... skip locked limit 1, rows/s",
    "delete100": "delete ... skip locked limit 100, rows/s",
}
ONCE = {"D", "E", "F", "G"}
"""Measured in one round where it must be quick: they take the longest."""


def _median(figures: Sequence[Figure]) -> Figure:
    if isinstance(figures[0], dict):
        parts = [figure for figure in figures if isinstance(figure, dict)]
        return {name: statistics.median(part[name] for part in parts) for name in figures[0]}
    return statistics.median(figure for figure in figures if isinstance(figure, float))


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, dict[str, Figure]]]:
    """The server's version, and the medians of each queue and of the limit."""
    sizes = Sizes().scaled(arguments.scale)
    parts: list[str] = [part for part in WHAT if part in arguments.only and part != "H"]
    found: dict[str, dict[str, list[Figure]]] = {queue.name: {} for queue in QUEUES}
    idle: dict[str, Future[float]] = {}

    def note(name: str, part: str, figure: Figure) -> None:
        found.setdefault(name, {}).setdefault(part, []).append(figure)
        print(f"  {name} {part}: {_text(figure)}", file=sys.stderr, flush=True)

    with Server(arguments.pg) as server, ThreadPoolExecutor(1) as beside:
        if "H" in arguments.only:
            # Beside the others: it does next to nothing, which is what it measures.
            for queue in QUEUES:
                idle[queue.name] = beside.submit(count_idle_statements, queue, arguments.pg, sizes)
        measures = {
            queue.name: Measures(queue, server, sizes, arguments.rounds) for queue in QUEUES
        }
        server.run("create database bare template template0")

        for number in range(arguments.rounds):
            if LIMIT in arguments.only:
                rates = limits.measure(server.url_of("bare"), sizes.singles, sizes.bulk)
                for part, rate in rates.items():
                    note(LIMIT, part, rate)
            for part in parts:
                if arguments.quick and number > 0 and part in ONCE:
                    continue
                for name, each in measures.items():
                    note(name, part, each.measure(part))
        for name, count in idle.items():
            note(name, "H", count.result())
        version = server.version

    return version, {
        name: {part: _median(figures) for part, figures in each.items()}
        for name, each in found.items()
        if each
    }


# -- what is printed


def table(told: Mapping[str, Mapping[str, Figure]]) -> str:
    queues = [name for name in told if name != LIMIT]
    lines: list[str] = []
    if queues:
        lines = [f"| | measured | {' | '.join(queues)} |", f"|---|---|{'---|' * len(queues)}"]
    for part, what in WHAT.items():
        if any(part in told[name] for name in queues):
            cells = [_text(told[name].get(part)) for name in queues]
            lines.append(f"| {part} | {what} | {' | '.join(cells)} |")
    if LIMIT in told:
        lines += [""] if lines else []
        lines += ["| the server's limit, one connection | |", "|---|---|"]
        lines += [f"| {LIMITS[name]} | {_text(rate)} |" for name, rate in told[LIMIT].items()]
    return "\n".join(lines)


def _text(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if isinstance(figure, dict):
        return ", ".join(f"{name} {value:.2f}" for name, value in figure.items())
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def _rounded(figure: Figure) -> Figure:
    if isinstance(figure, dict):
        return {name: round(value, 3) for name, value in figure.items()}
    return round(figure, 1 if figure >= 100 else 3)


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _parts(text: str) -> list[str]:
    parts = text.split(",")
    known = [*WHAT, LIMIT]
    if not set(parts) <= set(known):
        raise argparse.ArgumentTypeError(f"names some of {','.join(known)}, not {text}")
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.queues", description=__doc__)
    parser.add_argument("--pg", type=int, default=None, metavar="15|18")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"Rowlock alone; one round of {', '.join(sorted(ONCE))}",
    )
    parser.add_argument("--rounds", type=int, default=3, help="and turns of a ratio [default: 3]")
    parser.add_argument(
        "--only", type=_parts, default=[*WHAT, LIMIT], metavar="C,D,limit", help="what to measure"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all amounts [default: 1]")
    arguments = parser.parse_args()

    began, load = time.monotonic(), _load()
    version, told = run(arguments)
    print(
        f"PostgreSQL {version}, {os.cpu_count()} cores ({platform.machine()}), Python"
        f" {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC,"
        f" {time.monotonic() - began:.0f} s, load {load} before and {_load()} after\n"
    )
    print(table(told))
    print()
    figures = {
        name: {part: _rounded(figure) for part, figure in each.items()}
        for name, each in told.items()
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
