"""What clients were told, on disk, so that the database can be held to it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any


class Ledger:
    """JSON lines; each is in the file before the call returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()
        self.lines: list[dict[str, Any]] = []

    def write(self, what: str, **fields: Any) -> None:
        line = {"at": time.time(), "what": what, **fields}
        with self._lock:
            self.lines.append(line)
            self._file.write(json.dumps(line) + "\n")

    def all(self, what: str) -> list[dict[str, Any]]:
        with self._lock:
            return [line for line in self.lines if line["what"] == what]

    def close(self) -> None:
        self._file.close()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file whose writer may have been killed in the middle of one."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found
