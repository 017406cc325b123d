"""The books of a run, and every way in which they could fail to agree.

Nothing acknowledged is lost, nothing appears that nobody asked for, every job ends, two workers
never hold one at once, and what is answered too late changes nothing. I1 to I13 are the names of
the rules in reports.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyworker.client import Event, Job
from tests.model.history import FINISHED, STANDING, replay, violations

LEASE_ENDS = ("lease_expired", "timed_out")

REAPER_PERIOD = 5.0
"""A worker with jobs in hand looks after expired leases this often."""

ALLOWANCE = 6.0
"""Seconds for what two cores do at the same time: starting processes, recovery, backoff's end."""

_SETTLED = re.compile(r"settled: (\w+)")
_STALE = re.compile(r"refused: the claim was lost, (\w+) changed nothing(?: \[(\d+) more)?")
_SICK = re.compile(
    "PANIC|deadlock detected|violates .*constraint|cache lookup failed|could not read|corrupt"
)
_ENDS = {
    "complete": {"succeeded"},
    "fail": {"failed", "retry_scheduled", "cancelled"},
    "snooze": {"snoozed", "cancelled"},
    "release": {"released", "cancelled"},
    "accept_cancel": {"cancelled"},
}
"""With which events a claim may end that was settled by a verb."""

Token = tuple[int, int]


@dataclass
class Books:
    """All that is known about a run."""

    jobs: dict[int, Job]
    events: list[Event]
    """As a follower reads them from the start, after the end."""
    followed: list[Event]
    """As one read them while the server and its connections were being killed."""
    clients: list[dict[str, Any]]
    """The ledger of producers, witnesses and operators."""
    logs: list[dict[str, Any]]
    """The workers' logs."""
    runs: list[dict[str, Any]]
    """What handlers noted: when each run began and ended."""
    faults: Counter[str]
    kills: list[tuple[float, int]]
    departures: list[tuple[float, int]]
    """Workers that ended when asked to."""
    outages: list[tuple[float, float]]
    locks: list[tuple[float, float, int]]
    stops: list[tuple[float, float, int]]
    lease: float
    server_log: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.history: dict[int, list[Event]] = defaultdict(list)
        for event in sorted(self.events, key=lambda event: event.id):
            self.history[event.job_id].append(event)
        # A claim whose answer was cut off is committed, and its worker does not know of it.
        self.known = {(log["job_id"], log["fence"]) for log in self.logs if log["msg"] == "claimed"}
        self.ends: dict[Token, Event] = {}
        self.claims: dict[Token, Event] = {}
        for event in self.events:
            if event.event == "claimed":
                self.claims[event.job_id, event.fence] = event
            elif event.from_status == "running" and event.to_status != "running":
                self.ends[event.job_id, event.fence] = event

    def wrong(self, rule: str, what: str) -> None:
        self.counts[f"violations of {rule}"] += 1
        self.found.append(f"{rule}: {what}")

    def told(self, what: str) -> Iterable[dict[str, Any]]:
        return (line for line in self.clients if line["what"] == what)

    def check(self) -> list[str]:
        """Every violation found."""
        self.nothing_is_lost()
        self.nothing_is_made_up()
        self.all_has_ended()
        self.histories_are_legal()
        self.each_event_is_followed_once()
        self.each_claim_has_one_holder()
        self.answers_are_what_happened()
        self.late_answers_change_nothing()
        self.runs_overlap_only_after_a_lost_lease()
        self.what_kills_its_worker_ends()
        self.the_abandoned_run_again()
        self.who_leaves_in_order_leaves_nothing()
        self.the_healthy_keep_their_leases()
        self.the_server_is_well()
        return self.found

    def nothing_is_lost(self) -> None:
        """I1: what was acknowledged is there, under the key it was asked for."""
        for line in self.told("acknowledged"):
            self.counts["acknowledged"] += 1
            job = self.jobs.get(line["job_id"])
            if job is None or job.idempotency_key != line["key"]:
                self.counts["lost"] += 1
                self.wrong(
                    "I1", f"job {line['job_id']} ({line['key']}) was acknowledged and is gone"
                )

    def nothing_is_made_up(self) -> None:
        """I2: no job that nobody asked for. What became of an unknown outcome is only counted."""
        asked = {line["key"] for line in self.told("asked")}
        acknowledged = {line["key"] for line in self.told("acknowledged")}
        made = {job.idempotency_key for job in self.jobs.values()}
        for job in self.jobs.values():
            if job.idempotency_key not in asked:
                self.wrong("I2", f"job {job.id} ({job.idempotency_key}) was never asked for")
        for line in self.told("unknown"):
            for key in line["keys"]:
                self.counts["unknown outcomes"] += 1
                if key in made and key not in acknowledged:
                    self.counts["unknown outcomes that had happened"] += 1
        self.counts["jobs"] = len(self.jobs)

    def all_has_ended(self) -> None:
        """I3 and I8."""
        for job in self.jobs.values():
            self.counts[f"jobs {job.status}"] += 1
            if job.status not in FINISHED:
                self.wrong("I3", f"job {job.id} ({job.kind}) is still {job.status}")
            if job.attempt > job.max_attempts:
                self.wrong("I8", f"job {job.id} has used {job.attempt} of {job.max_attempts}")

    def histories_are_legal(self) -> None:
        """I7: every step is an arrow of the design, and replaying the events gives the row."""
        for event in self.events:
            self.counts[f"event {event.event}"] += 1
        for job_id in self.jobs.keys() | self.history.keys():
            history = self.history[job_id]
            for line in violations(history):
                self.wrong("I7", line)
            job = self.jobs.get(job_id)
            if job is None:
                self.wrong("I7", f"job {job_id} has events and is gone")
                continue
            told = replay(history)
            for name in STANDING:
                if getattr(told, name) != getattr(job, name):
                    self.wrong(
                        "I7",
                        f"job {job_id}: events say {name} is {getattr(told, name)!r},"
                        f" the row says {getattr(job, name)!r}",
                    )
            completed = sum(event.event == "succeeded" for event in history)
            if completed > 1:
                self.wrong("I5", f"job {job_id} was completed {completed} times")

    def each_event_is_followed_once(self) -> None:
        """A follower whose connections are killed misses nothing and reads nothing twice."""
        times = Counter(event.id for event in self.followed)
        for event_id, count in times.items():
            if count > 1:
                self.wrong("follower", f"event {event_id} came {count} times")
        for event in self.events:
            if event.id not in times:
                self.wrong("follower", f"event {event.id} of job {event.job_id} never came")

    def each_claim_has_one_holder(self) -> None:
        """I4: a token is handed to one worker, the one that the history names."""
        holders: dict[Token, set[str]] = defaultdict(set)
        for line in [*self.told("claimed"), *(log for log in self.logs if log["msg"] == "claimed")]:
            holders[line["job_id"], line["fence"]].add(line["worker"])
        for line in self.runs:
            holders[line["job_id"], line["fence"]].add(line["worker"])
        for token, workers in holders.items():
            named = self.claims.get(token)
            if len(workers) > 1:
                self.wrong("I4", f"token {token} was handed to {sorted(workers)}")
            elif named is None or named.worker not in workers:
                # A claim whose transaction was never confirmed cannot have been handed out.
                self.wrong("I4", f"token {token} is {workers}'s, the history says {named}")

    def acknowledged_ends(self) -> Iterable[tuple[str, Token]]:
        """What workers were told to have settled."""
        for line in self.logs:
            if settled := _SETTLED.fullmatch(line["msg"]):
                yield settled[1], (line["job_id"], line["fence"])
        for line in self.told("answered"):
            if line["verb"] not in ("progress", "renew") and line["answer"] != "lost":
                if line["answer"] == "refused":
                    self.wrong("I5", f"an outcome was refused: {line}")
                elif line["answer"] != "busy":
                    verb = "complete" if line["verb"] == "settle" else line["verb"]
                    yield verb, (line["job_id"], line["fence"])

    def answers_are_what_happened(self) -> None:
        """I5 and I6: an answer that was accepted is how the claim ended."""
        for verb, token in self.acknowledged_ends():
            self.counts["answers accepted"] += 1
            end = self.ends.get(token)
            if end is None or end.event not in _ENDS[verb]:
                said = end.event if end else "nothing"
                self.wrong("I5", f"{verb} of {token} was accepted, the history says {said}")
            elif end.event in LEASE_ENDS:
                self.wrong("I6", f"{verb} of {token} was accepted after its lease was taken")

    def late_answers_change_nothing(self) -> None:
        """Answers for a claim that was lost were refused, and did occur."""
        for line in self.logs:
            if stale := _STALE.match(line["msg"]):
                self.counts["stale answers refused"] += 1 + int(stale[2] or 0)
                self._is_stale(stale[1], (line["job_id"], line["fence"]))
        for line in self.told("answered"):
            if line["answer"] == "lost":
                self.counts["stale answers refused"] += 1
                verb = "complete" if line["verb"] == "settle" else line["verb"]
                self._is_stale(verb, (line["job_id"], line["fence"]))

    def _is_stale(self, verb: str, token: Token) -> None:
        end = self.ends.get(token)
        if end is None:
            self.wrong("I6", f"{verb} of {token} was refused, and the claim never ended")
        elif verb == "complete" and end.event == "succeeded":
            self.wrong("I6", f"{verb} of {token} was refused, and it is how the claim ended")

    def runs_overlap_only_after_a_lost_lease(self) -> None:
        """I9: a second run begins while the first goes on only if that one lost its lease."""
        began: dict[int, list[tuple[int, float]]] = defaultdict(list)
        ended: dict[Token, float] = {}
        for line in self.runs:
            if line["what"] == "began":
                began[line["job_id"]].append((line["fence"], line["at"]))
            else:
                ended[line["job_id"], line["fence"]] = line["at"]
        for job_id, runs in began.items():
            for (fence, _), (_, next_at) in zip(sorted(runs), sorted(runs)[1:], strict=False):
                if ended.get((job_id, fence), next_at) > next_at:
                    self.counts["runs that overlapped"] += 1
                    end = self.ends.get((job_id, fence))
                    # The reaper and a shutdown end a claim as cancelled once that was asked.
                    if end is None or end.event not in (*LEASE_ENDS, "released", "cancelled"):
                        self.wrong("I9", f"job {job_id}: run {fence} goes on after {end}")

    def what_kills_its_worker_ends(self) -> None:
        """A job that kills its worker each time has no more claims than attempts, and ends."""
        for job in self.jobs.values():
            if job.kind == "chaos.kill" and job.payload["times"] > 1:
                if job.status == "succeeded" and not self._was_answered_by_hand(job.id):
                    self.wrong("poison", f"job {job.id} succeeded, and kills whoever runs it")
                self.counts["jobs that kill each time"] += 1

    def _was_answered_by_hand(self, job_id: int) -> bool:
        return any(line["job_id"] == job_id for line in self.told("claimed"))

    def the_abandoned_run_again(self) -> None:
        """I13: what a killed worker held is taken from it within lease, reaper period, allowance.

        Not counted: time in which the server was away, or somebody held the job's row.
        """
        for killed_at, pid in self.kills:
            for token, claim in self.claims.items():
                worker = claim.worker or ""
                end = self.ends.get(token)
                if worker.count("-") < 2 or worker.split("-")[-2] != str(pid):
                    continue
                if seconds(claim.at) > killed_at or end is None or seconds(end.at) < killed_at:
                    continue
                waited = seconds(end.at) - killed_at - self._excused(token[0], killed_at, end.at)
                self.counts["claims abandoned"] += 1
                self.counts["longest wait, ms"] = max(
                    self.counts["longest wait, ms"], round(1000 * waited)
                )
                if waited > self.lease + REAPER_PERIOD + ALLOWANCE:
                    self.wrong("I13", f"{token} was abandoned for {waited:.1f} s")

    def _excused(self, job_id: int, begin: float, end: datetime) -> float:
        spans = [(a, b) for a, b in self.outages]
        spans += [(a, b) for a, b, locked in self.locks if locked == job_id]
        return sum(max(0.0, min(b, seconds(end)) - max(a, begin)) for a, b in spans)

    def who_leaves_in_order_leaves_nothing(self) -> None:
        """A worker that ended when asked to had finished or given back all that it knew it held."""
        for left_at, pid in self.departures:
            for token, claim in self.claims.items():
                worker, end = claim.worker or "", self.ends.get(token)
                if (
                    worker.count("-") < 2
                    or worker.split("-")[-2] != str(pid)
                    or token not in self.known
                ):
                    continue
                if end is not None and end.event in LEASE_ENDS and seconds(end.at) > left_at:
                    self.wrong("shutdown", f"worker {pid} left {token} behind")

    def the_healthy_keep_their_leases(self) -> None:
        """A claim that its worker knows of is renewed, and nobody else's, however long it takes.

        Two busy cores may hold up a worker now and then, so a few are let pass.
        """
        claims = expired = 0
        for token, claim in self.claims.items():
            worker, end = claim.worker or "", self.ends.get(token)
            if end is None or worker.startswith("witness") or token not in self.known:
                continue
            pid, begin, last = int(worker.split("-")[-2]), seconds(claim.at), seconds(end.at)
            troubled = any(at <= last for at, killed in self.kills if killed == pid)
            troubled |= any(
                a <= last and begin <= b + self.lease
                for a, b, stopped in self.stops
                if stopped == pid
            )
            troubled |= self._excused(token[0], begin - self.lease, end.at) > 0
            claims += not troubled
            expired += not troubled and end.event == "lease_expired"
        self.counts["leases lost by healthy workers"] = expired
        if expired > 3 + claims / 50:
            self.wrong("renewal", f"{expired} of {claims} healthy workers' claims lost their lease")

    def the_server_is_well(self) -> None:
        """I11: no row out of shape, no deadlock, no error inside the server."""
        for line in self.server_log:
            if _SICK.search(line):
                self.wrong("I11", line.strip())

    def missing(self, seconds_run: float) -> list[str]:
        """What has to have happened for the run to prove anything."""
        wanted = {
            "a stale answer was refused": self.counts["stale answers refused"],
            "a lease expired": self.counts["event lease_expired"],
            "an outcome was unknown": self.counts["unknown outcomes"]
            + sum(1 for _ in self.told("unanswered")),
            "an unknown outcome had happened": self.counts["unknown outcomes that had happened"],
            "the server crashed": self.faults["crash the server"],
            "a backend was terminated": self.faults["backends terminated"],
            "a worker was killed": len(self.kills),
            "a job succeeded": self.counts["jobs succeeded"],
        }
        return [f"coverage: not once in {seconds_run:.0f} s: {what}"
                for what, count in wanted.items() if not count]  # fmt: skip


def seconds(at: datetime) -> float:
    return at.timestamp()
