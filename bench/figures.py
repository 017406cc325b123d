"""What the tables are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal


def percentile(values: Sequence[float], fraction: float) -> float:
    """The value that so many of the values do not exceed."""
    return sorted(values)[math.ceil(len(values) * fraction) - 1]


def cpu_of(pids: Iterable[int]) -> float:
    """Milliseconds that processes have run so far; zero where the system does not tell."""
    spent = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            spent += int(thread.read_text().split()[0])
    return spent / 1e6


def memory_of(pid: int, kind: Literal["Rss", "Pss"]) -> float:
    """Megabytes that a process and those it started hold; with Pss its part of what is shared."""
    kilobytes = 0
    for each in [pid, *_descendants(pid)]:
        for line in Path(f"/proc/{each}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{kind}:"):
                kilobytes += int(line.split()[1])
    return kilobytes / 1000


def _descendants(pid: int) -> list[int]:
    told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for text in told for child in text.split()]
    return [each for child in children for each in (child, *_descendants(child))]
