"""Attacks on the dashboard as a server: raw requests, many at once, slow ones, forged log lines.

What jobs carry, roles, forms and sign-in are attacked in the files beside this one.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from urllib.parse import urlsplit

import pytest

from pyworker import logs
from pyworker.client import Client
from tests.support.cluster import Cluster, Database
from tests.support.processes import Dashboard
from tests.webui.conftest import Browser, Site
from webui import auth

THREADS = 4
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def served(cluster: Cluster) -> Iterator[Database]:
    database = cluster.create()
    yield database
    cluster.drop(database)


@pytest.fixture(scope="module")
def address(served: Database) -> Iterator[tuple[str, int]]:
    """Where a real dashboard with few threads listens."""
    server = Dashboard(served.url_as("queue_web"), "--threads", str(THREADS))
    parts = urlsplit(server.address)
    assert parts.hostname is not None
    assert parts.port is not None
    yield parts.hostname, parts.port
    server.close()


def ask(address: tuple[str, int], request: bytes) -> bytes:
    """What the server answers to these very bytes."""
    with socket.create_connection(address, timeout=20) as conn:
        answer = b""
        with suppress(ConnectionResetError, BrokenPipeError):  # not all was read
            conn.sendall(request)
            while part := conn.recv(65536):
                answer += part
    return answer


def get(address: tuple[str, int], path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{address[1]}", "Connection: close", *headers]
    return ask(address, "\r\n".join([*lines, "", ""]).encode("latin-1"))


# -- A12: many accounts from one address


def test_an_address_that_guesses_at_many_accounts_is_shut_out_alone(
    site: Site, nobody: Browser
) -> None:
    site.queue.create_account("ada", "viewer", auth.hash_password(PASSWORD))
    for number in range(50):
        site.queue.record_sign_in_failure(f"user-{number}", "192.0.2.7")
    form = {"account": "ada", "password": PASSWORD}
    shut_out = nobody.post("/sign-in", form, environ_overrides={"REMOTE_ADDR": "192.0.2.7"})
    assert shut_out.status_code == 429
    assert int(shut_out.headers.get("Retry-After", "60")) > 0
    assert "Set-Cookie" not in shut_out.headers
    spoofed = {"Origin": "http://localhost", "X-Forwarded-For": "192.0.2.8"}
    again = nobody.post(
        "/sign-in", form, headers=spoofed, environ_overrides={"REMOTE_ADDR": "192.0.2.7"}
    )
    assert again.status_code == 429
    other = nobody.post("/sign-in", form, environ_overrides={"REMOTE_ADDR": "192.0.2.8"})
    assert other.status_code == 303


# -- A41: headers and log lines


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/1%0d%0aSet-Cookie:%20rowlock=mine",
        "/sign-in?next=/%0d%0aSet-Cookie:%20rowlock=mine",
        "/queues/x%0d%0aSet-Cookie:%20rowlock=mine",
        "/jobs/export.csv%0d%0aSet-Cookie:%20rowlock=mine",
    ],
)
def test_no_address_adds_a_header(address: tuple[str, int], path: str) -> None:
    answer = get(address, path)
    head = answer.partition(b"\r\n\r\n")[0]
    assert answer.split(b" ")[1] in {b"200", b"303", b"400", b"404"}
    names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]]
    assert b"set-cookie" not in names


def test_a_request_id_is_not_echoed_into_the_headers(address: tuple[str, int]) -> None:
    head = get(address, "/sign-in", "X-Request-Id: a b\x1b[2J<script>").partition(b"\r\n\r\n")[0]
    assert b"\x1b" not in head
    assert b"<script>" not in head


def test_no_address_forges_a_line_of_the_log(
    site: Site, viewer: Browser, caplog: pytest.LogCaptureFixture
) -> None:
    job_id = site.fail()
    with caplog.at_level(logging.DEBUG):
        for tail in ("%0aERROR root is owned%0d", "%1b[2J", "%e2%80%ae", "%e2%80%a8", "%c2%85"):
            viewer.post(f"/queues/x{tail}/pause", {"reason": "x"})
            viewer.post(f"/jobs/{job_id}/retry", {"form_token": tail})
    lines = [logs.TextFormatter().format(record) for record in caplog.records]
    assert any("refused" in line for line in lines)
    for line in lines:
        assert not any(mark in line for mark in "\n\r\x1b\x85\u2028\u202e"), line


# -- A45: files


@pytest.mark.parametrize(
    "path",
    [
        "/static/../auth.py",
        "/static/../../../etc/passwd",
        "/static/%2e%2e/auth.py",
        "/static/..%2fauth.py",
        "/static/..%5cauth.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "//static/../auth.py",
        "/static/rowlock.css%00.py",
        "/static/",
    ],
)
def test_no_file_is_served_but_those_of_static(address: tuple[str, int], path: str) -> None:
    answer = get(address, path)
    assert answer.split(b" ")[1] in {b"400", b"404", b"303", b"308"}, answer[:300]
    assert b"root:" not in answer
    assert b"import annotations" not in answer


# -- A44: slow and many


def test_half_requests_do_not_keep_others_out(address: tuple[str, int]) -> None:
    with ExitStack() as opened:
        for number in range(60):
            conn = opened.enter_context(socket.create_connection(address, timeout=20))
            conn.sendall(b"GET /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"a" * number)
        began = time.monotonic()
        for _ in range(5):
            assert get(address, "/sign-in").split(b" ")[1] == b"200"
        assert time.monotonic() - began < 15


def test_many_at_once_share_the_connections_of_the_threads(
    address: tuple[str, int], served: Database
) -> None:
    conn = served.connect()
    client = Client(conn)
    client.create_account("ada", "viewer")
    cookie = f"Cookie: rowlock={client.start_session('ada')}"
    with ThreadPoolExecutor(40) as many:
        answers = list(many.map(lambda _: get(address, "/events?newer_than=0", cookie), range(80)))
    assert {answer.split(b" ")[1] for answer in answers} == {b"200"}
    sessions = conn.execute(
        "select count(*) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()",
        [served.name],
    ).fetchone()
    conn.close()
    # One a thread, one that asked at the start whether there is an account, one of the probes.
    assert sessions is not None
    assert 1 <= sessions[0] <= THREADS + 2


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET /sign-in HTTP/9.9",
        b"NONSENSE",
        b"GET http://evil.example/jobs HTTP/1.1",
        b"TRACE / HTTP/1.1",
        b"GET /" + b"a" * 300_000 + b" HTTP/1.1",
        b"POST /sign-in HTTP/1.1\r\nContent-Length: -1",
        b"POST /sign-in HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        b"POST /sign-in HTTP/1.1\r\nContent-Length: 99999999999",
    ],
)
def test_a_request_that_is_none_is_refused(address: tuple[str, int], request_line: bytes) -> None:
    answer = ask(
        address, request_line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n0\r\n\r\n"
    )
    status = int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 400
    assert status < 500 or status == 501, answer[:200]
    assert b"Traceback" not in answer
    assert get(address, "/sign-in").split(b" ")[1] == b"200", "and it goes on"
