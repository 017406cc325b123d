"""A worker process of any queue, which never outlives the bench."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from bench.queues.contract import NotDoneOnceError

_GRACE = 30.0

# Asks for the kernel's help, then becomes the command: it dies with whoever started it.
_LAUNCH = """
import ctypes, os, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)
if os.getppid() != int(parent):
    sys.exit("the starting process is gone")
os.execvp(command[0], command)
"""


@contextlib.contextmanager
def running(
    command: Sequence[str], environment: Mapping[str, str], files: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that inherits `files`. It must live until it is ended here, by SIGTERM."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(os.getpid()), *command],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=files,
        )
        try:
            yield process
            if process.poll() is not None:
                output.seek(0)
                said = output.read()[-2000:].decode(errors="replace")
                raise NotDoneOnceError(f"{command[0]} ended by {process.returncode}: {said}")
        finally:
            process.terminate()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
