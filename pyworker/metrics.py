"""What a worker process counts, as Prometheus text.

Counters of this process since its start. What must survive workers is counted in the database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from pyworker.job import Job

if TYPE_CHECKING:
    from pyworker.worker import Worker

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_RUN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600)
_CLAIM_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_BATCH_BUCKETS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

_OUTCOMES = {
    "complete": "completed",
    "fail": "failed",
    "snooze": "snoozed",
    "release": "released",
    "accept_cancel": "cancelled",
}


class Histogram:
    """Written by one thread only, like every counter here; hence no locks."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, *values: float) -> None:
        for value in values:
            self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += sum(values)

    def buckets(self) -> list[tuple[str, float]]:
        total, cumulative = 0, []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], list(self.counts), strict=True):
            total += count
            cumulative.append((bound, float(total)))
        return cumulative


class Metrics:
    def __init__(self) -> None:
        # The dispatcher's.
        self.claim_seconds = Histogram(_CLAIM_BUCKETS)
        self.claim_batch = Histogram(_BATCH_BUCKETS)
        self.claimed: Counter[str] = Counter()
        self.unknown_kinds: Counter[str] = Counter()
        # The keeper's.
        self.renewals: Counter[str] = Counter()
        self.progress_reports = 0
        # The settler's.
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        self.stale_answers: Counter[tuple[str, str, str]] = Counter()
        self.refused_answers: Counter[tuple[str, str, str]] = Counter()
        self.run_seconds: dict[tuple[str, str], Histogram] = {}
        # The waker's.
        self.notifications = 0
        self.ticks = 0

    def settled(self, jobs: Iterable[Job]) -> None:
        self.outcomes.update([(job.queue, job.kind, _OUTCOMES[job._verb]) for job in jobs])
        took: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        for job in jobs:
            if job._started is not None and job._ended is not None:
                took[job.queue, job.kind].append(job._ended - job._started)
        for key, seconds in took.items():
            if key not in self.run_seconds:
                self.run_seconds[key] = Histogram(_RUN_BUCKETS)
            self.run_seconds[key].observe(*seconds)

    def stale(self, job: Job) -> None:
        self.stale_answers[job.queue, job.kind, _OUTCOMES[job._verb]] += 1

    def refused(self, job: Job) -> None:
        self.refused_answers[job.queue, job.kind, _OUTCOMES[job._verb]] += 1


class _Worker(Collector):
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def collect(self) -> Iterable[Metric]:
        worker, metrics = self._worker, self._worker.metrics

        yield _gauge("rowlock_worker_slots", "Handlers that may run at once", worker.slots)
        yield _gauge(
            "rowlock_worker_busy_slots",
            "Claims held: running, or ended and not yet settled",
            len(worker.claims),
        )
        yield _gauge(
            "rowlock_worker_stuck_handlers",
            "Handlers given up on that still run",
            worker.stuck,
        )
        yield _gauge("rowlock_worker_draining", "1 while shutting down", int(worker.is_draining))

        covered = GaugeMetricFamily(
            "rowlock_worker_wakeup",
            "How new jobs are noticed: 1 for the present way",
            labels=["cover"],
        )
        for cover in ("covered", "uncovered", "polling"):
            covered.add_metric([cover], int(worker.cover == cover))
        yield covered

        yield _counter("rowlock_jobs_claimed", "Jobs claimed", ["queue"], metrics.claimed)
        yield _counter(
            "rowlock_unknown_kinds",
            "Jobs snoozed because no handler here knows their kind",
            ["kind"],
            metrics.unknown_kinds,
        )
        yield _histogram("rowlock_claim_seconds", "Time of a claim call", metrics.claim_seconds)
        yield _histogram("rowlock_claim_batch_size", "Jobs a claim returned", metrics.claim_batch)
        yield _counter(
            "rowlock_lease_renewals", "Leases renewed, by verdict", ["result"], metrics.renewals
        )
        yield _counter(
            "rowlock_progress_reports", "Progress sent", [], {"": metrics.progress_reports}
        )

        labels = ["queue", "kind", "outcome"]
        yield _counter("rowlock_outcomes", "Outcomes settled", labels, metrics.outcomes)
        yield _counter(
            "rowlock_stale_writes",
            "Outcomes the database refused, their claim being lost",
            labels,
            metrics.stale_answers,
        )
        yield _counter(
            "rowlock_refused_answers",
            "Outcomes that could not be stored",
            labels,
            metrics.refused_answers,
        )
        runs = HistogramMetricFamily(
            "rowlock_handler_seconds", "Time of a handler's run", labels=["queue", "kind"]
        )
        for key, histogram in list(metrics.run_seconds.items()):
            runs.add_metric(list(key), histogram.buckets(), histogram.sum)
        yield runs

        yield _counter(
            "rowlock_notifications", "Wake-ups received", [], {"": metrics.notifications}
        )
        yield _counter("rowlock_ticks", "Maintenance calls made", [], {"": metrics.ticks})
        yield _counter(
            "rowlock_connects",
            "Connections made",
            ["role"],
            {link.role: link.connects for link in worker.links},
        )
        yield _counter(
            "rowlock_loop_errors",
            "Errors that a background loop survived",
            ["loop"],
            {loop.name: loop.errors for loop in worker.loops},
        )


def registry(worker: Worker) -> CollectorRegistry:
    found = CollectorRegistry(auto_describe=False)
    found.register(_Worker(worker))
    return found


def render(of: CollectorRegistry) -> bytes:
    return generate_latest(of)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def _counter(
    name: str,
    help: str,
    labels: list[str],
    values: Counter[str] | Counter[tuple[str, str, str]] | dict[str, int],
) -> Metric:
    family = CounterMetricFamily(name, help, labels=labels)
    for key, value in list(values.items()):
        named = [] if not labels else [key] if isinstance(key, str) else list(key)
        family.add_metric(named, value)
    return family


def _histogram(name: str, help: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, help, buckets=histogram.buckets(), sum_value=histogram.sum)
