"""`make bench [QUICK=1] [FULL=1] [README=1] [PG=18]`: queues at the same work on the same server.

Rowlock and its peers, beside the server's own limit. One PostgreSQL of the bench's own, fsync and
synchronous_commit on, and one Redis for the peers that need it; one database a measure. Every job's
end is checked: once, or there is no figure. A to D are medians of rounds, in which all take turns;
what a ratio compares takes turns within its measure, since a machine's load comes and goes. Prints
Markdown and, as its last line, a JSON object.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from bench.figures import percentile
from bench.queues import limits, process
from bench.queues.contract import Contender, PartlyDoneError
from bench.queues.measures import WHAT, Figure, Measures, Sizes, count_idle_statements
from bench.queues.peer import PEERS
from bench.queues.redis import Redis
from bench.queues.report import ALL, LIMIT, LIMITS, OURS, Report, text_of
from bench.queues.rowlock import ROWLOCK
from bench.server import Server

IN_ROUNDS = "ACBD"
"""In this order: a drain's jobs are enqueued in bulk."""
TOO_LONG = "J"
"""Is left out where it must be quick."""


class Bench:
    """A run: what takes part, and what was found so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._rounds: int = arguments.rounds
        self._parts = [part for part in WHAT if part in arguments.only]
        self._sizes = Sizes().scaled(arguments.scale)
        if arguments.quick:
            self._parts = [part for part in self._parts if part not in TOO_LONG]
            self._sizes = replace(self._sizes, passed_long=0)
        else:
            self._sizes = replace(self._sizes, pickups=-(-self._sizes.pickups // self._rounds))
        self._found: dict[str, dict[str, list[Figure | list[float]]]] = {}
        self._began = time.monotonic()
        self.report = Report()

    def run(self) -> None:
        load = _load()
        with contextlib.ExitStack() as stack:
            contenders = self._prepare()
            server = stack.enter_context(Server(self._arguments.pg))
            servers: dict[str, Server | Redis] = {"postgresql": server}
            if any(each.needs == "redis" for each in contenders):
                with contextlib.suppress(FileNotFoundError):
                    servers["redis"] = redis = Redis()
                    stack.callback(redis.close)
            measures = self._install(contenders, servers)
            idle = self._count_idle(measures, stack)
            self._measure(server, measures)
            for each, count in idle.items():
                self._attempt(each.name, "H", count.result)
            told = {
                "PostgreSQL": server.version,
                **({"Redis": servers["redis"].version} if "redis" in servers else {}),
            }
        known = [*WHAT, *LIMITS]
        for name in (*(each.name for each in contenders), LIMIT):
            if found := self._found.get(name):
                self.report.figures[name] = {
                    part: _summary(found[part]) for part in known if part in found
                }
        self.report.made = self._made(told, load)

    # -- who takes part

    def _prepare(self) -> list[Contender]:
        """Those asked for, what they run on installed."""
        wanted: list[str] = self._arguments.queues
        ready: list[Contender] = []
        for each in (ROWLOCK, *PEERS):
            if each.name in wanted:
                print(f"  {each.name}: installing", file=sys.stderr, flush=True)
                with self._failing(each.name, ALL):
                    self.report.versions[each.name] = each.prepare()
                    ready.append(each)
        return ready

    def _install(
        self, contenders: Sequence[Contender], servers: dict[str, Server | Redis]
    ) -> dict[Contender, Measures]:
        measures: dict[Contender, Measures] = {}
        for each in contenders:
            with self._failing(each.name, ALL):
                if each.needs not in servers:
                    raise FileNotFoundError(
                        "there is no redis-server (Debian: apt-get install redis-tools)"
                    )
                measures[each] = Measures(
                    each, servers[each.needs], self._sizes, self._turns_of(each)
                )
        return measures

    def _turns_of(self, contender: Contender) -> int:
        """Of a ratio. Peers take fewer, since many are slow; so does who is in a hurry."""
        if contender is ROWLOCK and not self._arguments.quick:
            return 7 * self._rounds
        return 2 * self._rounds + 1

    def _takes(self, contender: Contender, part: str) -> bool:
        if part in IN_ROUNDS or contender is ROWLOCK:
            return True
        return bool(self._arguments.full) and part in contender.besides

    # -- what is measured

    def _measure(self, server: Server, measures: dict[Contender, Measures]) -> None:
        server.run("create database bare template template0")
        order = list(measures)
        for number in range(self._rounds):
            if LIMIT in self._arguments.only:
                rates = limits.measure(server.url_of("bare"), self._sizes.singles, self._sizes.bulk)
                for name, rate in rates.items():
                    self._note(LIMIT, name, rate)
            for part in IN_ROUNDS:
                if part in self._parts and not (part == "D" and self._arguments.quick and number):
                    for each in order:
                        self._attempt(each.name, part, partial(measures[each].measure, part))
            order.append(order.pop(0))
        for part in self._parts:
            if part not in IN_ROUNDS and part != "H":
                for each in order:
                    if self._takes(each, part):
                        self._attempt(each.name, part, partial(measures[each].measure, part))

    def _count_idle(
        self, measures: dict[Contender, Measures], stack: contextlib.ExitStack
    ) -> dict[Contender, Future[float]]:
        """Beside the others: it does next to nothing, which is what it measures."""
        beside = stack.enter_context(ThreadPoolExecutor(1))
        return {
            each: beside.submit(count_idle_statements, each, self._arguments.pg, self._sizes)
            for each in measures
            if "H" in self._parts and self._takes(each, "H")
        }

    def _attempt(self, name: str, part: str, call: Callable[[], Figure | list[float]]) -> None:
        """What failed once is not tried again; the others go on."""
        if part not in self.report.failed.get(name, {}):
            with self._failing(name, part):
                try:
                    figure = call()
                except PartlyDoneError as exc:
                    self._note(name, part, exc.figure)
                    raise
                self._note(name, part, figure)

    @contextlib.contextmanager
    def _failing(self, name: str, part: str) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            traceback.print_exc()
            reason = process.shortened(" ".join(str(exc).split()), 300)
            self.report.failed.setdefault(name, {})[part] = reason

    def _note(self, name: str, part: str, figure: Figure | list[float]) -> None:
        self._found.setdefault(name, {}).setdefault(part, []).append(figure)
        seconds = time.monotonic() - self._began
        said = text_of(_summary([figure]))
        print(f"  {seconds:5.0f} s {name} {part}: {said}", file=sys.stderr, flush=True)

    def _made(self, servers: dict[str, str], load: str) -> str:
        scale = self._arguments.scale
        rounds = "one round" if self._rounds == 1 else f"medians of {self._rounds} rounds"
        return ", ".join(
            [
                *(f"{name} {version}" for name, version in servers.items()),
                f"{os.cpu_count()} cores ({platform.machine()})",
                f"Python {platform.python_version()}",
                f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
                rounds,
                *([] if scale == 1 else [f"{scale:g} of all amounts"]),
                f"{time.monotonic() - self._began:.0f} s",
                f"load {load} before and {_load()} after",
            ]
        )


def _summary(found: Sequence[Figure | list[float]]) -> Figure:
    """Medians of rounds; of samples, of all rounds together, the percentiles."""
    if isinstance(found[0], list):
        samples = [sample for each in found if isinstance(each, list) for sample in each]
        return {f"p{part}": percentile(samples, part / 100) for part in (50, 95, 99)}
    if isinstance(found[0], dict):
        parts = [each for each in found if isinstance(each, dict)]
        return {name: statistics.median(part[name] for part in parts) for name in found[0]}
    return statistics.median(each for each in found if isinstance(each, float))


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        found = text.split(",")
        if not set(found) <= set(known):
            raise argparse.ArgumentTypeError(f"names some of {','.join(known)}, not {text}")
        return found

    return names


def main() -> None:
    parts = [*WHAT, LIMIT]
    queues = [each.name for each in (ROWLOCK, *PEERS)]
    parser = argparse.ArgumentParser(prog="python -m bench.queues", description=__doc__)
    parser.add_argument("--pg", type=int, default=None, metavar="15|18")
    parser.add_argument(
        "--quick", action="store_true", help=f"Rowlock alone, without {TOO_LONG}; one round of D"
    )
    parser.add_argument("--full", action="store_true", help="E to K of the peers that can, too")
    parser.add_argument("--readme", action="store_true", help="write it into the documents, too")
    parser.add_argument("--last", action="store_true", help="tell the last run again")
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="of A to D; a ratio takes seven times as many turns [default: 3]",
    )
    parser.add_argument("--only", type=_some_of(parts), default=parts, metavar="C,D,limit")
    parser.add_argument("--queues", type=_some_of(queues), metavar="rowlock,pg-boss,...")
    parser.add_argument("--scale", type=float, default=1.0, help="of all amounts [default: 1]")
    arguments = parser.parse_args()
    arguments.queues = arguments.queues or (queues[:1] if arguments.quick else queues)

    if arguments.last:
        report = Report.last()
    else:
        bench = Bench(arguments)
        bench.run()
        report = bench.report
        report.save()
    if arguments.readme:
        report.write()
    print(f"{report.text()}\n\n{report.line()}")
    sys.exit(OURS in report.failed)


if __name__ == "__main__":
    main()
