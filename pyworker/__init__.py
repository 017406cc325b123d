"""Rowlock's Python shell: declare kinds of job, enqueue them, run them."""

from importlib import metadata

from pyworker import errors
from pyworker.app import App, Handler
from pyworker.client import Client, Enqueued, NewJob, connect
from pyworker.job import (
    Cancel,
    Cancelled,
    Fail,
    Job,
    Retry,
    ShuttingDown,
    Snooze,
    Stopped,
    TimedOut,
    current_job,
)
from pyworker.payloads import PayloadInvalid
from pyworker.worker import Worker

try:
    __version__ = metadata.version("rowlock")
except metadata.PackageNotFoundError:
    __version__ = "0+unknown"

__all__ = [
    "App",
    "Cancel",
    "Cancelled",
    "Client",
    "Enqueued",
    "Fail",
    "Handler",
    "Job",
    "NewJob",
    "PayloadInvalid",
    "Retry",
    "ShuttingDown",
    "Snooze",
    "Stopped",
    "TimedOut",
    "Worker",
    "connect",
    "current_job",
    "errors",
]
