"""`rowlock` commands that run on, as real processes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from tests.support.servers import ROOT


def command(*words: str) -> list[str]:
    """`rowlock` of this environment, with arguments."""
    return [str(Path(sys.executable).with_name("rowlock")), *words]


class Process:
    """A `rowlock` command that runs on; its output is in a file."""

    def __init__(self, url: str, *words: str, **environment: str) -> None:
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed in `close`
        self.popen = subprocess.Popen(
            command(*words),
            cwd=ROOT,
            env={**os.environ, "ROWLOCK_DATABASE_URL": url, **environment},
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
        )

    @property
    def output(self) -> str:
        return os.pread(self._output.fileno(), 1 << 20, 0).decode(errors="replace")

    def kill(self) -> None:
        """As an accident would."""
        self.popen.kill()
        self.popen.wait()

    def close(self) -> None:
        self.popen.terminate()
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        self._output.close()


class Dashboard(Process):
    """`rowlock web` on a free port of 127.0.0.1."""

    def __init__(self, url: str, *words: str, **environment: str) -> None:
        super().__init__(url, "web", "--port", "0", *words, **environment)
        for _ in range(600):
            found = re.search(r"^dashboard: (\S+)/$", self.output, re.M)
            if found or self.popen.poll() is not None:
                break
            with suppress(subprocess.TimeoutExpired):
                self.popen.wait(0.05)
        if not found:
            self.popen.kill()
            raise AssertionError(f"rowlock web did not start: {self.output}")
        self.address = found[1]
