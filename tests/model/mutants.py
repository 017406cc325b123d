"""Functions with one rule taken out of each: the model must notice every one of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FUNCTIONS = Path(__file__).resolve().parents[2] / "db" / "functions"


@dataclass(frozen=True)
class Mutant:
    """`rule` is what no longer holds once `old` reads `new` in the function's file."""

    rule: str
    function: str
    old: str
    new: str

    def sql(self) -> str:
        text = (FUNCTIONS / f"{self.function}.sql").read_text(encoding="utf-8")
        assert text.count(self.old) == 1, f"{self.function}.sql has changed: {self.old!r}"
        return text.replace(self.old, self.new)


MUTANTS = [
    Mutant(
        "higher priorities are claimed first",
        "internal/_pick",
        "(9), (8), (7), (6), (5), (4), (3), (2), (1), (0)",
        "(0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
    ),
    Mutant(
        "a claim's fence is new, whatever was given back",
        "worker/claim",
        "fence = job.fence + 1",
        "fence = job.attempt + 1",
    ),
    Mutant(
        "an answer under an old fence is refused",
        "internal/_lock_claim",
        "v_job.status = 'running' and v_job.fence = p_fence",
        "v_job.status = 'running'",
    ),
    Mutant(
        "another verb for a settled claim is refused",
        "internal/_lock_claim",
        "and v_job.settled_as = p_verb",
        "",
    ),
    Mutant(
        "an answer asked for again is the first answer",
        "internal/_first_answer",
        "coalesce(settled.available_at, p_job.available_at)",
        "p_job.available_at + interval '1 second'",
    ),
    Mutant(
        "a snoozed or released job gets its attempt back",
        "internal/_give_back",
        "v_job.attempt := v_job.attempt - 1;",
        "",
    ),
    Mutant(
        "the backoff doubles from its base",
        "internal/_backoff",
        "greatest(p_attempt - 1, 0)",
        "p_attempt",
    ),
    Mutant(
        "a requested cancel goes before another attempt",
        "internal/_retry_or_fail",
        "v_job.cancel_requested_at is not null",
        "false",
    ),
    Mutant(
        "progress is recorded in the history",
        "worker/progress",
        "'progress', v_job.progress, ",
        "",
    ),
    Mutant(
        "the lease ends soon after the deadline, renewed or not",
        "worker/renew",
        "job.deadline_at + interval '10 seconds'",
        "job.deadline_at + interval '1 day'",
    ),
    Mutant(
        "no lease is reaped early",
        "internal/_expired",
        "job.lease_expires_at <= p_now",
        "job.lease_expires_at <= p_now + interval '1 minute'",
    ),
    Mutant(
        "failed jobs have a retention of their own",
        "scheduler/prune",
        "when walked.status = 'failed' then retention.failed_retention",
        "when walked.status = 'failed' then retention.finished_retention",
    ),
    Mutant(
        "a job that is queued again is due no earlier than now",
        "internal/_requeue",
        "available_at = greatest(p_available_at, p_now)",
        "available_at = p_available_at",
    ),
    Mutant(
        "a follower gets what commits late",
        "observer/read_events",
        "where late.xid = any (v_open)",
        "where false and late.xid = any (v_open)",
    ),
]
