"""`python -m chaos --seed 7 --seconds 120`: one run, a summary, exit 1 if a promise was broken.

The seed decides load and faults; what the machine makes of them is never twice the same. PG=15 uses
that major version's binaries, otherwise the embedded server. The folder with the evidence is kept
when something is wrong, or with --keep.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from chaos.books import Books
from chaos.faults import Faults, schedule
from chaos.fleet import Fleet
from chaos.ledger import Ledger, read_lines
from chaos.load import LEASE, QUEUES, Actor, Follower, Operator, Producer, Witness
from pyworker import deploy, embedded
from pyworker.client import Client, Event, Job, connect
from tests.support import servers

WORKERS = 3
THREADS = 8
DRAIN = 120.0
"""Seconds within which everything must have ended once the faults are over."""

SERVER = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_connections": "60",
    "log_min_messages": "warning",
    "timezone": "UTC",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="which run [default: random]")
    parser.add_argument(
        "--seconds", type=float, default=120, help="of faults; draining comes after"
    )
    parser.add_argument("--rate", type=float, default=12, help="jobs a second")
    parser.add_argument("--keep", action="store_true", help="keep the evidence in any case")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed

    folder = Path(tempfile.mkdtemp(prefix=f"rowlock-chaos-{seed}-"))
    say(f"seed {seed}: {arguments.seconds:.0f} s, evidence in {folder}")
    books, wrong = run(seed, arguments.seconds, arguments.rate, folder)

    print(table(books))
    for line in wrong[:50]:
        print(f"VIOLATION {line}")
    if len(wrong) > 50:
        print(f"and {len(wrong) - 50} more in {folder}/violations.txt")
    if wrong or arguments.keep:
        (folder / "violations.txt").write_text("".join(f"{line}\n" for line in wrong))
        keep(folder, books)
        say(f"the evidence is in {folder}; replay with --seed {seed}")
    else:
        shutil.rmtree(folder)
    print(json.dumps(summary(seed, arguments.seconds, books, wrong)))
    return 1 if wrong else 0


def say(line: str) -> None:
    print(f"chaos: {line}", file=sys.stderr, flush=True)


def run(seed: int, length: float, rate: float, folder: Path) -> tuple[Books, list[str]]:
    """Load and faults for so long, then quiet until all has ended, then the books."""
    version = os.environ.get("PG")
    bindir = servers.binaries(int(version) if version else None)
    with embedded.start(bindir=bindir, settings=SERVER) as server:
        url = server.url
        deploy.migrate(url)
        with connect(url, "chaos") as conn:
            Client(conn).set_settings(
                {
                    "lease": LEASE,
                    "tick_interval": "1 second",
                    "backoff_base": "200 milliseconds",
                    "backoff_cap": "2 seconds",
                }
            )
        ledger = Ledger(folder / "clients.jsonl")
        follower = Follower("follower", url, ledger, f"{seed} follower")
        load: list[Actor] = [
            *(
                Producer(f"producer-{n}", url, ledger, f"{seed} producer {n}", rate / 2)
                for n in range(2)
            ),
            *(Witness(f"witness-{n}", url, ledger, f"{seed} witness {n}") for n in range(2)),
            Operator("operator", url, ledger, f"{seed} operator"),
        ]
        fleet = Fleet(url, QUEUES, WORKERS, THREADS, folder)
        faults = Faults(server, url, fleet)
        troubles: list[str] = []
        try:
            for actor in [follower, *load]:
                actor.start()
            endure(schedule(seed, length), faults, fleet, length)
            faults.end()
            for actor in load:
                actor.end()
            troubles += drain(url, fleet)
            fleet.terminate()
            follower.end()
            while follower.read():
                pass
            with connect(url, "chaos") as conn:
                client = Client(conn)
                jobs, events = all_jobs(client), all_events(client)
        finally:
            fleet.close()
            if server.log_path.exists():
                shutil.copy(server.log_path, folder / "server.log")
            ledger.close()

    books = Books(
        jobs=jobs,
        events=events,
        followed=follower.events,
        clients=ledger.lines,
        logs=gather(folder, "worker-*.log", "msg"),
        runs=gather(folder, "runs-*.jsonl", "what"),
        faults=faults.counts,
        kills=[(w.gone_at, w.pid) for w in fleet.gone if w.gone_at and not w.has_left],
        departures=[(w.gone_at, w.pid) for w in fleet.gone if w.gone_at and w.has_left],
        outages=faults.outages,
        locks=faults.locks,
        stops=faults.stops,
        lease=LEASE.total_seconds(),
        server_log=(folder / "server.log").read_text(errors="replace").splitlines(),
    )
    wrong = books.check() + books.missing(length) + troubles
    wrong += [f"client: {actor.crashed}" for actor in [follower, *load] if actor.crashed]
    wrong += [f"worker: {line}" for line in fleet.ended]
    return books, wrong


def endure(plan: list[Any], faults: Faults, fleet: Fleet, length: float) -> None:
    began = time.monotonic()
    while (now := time.monotonic() - began) < length:
        while plan and plan[0].at <= now:
            fault = plan.pop(0)
            say(f"{now:6.1f} s  {fault.what}")
            faults.cause(fault)
        faults.look()
        fleet.replace()
        time.sleep(0.1)


def drain(url: str, fleet: Fleet) -> list[str]:
    """Until nothing is queued or running, looked at twice: a job goes back between two looks.

    Jobs that kill their worker still do.
    """
    end = time.monotonic() + DRAIN
    with connect(url, "chaos") as conn:
        client = Client(conn)
        while time.monotonic() < end:
            fleet.replace()
            left = [
                job for status in ("queued", "running") * 2 for job in client.list_jobs(
                    {"status": status}, max_jobs=1
                ).rows
            ]  # fmt: skip
            if not left:
                say("drained")
                return []
            time.sleep(0.3)
    return [f"I3: not drained within {DRAIN:.0f} s"]


def all_jobs(client: Client) -> dict[int, Job]:
    ids: list[int] = []
    cursor: str | None = None
    while True:
        page = client.list_jobs(cursor=cursor, max_jobs=200)
        ids += [row.id for row in page.rows]
        cursor = page.next_cursor
        if cursor is None:
            return {job_id: client.get_job(job_id) for job_id in ids}


def all_events(client: Client) -> list[Event]:
    events: list[Event] = []
    cursor: str | None = "start"
    while True:
        page = client.read_events(cursor, 5000)
        if not page.rows:
            return events
        events += page.rows
        cursor = page.next_cursor


def gather(folder: Path, pattern: str, needs: str) -> list[dict[str, Any]]:
    lines = [line for path in sorted(folder.glob(pattern)) for line in read_lines(path)]
    return [line for line in lines if needs in line]


def table(books: Books) -> str:
    rows = {**books.counts, **{f"fault: {name}": count for name, count in books.faults.items()}}
    rows["fault: workers that were killed"] = len(books.kills)
    rows["fault: workers that left in order"] = len(books.departures)
    width = max(map(len, rows))
    return "\n".join(f"{name:{width}}  {rows[name]:>8}" for name in sorted(rows))


def summary(seed: int, length: float, books: Books, wrong: list[str]) -> dict[str, Any]:
    counts = books.counts
    return {
        "seed": seed,
        "seconds": length,
        "enqueued": counts["jobs"],
        "acknowledged": counts["acknowledged"],
        "unknown": counts["unknown outcomes"],
        "succeeded": counts["jobs succeeded"],
        "failed": counts["jobs failed"],
        "cancelled": counts["jobs cancelled"],
        "claims": counts["event claimed"],
        "lease_expired": counts["event lease_expired"],
        "stale_refused": counts["stale answers refused"],
        "workers_killed": len(books.kills),
        "backends_terminated": books.faults["backends terminated"],
        "server_crashes": books.faults["crash the server"],
        "lost": counts["lost"],
        "violations": len(wrong),
    }


def keep(folder: Path, books: Books) -> None:
    """Jobs and events beside the logs and ledgers."""
    for name, rows in (("jobs", list(books.jobs.values())), ("events", books.events)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for row in rows:
                file.write(json.dumps(dataclasses.asdict(row), default=str) + "\n")


if __name__ == "__main__":
    sys.exit(main())
