"""What the tables are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path


def percentile(values: Sequence[float], fraction: float) -> float:
    """The value that so many of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * fraction) - 1]


def cpu_of(pids: Iterable[int]) -> float:
    """Milliseconds that processes have run so far; zero where the system does not tell."""
    spent = 0
    for pid in pids:
        told = Path(f"/proc/{pid}/schedstat")
        if told.exists():
            spent += int(told.read_text().split()[0])
    return spent / 1e6
