"""`make bench [QUICK=1] [PG=18]`: queues at the same work, beside the server's limit.

One server of its own, fsync and synchronous_commit on, one database a measure. Every job's end is
checked: once, or there is no figure. Figures are medians of rounds, ratios those of figures taken
in the same round. Prints a Markdown table and, as its last line, a JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
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


def run_queue(
    measures: Measures, parts: Sequence[str], rounds: int, *, is_quick: bool
) -> dict[str, Figure]:
    found: dict[str, list[Figure]] = {part: [] for part in parts if part != "H"}
    with contextlib.ExitStack() as stack:
        beside_finished = None
        for number in range(rounds):
            clean: float | None = None
            for part in found:
                if is_quick and number > 0 and part in ONCE:
                    continue
                if part in ("E", "F") and clean is None:
                    clean = measures.drain()
                if part == "E":
                    figure: Figure = measures.drain_after_snapshot() / (clean or 1)
                elif part == "F":
                    beside_finished = beside_finished or stack.enter_context(
                        measures.beside_finished()
                    )
                    figure = beside_finished() / (clean or 1)
                else:
                    figure = measures.measure(part)
                if part == "C":
                    assert isinstance(figure, float)
                    clean = figure
                found[part].append(figure)
                _say(f"  {part}, round {number + 1}: {_text(figure)}")
    return {part: _median(figures) for part, figures in found.items()}


def _median(figures: Sequence[Figure]) -> Figure:
    if isinstance(figures[0], dict):
        parts = [figure for figure in figures if isinstance(figure, dict)]
        return {name: statistics.median(part[name] for part in parts) for name in figures[0]}
    return statistics.median(figure for figure in figures if isinstance(figure, float))


def run(arguments: argparse.Namespace) -> tuple[str, dict[str, dict[str, Figure]]]:
    """The server's version, and each queue's figures."""
    sizes = Sizes().scaled(arguments.scale)
    parts = [part for part in (*WHAT, LIMIT) if part in arguments.only]
    told: dict[str, dict[str, Figure]] = {}
    idle: dict[str, Future[float]] = {}
    with Server(arguments.pg) as server, ThreadPoolExecutor(1) as beside:
        if "H" in parts:
            # Beside the others: it does next to nothing, which is what it measures.
            idle = {
                queue.name: beside.submit(count_idle_statements, queue, arguments.pg, sizes)
                for queue in QUEUES
            }
        for queue in QUEUES:
            _say(queue.name)
            told[queue.name] = run_queue(
                Measures(queue, server, sizes),
                [part for part in parts if part != LIMIT],
                arguments.rounds,
                is_quick=arguments.quick,
            )
        if LIMIT in parts:
            server.run("create database bare template template0")
            rounds = [
                limits.measure(server.url_of("bare"), sizes.singles, sizes.bulk)
                for _ in range(arguments.rounds)
            ]
            told[LIMIT] = {name: _median([each[name] for each in rounds]) for name in rounds[0]}
        for name, count in idle.items():
            told[name]["H"] = count.result()
        return server.version, told


# -- what is printed


def table(told: Mapping[str, Mapping[str, Figure]]) -> str:
    queues = [name for name in told if name != LIMIT]
    lines = [
        f"| | measured | {' | '.join(queues)} |",
        f"|---|---|{'---|' * len(queues)}",
    ]
    for part, what in WHAT.items():
        if any(part in told[name] for name in queues):
            cells = [_text(told[name].get(part)) for name in queues]
            lines.append(f"| {part} | {what} | {' | '.join(cells)} |")
    if LIMIT in told:
        lines += ["", "| the server's limit, one connection | |", "|---|---|"]
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


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


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
    parser.add_argument("--rounds", type=int, default=3, help="[default: 3]")
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
