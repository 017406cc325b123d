"""The Redis that some peers need: the bench's own, as durable as their documentation asks for."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.queues import process

DURABLE = {"appendonly": "yes", "appendfsync": "everysec"}
_SETTINGS = {**DURABLE, "save": "", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}


class Redis:
    """A server on a port of its own; a database is one of its 16, empty when it is given out."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="rowlock-bench-redis-")
        program = self._program()
        with socket.create_server(("127.0.0.1", 0)) as found:
            self._port = found.getsockname()[1]
        settings = _SETTINGS | {"port": str(self._port), "dir": self._directory.name}
        self._process = process.start(
            [program, *(word for name, value in settings.items() for word in (f"--{name}", value))],
            {},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._free = list(range(16))
        self._taken: dict[str, int] = {}
        for _ in range(100):
            try:
                self._say("PING")
                break
            except OSError:
                time.sleep(0.1)
        found_version = self._say("INFO server").partition("redis_version:")[2]
        self.version = found_version.split()[0]

    def _program(self) -> str:
        found = shutil.which("redis-server")
        if found is not None:
            return found
        # Debian's redis-tools has the program too, under a name that has it check a file.
        checker = shutil.which("redis-check-rdb")
        if checker is None:
            raise FileNotFoundError("no redis-server here (Debian: apt-get install redis-tools)")
        program = Path(self._directory.name, "redis-server")
        program.symlink_to(checker)
        return str(program)

    def _say(self, *commands: str) -> str:
        """The answer to the last of these commands, all in one piece."""
        with socket.create_connection(("127.0.0.1", self._port), 10) as conn:
            for command in commands:
                conn.sendall(command.encode() + b"\r\n")
                answer = conn.recv(65536)
        return answer.decode()

    def create_template(self, name: str, install: Callable[[str], object]) -> None:
        """Nothing: there are no tables to put in."""

    def create(self, name: str, template: str) -> str:
        self._taken[name] = self._free.pop(0)
        return f"redis://127.0.0.1:{self._port}/{self._taken[name]}"

    def drop(self, name: str) -> None:
        number = self._taken.pop(name)
        self._say(f"SELECT {number}", "FLUSHDB")
        self._free.append(number)

    def checkpoint(self) -> None:
        """Nothing: the file is appended to all the time."""

    def close(self) -> None:
        process.end(self._process)
        self._directory.cleanup()
