"""The embedded server: who it runs as, how long it lives, who may join it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pyworker import embedded
from tests.support import servers

FAST = {"fsync": "off"}

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's death signal")


@pytest.fixture(scope="module", autouse=True)
def temporary_directory() -> Iterator[Path]:
    """A temporary directory for this module and its processes, in memory where programs may run.

    The server's user can enter it, unlike pytest's own when root runs the tests.
    """
    memory = servers.memory()
    if memory is not None and os.statvfs(memory).f_flag & os.ST_NOEXEC:
        memory = None
    place = Path(tempfile.mkdtemp(prefix="rowlock-test-", dir=memory))
    place.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(place))
        patch.setenv("TMPDIR", str(place))
        yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="folder-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def ask(url: str, query: str) -> Any:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(query)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        if sys.platform == "linux":
            return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
        os.kill(pid, 0)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return True


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


STARTER = """
import json, sys, threading, time
from pathlib import Path
from pyworker import embedded

data_dir = Path(sys.argv[1]) if sys.argv[1] else None
server = embedded.start(data_dir, settings={"fsync": "off"})
print(json.dumps({
    "pid": server.pid, "url": server.url, "owned": server.owned,
    "directory": str(server.directory),
}), flush=True)
sys.stdin.read()
server.close()
"""


@contextmanager
def starter(data_dir: Path | None) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Another process that starts, or attaches to, a server, and keeps it until its stdin ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(data_dir or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


# -- a server of one's own -------------------------------------------------------------------------


def test_it_answers_on_a_private_socket_only() -> None:
    with embedded.start(settings=FAST) as server:
        assert ask(server.url, "show listen_addresses") == ""
        assert server.socket_dir is not None
        assert stat.S_IMODE(server.socket_dir.stat().st_mode) == 0o700
        assert server.socket_dir.stat().st_uid == server.data.stat().st_uid
        assert server.running
        assert server.owned


@as_root
def test_root_runs_it_as_another_user() -> None:
    with embedded.start(settings=FAST) as server:
        owner = Path(f"/proc/{server.pid}").stat().st_uid
        assert owner != 0
        assert server.data.stat().st_uid == owner
        assert server.directory.stat().st_uid == 0


@as_root
def test_another_user_runs_it_as_itself(folder: Path) -> None:
    python, bindir = Path("/usr/bin/python3"), Path("/usr/lib/postgresql/15/bin")
    if not python.exists() or not (bindir / "postgres").exists():
        pytest.skip("needs Debian's python3 and postgresql-15")
    shutil.copy(Path(embedded.__file__), folder / "embedded.py")
    code = textwrap.dedent("""
        import os, embedded
        from pathlib import Path
        with embedded.start(bindir=Path("/usr/lib/postgresql/15/bin")) as server:
            print(Path(f"/proc/{server.pid}").stat().st_uid == os.geteuid() != 0)
    """)
    done = subprocess.run(
        [python, "-c", code], user="nobody", group="nogroup", extra_groups=[], cwd=folder,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr


def test_settings_reach_it() -> None:
    wanted = FAST | {"shared_preload_libraries": "auto_explain", "max_prepared_transactions": "7"}
    with embedded.start(settings=wanted) as server:
        assert ask(server.url, "show shared_preload_libraries") == "auto_explain"
        assert ask(server.url, "show max_prepared_transactions") == "7"


def test_two_run_side_by_side() -> None:
    with embedded.start(settings=FAST) as one, embedded.start(settings=FAST) as other:
        ask(one.url, "create table here ()")
        assert ask(other.url, "select to_regclass('here')") is None
        assert one.pid != other.pid


def test_temporary_data_goes_with_it() -> None:
    with embedded.start(settings=FAST) as server:
        directory, pid = server.directory, server.pid
        assert directory.exists()
    assert not directory.exists()
    assert not alive(pid)


def test_named_data_stays(folder: Path) -> None:
    with embedded.start(folder / "db", settings=FAST) as server:
        ask(server.url, "create table kept ()")
    with embedded.start(folder / "db", settings=FAST) as server:
        assert ask(server.url, "select to_regclass('kept')::text") == "kept"


def test_a_path_too_long_for_a_socket_gets_one_elsewhere(folder: Path) -> None:
    with embedded.start(folder / ("d" * 100) / "db", settings=FAST) as server:
        assert ask(server.url, "select 1") == 1
        assert server.socket_dir is not None
        elsewhere = server.socket_dir.parent
        assert not elsewhere.is_relative_to(folder)
    assert not elsewhere.exists()


def test_a_prepared_cluster_is_copied(folder: Path) -> None:
    with embedded.start(folder / "db", settings=FAST) as server:
        ask(server.url, "create table prepared ()")
        with pytest.raises(embedded.EmbeddedError, match="in use"):
            embedded.start(template=server.data, settings=FAST)
    with embedded.start(template=folder / "db" / "pgdata", settings=FAST) as server:
        assert ask(server.url, "select to_regclass('prepared')::text") == "prepared"


# -- stopping, crashing, starting again ------------------------------------------------------------


def test_what_committed_survives_a_crash() -> None:
    with embedded.start(settings=FAST) as server:
        url, pid = server.url, server.pid
        ask(url, "create table kept ()")
        server.crash()
        assert not alive(pid)
        assert not server.running
        server.start()
        assert server.url == url
        assert ask(url, "select to_regclass('kept')::text") == "kept"
        assert "was not properly shut down" in server.log_tail()


def test_a_restart_keeps_the_url() -> None:
    with embedded.start(settings=FAST) as server:
        url, pid = server.url, server.pid
        server.restart()
        assert server.url == url
        assert server.pid != pid
        assert ask(url, "select 1") == 1


def test_a_server_killed_by_someone_else_is_noticed_and_can_be_started_again() -> None:
    with embedded.start(settings=FAST) as server:
        os.kill(server.pid, signal.SIGQUIT)
        assert eventually(lambda: not server.running)
        server.start()
        assert ask(server.url, "select 1") == 1


def test_a_thread_that_starts_it_may_end() -> None:
    servers: list[embedded.Server] = []
    thread = threading.Thread(target=lambda: servers.append(embedded.start(settings=FAST)))
    thread.start()
    thread.join()
    with servers[0] as server:
        time.sleep(0.3)
        assert ask(server.url, "select 1") == 1


def test_ctrl_c_is_not_for_it() -> None:
    with embedded.start(settings=FAST) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with pytest.raises(embedded.EmbeddedError, match="no_such_library") as caught:
        embedded.start(settings={"shared_preload_libraries": "no_such_library"})
    assert "the server ended at once" in str(caught.value)
    assert not list(folder.glob("rowlock-pg-*"))


def test_binaries_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(embedded.EmbeddedError, match=str(tmp_path)):
        embedded.start(bindir=tmp_path)
    with pytest.raises(embedded.EmbeddedError, match="PostgreSQL 9"):
        embedded.find_bindir(9)


def test_a_cluster_of_another_version_is_refused(folder: Path) -> None:
    with embedded.start(folder / "db", settings=FAST) as server:
        version = server.data / "PG_VERSION"
    version.write_text("9\n")
    with pytest.raises(embedded.EmbeddedError, match="cluster of PostgreSQL 9"):
        embedded.start(folder / "db")


# -- nothing is left behind ------------------------------------------------------------------------


@on_linux
@pytest.mark.parametrize("named", [False, True])
def test_kill_9_of_the_starter_stops_it(named: bool, folder: Path) -> None:
    with starter(folder / "db" if named else None) as (process, server):
        assert ask(server["url"], "select 1") == 1
        process.kill()
        process.wait()
        assert eventually(lambda: not alive(server["pid"]))
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server["url"])
        shutil.rmtree(server["directory"])


@on_linux
def test_after_kill_9_the_next_start_finds_the_data(folder: Path) -> None:
    with starter(folder / "db") as (process, server):
        ask(server["url"], "create table kept ()")
        process.kill()
        process.wait()
        with embedded.start(folder / "db", settings=FAST) as again:
            assert again.owned
            assert ask(again.url, "select to_regclass('kept')::text") == "kept"
            assert not alive(server["pid"])


@on_linux
def test_the_next_temporary_server_sweeps_up_after_a_killed_one() -> None:
    with starter(None) as (process, server):
        process.kill()
        process.wait()
    directory = Path(server["directory"])
    with embedded.start(settings=FAST):
        assert directory.exists(), "young directories are left alone"
    os.utime(directory, (time.time() - 3600,) * 2)
    with embedded.start(settings=FAST):
        assert not directory.exists()


def test_a_running_one_is_not_swept_up() -> None:
    with embedded.start(settings=FAST) as server:
        os.utime(server.directory, (time.time() - 3600,) * 2)
        with embedded.start(settings=FAST):
            assert ask(server.url, "select 1") == 1


def test_a_server_left_over_is_stopped_first(folder: Path) -> None:
    """As on systems without a death signal, where `kill -9` leaves the server running."""
    with embedded.start(folder / "db", settings=FAST) as server:
        bindir = embedded.reachable_bindir(embedded.find_bindir(), embedded.ServerUser.choose())
        log = server.data / "orphan.log"
    command = [str(bindir / "pg_ctl"), "start", "-w", "-D", str(server.data), "-l", str(log)]
    command += ["-o", f"-c listen_addresses='' -k {server.directory}/s"]
    assert embedded.ServerUser.choose().run(command).returncode == 0
    orphan = int((server.data / "postmaster.pid").read_text().splitlines()[0])
    assert alive(orphan)
    with embedded.start(folder / "db", settings=FAST) as again:
        assert eventually(lambda: not alive(orphan))
        assert ask(again.url, "select 1") == 1


# -- sharing ---------------------------------------------------------------------------------------


def test_a_second_process_attaches_and_leaves_it_running(folder: Path) -> None:
    with embedded.start(folder / "db", settings=FAST) as server:
        with starter(folder / "db") as (_, other):
            assert other["pid"] == server.pid
            assert other["url"] == server.url
            assert other["owned"] is False
            assert ask(other["url"], "select 1") == 1
        assert ask(server.url, "select 1") == 1


def test_only_its_starter_can_stop_it(folder: Path) -> None:
    with starter(folder / "db") as (_, server):
        joined = embedded.attach(folder / "db")
        assert joined is not None
        assert joined.running
        with pytest.raises(embedded.EmbeddedError, match="process that"):
            joined.crash()
        joined.stop()
        joined.close()
        assert ask(server["url"], "select 1") == 1


def test_nothing_to_attach_to(folder: Path) -> None:
    assert embedded.attach(folder / "db") is None
    with embedded.start(folder / "db", settings=FAST):
        pass
    assert embedded.attach(folder / "db") is None


def test_processes_that_start_at_once_share_one_server(folder: Path) -> None:
    with (
        starter(folder / "db") as (_, one),
        starter(folder / "db") as (_, two),
        starter(folder / "db") as (_, three),
    ):
        assert one["pid"] == two["pid"] == three["pid"]
        assert [one["owned"], two["owned"], three["owned"]].count(True) == 1


# -- behind closed folders -------------------------------------------------------------------------


@as_root
def test_binaries_behind_a_closed_folder_are_copied_aside(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    package = embedded.find_bindir().parent.parent
    shutil.copytree(package, closed / package.name, symlinks=True)
    libraries = package.with_name(package.name + ".libs")
    shutil.copytree(libraries, closed / libraries.name)
    bindir = closed / package.name / "pginstall" / "bin"
    with embedded.start(bindir=bindir, settings=FAST) as server:
        assert ask(server.url, "select 1") == 1
        copy = Path(f"/proc/{server.pid}/exe").readlink().parents[3]
        assert not copy.is_relative_to(folder)
        with embedded.start(bindir=bindir, settings=FAST) as other:
            assert Path(f"/proc/{other.pid}/exe").readlink().is_relative_to(copy), "copied once"
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    shutil.rmtree(copy)


@as_root
def test_data_behind_a_closed_folder_is_refused_in_plain_words(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(embedded.EmbeddedError, match="cannot enter"):
        embedded.start(closed / "db")
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
