"""A queue that is not ours: its packages in a place of their own, driven by its own program.

The program, in the folder `peers/<name>`, is `peer.mjs` or `peer.py`. `install` puts the tables
into an empty database, `work` is a worker process, and `drive` answers requests, a line of JSON
each. It finds the URL in BENCH_URL, the folder of a worker's record in BENCH_RECORD, and the file
descriptor of noted jobs in BENCH_NOTES.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from bench.queues import peers, process
from bench.queues.contract import Contender, patience

_PLACE = Path(__file__).parents[2] / ".cache" / "bench"
_SOURCES = Path(__file__).parent / "peers"
_PINNED = ("package.json", "package-lock.json", "requirements.txt")

_PATIENCE = 300.0
"""Seconds for an installation."""


class PeerError(Exception):
    """A peer could not be installed, or its program did not do what was asked."""


class Program:
    """A peer's program, beside the packages that it imports."""

    def __init__(self, folder: str, language: str) -> None:
        self._source = _SOURCES / folder
        self.place = _PLACE / folder
        self._language = language

    def prepare(self) -> str:
        """Installs what is pinned, once; the version of the peer."""
        if not self._source.is_dir():
            raise PeerError(f"there is no {self._source}")
        shutil.copytree(self._source, self.place, dirs_exist_ok=True)
        pinned = [path for name in _PINNED if (path := self._source / name).exists()]
        state = hashlib.sha256(b"".join(path.read_bytes() for path in pinned)).hexdigest()
        stamp = self.place / "installed"
        if not stamp.exists() or stamp.read_text() != state:
            stamp.unlink(missing_ok=True)
            self._install()
            stamp.write_text(state)
        return self._version()

    def _install(self) -> None:
        if self._language == "node":
            npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            _call(npm, self.place)
        else:
            _call([sys.executable, "-m", "venv", "--clear", "venv"], self.place)
            pip = ["venv/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
            _call([*pip, "-r", "requirements.txt"], self.place)

    def _version(self) -> str:
        name = self._source.name.replace("_", "-")
        if self._language == "node":
            told = json.loads((self._source / "package.json").read_text())
            return str(told["dependencies"][name])
        lines = (self._source / "requirements.txt").read_text()
        found = re.search(rf"^{name}(?:\[.*\])?==(\S+)", lines, re.M | re.I)
        if found is None:
            raise PeerError(f"requirements.txt does not pin {name}")
        return found[1]

    def command(self, verb: str) -> list[str]:
        if self._language == "node":
            own = self.place / "node_modules" / ".bin" / "node"
            return [str(own) if own.exists() else "node", str(self.place / "peer.mjs"), verb]
        return [str(self.place / "venv" / "bin" / "python"), str(self.place / "peer.py"), verb]

    def install_tables(self, url: str) -> None:
        _call(self.command("install"), self.place, {"BENCH_URL": url})


def _call(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PeerError(str(exc)) from exc
    if ended.returncode != 0:
        said = process.shortened(ended.stdout, 2000)
        raise PeerError(f"{Path(command[0]).name} ended by {ended.returncode}: {said}")


class Peer:
    """A peer in a database; its program is asked over a pipe."""

    def __init__(self, program: Program, url: str) -> None:
        self._program = program
        self._environment = {"BENCH_URL": url, "BENCH_NOTES": "-1"}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = process.start(
            program.command("drive"),
            self._environment,
            cwd=program.place,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def _ask(self, look: Callable[[], object] | None = None, **request: Any) -> dict[str, Any]:
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        with contextlib.suppress(BrokenPipeError):
            pipe.write(json.dumps(request).encode() + b"\n")
            pipe.flush()
        look = look or patience()
        # One answer a request: nothing was read ahead.
        while not select.select([answers], [], [], 0.5)[0]:
            look()
        line = answers.readline()
        if not line:
            raise PeerError(f"its program ended: {process.said(self._errors)}")
        told: dict[str, Any] = json.loads(line)
        if "error" in told:
            raise PeerError(str(told["error"]))
        return told

    def enqueue_singly(self, number: int) -> float:
        return float(self._ask(call="enqueue", number=number, handler="nothing")["seconds"])

    def enqueue(self, *, noted: bool = False) -> int:
        handler = "note" if noted else "nothing"
        return int(self._ask(call="enqueue", number=1, handler=handler)["at"])

    def enqueue_bulk(self, number: int, size: int = 0) -> float:
        return float(self._ask(call="bulk", number=number, bytes=size)["seconds"])

    def worker(
        self, notes: int | None = None, record: Path | None = None
    ) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return process.running(
            self._program.command("work"),
            self._environment
            | {"BENCH_NOTES": str(-1 if notes is None else notes)}
            | ({"BENCH_RECORD": str(record)} if record else {}),
            [] if notes is None else [notes],
            self._program.place,
        )

    def await_drained(self, number: int, look: Callable[[], object]) -> int:
        return int(self._ask(look, call="drained")["at"])

    def add_finished(self, number: int) -> None:
        self._ask(call="add_finished", number=number)

    def add_later(self, number: int) -> None:
        self._ask(call="add_later", number=number)

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        process.end(self._process)
        self._errors.close()


def contender(folder: str, kind: peers.Kind) -> Contender:
    program = Program(folder, kind.language)
    return Contender(
        name=folder.replace("_", "-"),
        open=partial(Peer, program),
        install=program.install_tables,
        prepare=program.prepare,
        needs=kind.needs,
        drains=kind.drains,
        besides=kind.besides,
    )


PEERS = [contender(folder, kind) for folder, kind in peers.KINDS.items()]
