"""Processes of any queue, which never outlive the bench."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

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


def start(
    command: Sequence[str], environment: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _LAUNCH, str(os.getpid()), *command],
        env={**os.environ, **environment},
        start_new_session=True,
        **options,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """By SIGTERM; then whatever it leaves behind is killed."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def said(output: IO[bytes]) -> str:
    output.seek(0)
    return shortened(output.read().decode(errors="replace"), 2000)


def shortened(text: str, most: int) -> str:
    """Its beginning and its end: some tools tell the reason first, tracebacks last."""
    text = text.strip()
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


@contextlib.contextmanager
def running(
    command: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[int] = (),
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A command that inherits `files`. It must live until it is ended here, by SIGTERM."""
    with tempfile.TemporaryFile() as output:
        process = start(
            command,
            environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=files,
        )
        by_itself: int | None = None
        try:
            yield process
        except Exception as error:
            error.add_note(said(output))
            raise
        finally:
            by_itself = process.poll()
            end(process)
            if by_itself is not None:
                name = Path(command[0]).name
                raise NotDoneOnceError(f"{name} ended by {by_itself}: {said(output)}")
