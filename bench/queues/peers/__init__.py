"""The peers: a folder each with what is pinned and the one program that uses it (`peer.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Kind:
    """What the bench must know of a peer; its name is its folder's, with hyphens."""

    language: Literal["node", "python"]
    needs: Literal["postgresql", "redis"]
    settings: str
    """In a line, for one process on 2 cores."""
    documented: str
    """Where its documentation asks for them."""
    drains: int = 50_000
    besides: str = ""
    """Which of E to K it can, with FULL=1: J it cannot, its worker keeps a list of what it did."""


KINDS = {
    "graphile_worker": Kind("node", "postgresql", "", "", besides="EFGHIK"),
    "pg_boss": Kind("node", "postgresql", "", "", besides="EFGHIK"),
    "bullmq": Kind("node", "redis", "", "", besides="FGIK"),
    "pgqueuer": Kind("python", "postgresql", "", "", besides="EFGHIK"),
    "procrastinate": Kind("python", "postgresql", "", "", drains=5_000, besides="EFGHIK"),
    "chancy": Kind("python", "postgresql", "", "", drains=5_000, besides="EFGHIK"),
    "celery": Kind("python", "redis", "", "", drains=5_000, besides="IK"),
    "dramatiq": Kind("python", "redis", "", "", drains=5_000, besides="IK"),
}
