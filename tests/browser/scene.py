"""A shop's afternoon, for the README's pictures: an hour of work that is over, and workers at work.

The hour is played through the functions in a second and then dated back, event by event, as
planned; what goes on afterwards is done by real workers. The same seed plays the same hour.

`python -m tests.browser.scene URL WORKER QUEUE...` is one such worker.
"""

from __future__ import annotations

import math
import random
import sys
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pyworker import App, Job, Worker
from pyworker.client import Claim, Client, Connection, NewJob

app = App()

WORKERS = {
    "mail-1-2107-9f3c41d0": ("email",),
    "app-1-884-c01d77ae": ("billing", "media"),
    "app-2-912-5b2e90f3": ("billing", "media"),
    "batch-1-31-7ae20c4b": ("reports", "sync"),
}

TRACEBACK = """Traceback (most recent call last):
  File "/srv/shop/jobs.py", line 88, in monthly
    rows = warehouse.fetch(payload.month, page=page)
  File "/srv/shop/warehouse.py", line 41, in fetch
    return self._session.get(url, timeout=10).json()
ConnectionResetError: [Errno 104] Connection reset by peer
"""


# -- what runs while the pictures are taken


@app.job("report.monthly")
def monthly(payload: dict[str, Any], job: Job) -> dict[str, int]:
    for page in range(1, 51):
        job.wait(0.8)
        job.progress(2 * page, f"page {page} of 50")
    return {"pages": 50}


@app.job("email.send")
@app.job("thumbnail.make")
@app.job("invoice.render")
@app.job("card.charge")
def work(payload: dict[str, Any], job: Job) -> dict[str, bool]:
    """Takes as long as the payload says, and says how far it is."""
    seconds = float(payload.get("seconds", 1))
    for step in range(1, 11):
        job.wait(seconds / 10)
        if seconds > 5:
            job.progress(10 * step, f"{step} of 10")
    return {"done": True}


# -- the hour before


@dataclass(frozen=True)
class Kind:
    """How often a kind comes, how long it waits and runs, and how it goes wrong."""

    name: str
    queue: str
    a_minute: float
    wait: float
    run: float
    priority: int = 5
    error: tuple[str, str] | None = None
    flaky: float = 0.0
    dead: float = 0.0


_MAIL = ("SMTPServerDisconnected", "please run connect() first")
_CARD = ("CardDeclined", "insufficient funds on card ending {n}")
_TEMPLATE = ("TemplateError", "unknown variable 'vat_{n}'")
_IMAGE = ("UnidentifiedImageError", "cannot identify image file '{n}.heic'")
_CRM = ("ReadTimeout", "crm.example did not answer within 10 s")

KINDS = (
    Kind("email.send", "email", 22, 0.4, 0.35, 7, _MAIL, 0.02, 0.002),
    Kind("card.charge", "billing", 10, 0.6, 0.8, 9, _CARD, 0.0, 0.025),
    Kind("invoice.render", "billing", 8, 1.1, 2.4, 5, _TEMPLATE, 0.0, 0.012),
    Kind("thumbnail.make", "media", 15, 1.8, 1.3, 3, _IMAGE, 0.0, 0.01),
    Kind("crm.sync", "sync", 3, 4.0, 6.0, 5, _CRM, 0.25, 0.05),
    Kind("report.monthly", "reports", 0.3, 3.0, 24.0),
)


@dataclass
class Plan:
    """When each event of each job is to have happened, in seconds before now."""

    kind: Kind
    fails: int
    dies: bool
    error: tuple[str, str]
    times: list[float] = field(default_factory=list)


def play(conn: Connection, shop: Client, workers: Client, seed: int = 4) -> int:
    """Plays the hour, as the shop and its workers; returns the job that a picture shows."""
    chance = random.Random(seed)
    client = Client(conn)
    plans: dict[int, Plan] = {}
    for kind in KINDS:
        client.set_policy(kind.queue, backoff_base=timedelta(seconds=1))
        made = [_plan(kind, minute, chance) for minute in range(58, 1, -1)]
        plans |= _run(shop, workers, kind, [plan for each in made for plan in each], chance)
    _date_back(conn, plans)

    error = ("ConnectionResetError", "[Errno 104] Connection reset by peer")
    report = shop.enqueue(
        "report.monthly",
        {"month": "2026-10", "format": "pdf", "recipients": ["board@shop.example"], "pages": 50},
        "reports",
        priority=8,
        idempotency_key="report-2026-10",
        headers={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    ).job_id
    (claim,) = workers.claim("batch-1-31-7ae20c4b", ["reports"])
    for page in (12, 17):
        workers.progress(report, claim.fence, 2 * page, f"page {page} of 50")
    workers.fail(report, claim.fence, *error, {"traceback": TRACEBACK}, retry_in=timedelta(hours=3))
    _date_back(conn, {report: Plan(KINDS[-1], 0, False, error, [97.2, 96.4, 91.0, 88.5, 88.1])})
    for minutes in (2, 3, 5):
        shop.enqueue("email.send", {"order": 48000 + minutes}, "email", priority=7)
        (claim,) = workers.claim("mail-1-2107-9f3c41d0", ["email"])
        workers.fail(claim.job_id, claim.fence, *_MAIL, retry_in=timedelta(minutes=minutes))
    while client.roll_up().more:
        pass
    return report


def _plan(kind: Kind, minute: int, chance: random.Random) -> list[Plan]:
    """What comes in one minute: more around the half hour, and the CRM is down for a while."""
    swell = 1 + 0.35 * math.sin((58 - minute) / 9) + chance.uniform(-0.15, 0.15)
    count = kind.a_minute * swell
    plans = []
    for _ in range(int(count) + (chance.random() < count % 1)):
        down = kind.name == "crm.sync" and 21 <= minute <= 27
        dies = chance.random() < kind.dead
        fails = int(chance.random() < (0.9 if down else kind.flaky)) + int(down and not dies)
        name, text = kind.error or ("", "")
        text = text.format(n=chance.randint(1000, 9999))
        at = 60 * minute - chance.uniform(0, 60)
        plan = Plan(kind, fails, dies, (name, text), [at])
        for _ in range(fails + 1):
            for span in (kind.wait * (1 + 2 * down), kind.run):
                at -= span * chance.lognormvariate(0, 0.6)
                plan.times.append(at)
        plans.append(plan)
    return plans


def _run(
    shop: Client, workers: Client, kind: Kind, plans: list[Plan], chance: random.Random
) -> dict[int, Plan]:
    jobs = [
        NewJob(
            kind=kind.name,
            payload={"order": chance.randint(40000, 49999)},
            queue=kind.queue,
            priority=kind.priority,
            max_attempts=plan.fails + 1 if plan.dies else 5,
        )
        for plan in plans
    ]
    batches = [jobs[at : at + 500] for at in range(0, len(jobs), 500)]
    made = [each for batch in batches for each in shop.enqueue_many(batch)]
    found = {each.job_id: plan for each, plan in zip(made, plans, strict=True)}
    names = [name for name, queues in WORKERS.items() if kind.queue in queues]
    left = len(found)
    while left:
        claims = workers.claim(chance.choice(names), [kind.queue], 25)
        left -= sum(_settle(workers, claim, found[claim.job_id]) for claim in claims)
    return found


def _settle(workers: Client, claim: Claim, plan: Plan) -> bool:
    """Ends a claim as planned; whether the job has ended with it."""
    if claim.attempt <= plan.fails or plan.dies:
        trace = {"traceback": "Traceback (most recent call last):\n" + ": ".join(plan.error)}
        answer = workers.fail(claim.job_id, claim.fence, *plan.error, trace, retry_in=timedelta(0))
        return answer.status == "failed"
    workers.complete(claim.job_id, claim.fence, {"ok": True})
    return True


_PLANNED = """
create temporary table planned as
select
  (entry ->> 'job')::bigint as job_id,
  step.number::integer as number,
  clock_timestamp() - (step.ago::text || ' s')::interval as at
from jsonb_array_elements(%s::jsonb) as entry
  cross join lateral jsonb_array_elements(entry -> 'times') with ordinality as step (ago, number)
"""

_DATE_EVENTS = """
update queue.job_events as event
set at = dated.at,
    elapsed = case when event.elapsed is not null then dated.at - dated.before end
from (
    select
      place.id,
      planned.at,
      max(planned.at) filter (where place.event <> 'progressed') over (
        partition by place.job_id
        order by place.number
        rows between unbounded preceding and 1 preceding
      ) as before
    from (
        select
          numbered.id,
          numbered.job_id,
          numbered.event,
          row_number() over (partition by numbered.job_id order by numbered.id) as number
        from queue.job_events as numbered
      ) as place
      join planned on planned.job_id = place.job_id and planned.number = place.number
  ) as dated
where dated.id = event.id
"""

_DATE_JOBS = """
update queue.jobs as job
set created_at = dated.first,
    available_at = case when job.status = 'queued' then job.available_at else dated.due end,
    started_at = case when job.status <> 'queued' then dated.claimed end,
    finished_at = case when job.finished_at is not null then dated.last end
from (
    select
      event.job_id,
      min(event.at) as first,
      max(event.at) as last,
      max(event.at) filter (where event.event = 'claimed') as claimed,
      max(event.at) filter (where event.to_status = 'queued') as due
    from queue.job_events as event
    where event.job_id in (select planned.job_id from planned)
    group by event.job_id
  ) as dated
where dated.job_id = job.id
"""


def _date_back(conn: Connection, plans: dict[int, Plan]) -> None:
    """Events cannot be changed but by a superuser who says so; nothing is dated otherwise."""
    from psycopg.types.json import Jsonb

    entries = [{"job": job_id, "times": plan.times} for job_id, plan in plans.items()]
    with conn.transaction():
        conn.execute("set local session_replication_role = replica")
        conn.execute(_PLANNED, [Jsonb(entries)])
        conn.execute(_DATE_EVENTS)
        conn.execute(_DATE_JOBS)
        conn.execute("drop table planned")


# -- the moment


def fill(client: Client, seed: int = 5) -> None:
    """What is in the queues when the workers begin."""
    chance = random.Random(seed)

    def many(count: int, kind: str, queue: str, priority: int, least: float, most: float) -> None:
        client.enqueue_many(
            NewJob(
                kind=kind,
                payload={
                    "order": chance.randint(40000, 49999),
                    "seconds": round(chance.uniform(least, most), 2),
                },
                queue=queue,
                priority=priority,
            )
            for _ in range(count)
        )

    many(9, "email.send", "email", 7, 0.5, 1.5)
    many(12, "invoice.render", "billing", 5, 4, 12)
    many(38, "thumbnail.make", "media", 3, 2, 6)
    many(11, "crm.sync", "sync", 5, 1, 2)
    client.enqueue_many(
        NewJob(
            kind="email.send", payload={"order": 49999}, queue="email", delay=timedelta(minutes=n)
        )
        for n in range(9, 180, 7)
    )


def feed(shop: Client, stop: threading.Event, seed: int = 6) -> None:
    """Goes on as the hour went, until told to stop."""
    chance = random.Random(seed)
    kinds = [kind for kind in KINDS if kind.queue in {"email", "billing"}]
    while not stop.wait(0.8):
        (kind,) = chance.choices(kinds, [each.a_minute for each in kinds])
        seconds = round(kind.run * chance.lognormvariate(0, 0.6), 2)
        shop.enqueue(kind.name, {"seconds": seconds}, kind.queue, kind.priority)


def main(url: str, name: str, *queues: str) -> None:
    Worker(app, url, worker_id=name, queues=queues, threads=6).run_process()


if __name__ == "__main__":
    main(*sys.argv[1:])
