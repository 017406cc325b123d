"""The examples, as a reader would run them, each on a database of its own."""

from __future__ import annotations

import email
import email.policy
import importlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from PIL import Image, ImageStat
from psycopg.conninfo import conninfo_to_dict

from pyworker import Client, embedded
from pyworker.client import Job

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"

Connection = psycopg.Connection[Any]


def with_psql() -> dict[str, str]:
    """The environment, with a psql for where none is installed."""
    path = os.pathsep.join([os.environ["PATH"], str(embedded.find_bindir())])
    return {**os.environ, "PATH": path}


def surroundings(url: str, **more: str) -> dict[str, str]:
    """The environment with libpq's variables for a database."""
    place = conninfo_to_dict(url)
    names = {"PGDATABASE": "dbname", "PGHOST": "host", "PGPORT": "port", "PGUSER": "user"}
    found = {name: str(place[key]) for name, key in names.items() if place.get(key)}
    if place.get("password"):
        found["PGPASSWORD"] = str(place["password"])
    return {**with_psql(), **found, **more}


def jobs_of(conn: Connection, queue: str) -> list[Job]:
    """In the order they were made."""
    client = Client(conn)
    listed = client.list_jobs({"queue": queue}, max_jobs=200).rows
    return [client.get_job(job.id) for job in reversed(listed)]


def events_of(conn: Connection, job_id: int) -> list[str]:
    return [event.event for event in Client(conn).list_events(job_id).rows]


def eventually(condition: Callable[[], bool], seconds: float = 20) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


# -- psql ------------------------------------------------------------------------------------------


def worker_sh(url: str, *arguments: str, handlers: Path | None = None) -> subprocess.Popen[str]:
    more = {} if handlers is None else {"HANDLERS": str(handlers)}
    return subprocess.Popen(
        [str(EXAMPLES / "psql" / "worker.sh"), *arguments],
        env=surroundings(url, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def handler(folder: Path, kind: str, script: str) -> None:
    path = folder / kind
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_the_psql_tour_shows_every_way_a_job_can_go(url: str, conn: Connection) -> None:
    done = subprocess.run(
        [str(EXAMPLES / "psql" / "tour.sh")],
        env=surroundings(url),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR:  RL409" in done.stdout
    (queue,) = {job.queue for job in Client(conn).list_jobs().rows}
    assert [(job.kind, job.label, job.attempt, job.result) for job in jobs_of(conn, queue)] == [
        ("text.count", "succeeded", 1, {"words": 6}),
        ("text.count", "scheduled", 0, None),
        ("text.count", "succeeded", 3, {"words": 3}),
        ("text.count", "cancelled", 1, None),
        ("text.always-fails", "dead", 1, None),
        ("text.count", "succeeded", 1, {"words": 3}),
    ]
    told = {event.event for event in Client(conn).list_events(max_events=1000).rows}
    assert told == {
        "enqueued", "claimed", "progressed", "succeeded", "retry_scheduled", "made_due", "failed",
        "lease_expired", "retried", "cancelled", "cancel_requested",
    }  # fmt: skip


def test_a_worker_in_shell_gives_its_job_back_when_told_to_end(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    handler(tmp_path, "text.slow", f"touch {tmp_path}/begun; exec sleep 60")
    job_id = Client(conn).enqueue("text.slow").job_id

    worker = worker_sh(url, handlers=tmp_path)
    assert eventually((tmp_path / "begun").exists)
    worker.terminate()

    assert worker.wait(10) == 0
    assert events_of(conn, job_id) == ["enqueued", "claimed", "released"]


def test_a_worker_in_shell_takes_the_answer_of_a_handler_that_ends_in_time(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    last_words = r"kill $!; sleep 0.3; echo \"done\"; exit 0"
    script = f"trap '{last_words}' TERM\ntouch {tmp_path}/begun\nsleep 60 & wait"
    handler(tmp_path, "text.slow", script)
    job_id = Client(conn).enqueue("text.slow").job_id

    worker = worker_sh(url, handlers=tmp_path)
    assert eventually((tmp_path / "begun").exists)
    worker.terminate()

    assert worker.wait(10) == 0
    job = Client(conn).get_job(job_id)
    assert (job.status, job.result) == ("succeeded", "done")


def test_a_worker_in_shell_renews_and_heeds_a_cancel(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    handler(tmp_path, "text.slow", f"touch {tmp_path}/begun; exec sleep 60")
    client = Client(conn)
    job_id = client.enqueue("text.slow").job_id
    conn.execute("update queue.jobs set lease = '2 s'")

    worker = worker_sh(url, "default", "--burst", handlers=tmp_path)
    assert eventually((tmp_path / "begun").exists)
    first = client.get_job(job_id).lease_expires_at
    assert eventually(lambda: client.get_job(job_id).lease_expires_at != first)
    client.cancel(job_id)

    assert worker.wait(20) == 0
    assert client.get_job(job_id).status == "cancelled"


def test_a_worker_in_shell_fails_what_is_not_json_and_quotes_what_it_is_told(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    handler(tmp_path, "text.echo", "cat")
    handler(tmp_path, "text.babble", "echo no JSON")
    handler(tmp_path, "text.groan", "echo \"it's :'quoted' \\$1\" >&2; exit 9")
    client = Client(conn)
    payload = {"text": "a 'quote', a \"quote\",\ta tab,\na line and a \\ :'result'"}
    for kind in ("text.echo", "text.babble", "text.groan", "text.unknown"):
        client.enqueue(kind, payload, max_attempts=1)

    worker = worker_sh(url, "default", "--burst", handlers=tmp_path)

    assert worker.wait(20) == 0
    echo, babble, groan, unknown = jobs_of(conn, "default")
    assert (echo.status, echo.result) == ("succeeded", payload)
    assert (babble.status, babble.error_type) == ("failed", "ResultInvalid")
    assert (groan.status, groan.error_type) == ("failed", "ExitStatus9")
    assert groan.error_message == "it's :'quoted' $1"
    assert (unknown.status, unknown.attempt) == ("queued", 0)


# -- node ------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def node() -> str:
    """The folder of the example, with its packages installed."""
    missing = [name for name in ("node", "npm") if shutil.which(name) is None]
    if missing:
        reason = f"examples/node: no {' and no '.join(missing)} here"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = EXAMPLES / "node"
    subprocess.run(
        ["npm", "install", "--silent"],
        cwd=folder,
        check=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    return str(folder)


@contextmanager
def node_worker(node: str, url: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    worker = subprocess.Popen(
        ["node", "worker.mjs"],
        cwd=node,
        env=surroundings(url, **more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield worker
    finally:
        worker.kill()
        worker.communicate()


def test_the_node_worker_has_60_lines() -> None:
    lines = (EXAMPLES / "node" / "worker.mjs").read_text().splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


def test_the_node_worker_completes_fails_snoozes_and_renews(
    node: str, url: str, conn: Connection
) -> None:
    client = Client(conn)
    client.enqueue("text.digest", {"text": "abc"})
    client.enqueue("text.refuse", {"why": "not today"}, max_attempts=1)
    client.enqueue("text.unknown")
    renewed = client.enqueue("text.slowly", {"seconds": 2.5}).job_id
    conn.execute("update queue.jobs set lease = '1 s' where kind = 'text.slowly'")

    with node_worker(node, url, SLOTS="2"):
        assert eventually(lambda: client.get_job(renewed).status == "running")
        lease = client.get_job(renewed).lease_expires_at
        assert eventually(lambda: client.get_job(renewed).lease_expires_at not in (lease, None))
        assert eventually(
            lambda: (
                [job.status for job in jobs_of(conn, "default")]
                == ["succeeded", "failed", "queued", "succeeded"]
            )
        )

    digest, refuse, unknown, slowly = jobs_of(conn, "default")
    assert digest.result == {
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    }
    assert (refuse.error_type, refuse.error_message) == ("RangeError", "not today")
    assert events_of(conn, unknown.id) == ["enqueued", "claimed", "snoozed"]
    assert slowly.progress == 100
    assert events_of(conn, slowly.id).count("claimed") == 1


def test_the_node_worker_heeds_a_cancel_and_gives_back_at_its_end(
    node: str, url: str, conn: Connection
) -> None:
    client = Client(conn)
    stopped = client.enqueue("text.slowly", {"seconds": 60}).job_id
    conn.execute("update queue.jobs set lease = '1 s'")
    with node_worker(node, url) as worker:
        assert eventually(lambda: client.get_job(stopped).status == "running")
        client.cancel(stopped)
        assert eventually(lambda: client.get_job(stopped).status == "cancelled")
        given_back = client.enqueue("text.slowly", {"seconds": 60}).job_id
        assert eventually(lambda: client.get_job(given_back).status == "running")
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(20) == 0
    assert events_of(conn, given_back) == ["enqueued", "claimed", "released"]


def test_an_answer_of_the_node_worker_that_comes_too_late_is_refused(
    node: str, url: str, conn: Connection
) -> None:
    client = Client(conn)
    job_id = client.enqueue("text.slowly", {"seconds": 1}).job_id
    conn.execute("update queue.jobs set lease = '1 s'")
    with node_worker(node, url) as worker:
        assert eventually(lambda: client.get_job(job_id).status == "running")
        worker.send_signal(signal.SIGSTOP)
        assert eventually(lambda: client.reap().requeued == 1)
        client.run_now(job_id)
        (claim,) = client.claim("another")
        worker.send_signal(signal.SIGCONT)
        assert worker.stdout is not None
        assert f"job {job_id} (text.slowly, attempt 1): lost" in worker.stdout.readline()

    client.complete(job_id, claim.fence, {"by": "another"})
    assert client.get_job(job_id).result == {"by": "another"}


# -- shop ------------------------------------------------------------------------------------------


class Post:
    """A mail server that keeps what it gets; `turn_away` are answers it gives before it does."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.turn_away: list[str] = []

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.turn_away:
            return self.turn_away.pop(0)
        assert isinstance(envelope.content, bytes)
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 OK"


@pytest.fixture
def post() -> Iterator[tuple[Post, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    post = Post()
    controller = Controller(post, hostname="127.0.0.1", port=port)
    controller.start()
    yield post, port
    controller.stop()


@pytest.fixture
def shop(
    url: str, conn: Connection, post: tuple[Post, int], monkeypatch: pytest.MonkeyPatch
) -> ModuleType:
    """The shop's module, with its tables in the database and the mail server beside it."""
    monkeypatch.syspath_prepend(str(EXAMPLES / "shop"))
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", url)
    monkeypatch.setenv("SMTP_PORT", str(post[1]))
    monkeypatch.setenv("SMTP_RETRY_IN", "0.1s")
    conn.execute((EXAMPLES / "shop" / "schema.sql").read_text())
    return importlib.import_module("shop")


def work(url: str) -> None:
    """A worker process of the shop, until nothing is due."""
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from pyworker.cli import main; main()", "worker"),
            *("--app", "shop:app", "-q", "mail", "-q", "photos", "-t", "4", "--burst"),
        ],
        cwd=EXAMPLES / "shop",
        env={**os.environ, "ROWLOCK_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def drawn(folder: Path, *numbers: int) -> list[Path]:
    photos = importlib.import_module("photos")
    return [photos.draw(folder / f"{number}.jpg", number, (800, 600)) for number in numbers]


def test_an_order_and_its_jobs_commit_together_or_not_at_all(
    shop: ModuleType, url: str, conn: Connection, tmp_path: Path
) -> None:
    with psycopg.connect(url) as buyer:
        shop.place_order(buyer, "bob@customer.example", drawn(tmp_path, 1))
        assert Client(conn).list_jobs().rows == []
        buyer.rollback()
    assert conn.execute("select from shop.orders").fetchall() == []
    assert Client(conn).list_jobs().rows == []

    with psycopg.connect(url) as buyer:
        shop.place_order(buyer, "ada@customer.example", drawn(tmp_path, 1))
    assert len(conn.execute("select from shop.orders").fetchall()) == 1
    assert [job.kind for job in Client(conn).list_jobs().rows] == ["mail.send", "photo.thumbnail"]


def test_the_shop_makes_thumbnails_and_sends_mails(
    shop: ModuleType, url: str, conn: Connection, post: tuple[Post, int], tmp_path: Path
) -> None:
    originals = drawn(tmp_path, 1, 2, 3)
    order_id = shop.place_order(conn, "ada@customer.example", originals)

    work(url)

    for original in originals:
        with (
            Image.open(original) as whole,
            Image.open(original.with_name(f"{original.stem}.thumbnail.jpg")) as small,
        ):
            assert (small.format, small.size) == ("JPEG", (200, 150))
            pairs = zip(ImageStat.Stat(whole).mean, ImageStat.Stat(small).mean, strict=True)
            assert all(abs(one - other) < 3 for one, other in pairs)
    received, ready = post[0].mails
    assert received["To"] == ready["To"] == "ada@customer.example"
    assert received["Subject"] == f"We have your order {order_id}"
    assert ready["Message-ID"] == f"<order-{order_id}-ready@shop.example>"
    assert [part.get_filename() for part in ready.iter_attachments()] == [
        "1.thumbnail.jpg", "2.thumbnail.jpg", "3.thumbnail.jpg"
    ]  # fmt: skip
    assert {job.status for job in jobs_of(conn, "photos") + jobs_of(conn, "mail")} == {"succeeded"}


def test_a_mail_server_that_is_busy_is_asked_again(
    shop: ModuleType, url: str, conn: Connection, post: tuple[Post, int]
) -> None:
    post[0].turn_away = ["451 busy"]
    shop.place_order(conn, "ada@customer.example", [])
    work(url)
    time.sleep(0.2)
    work(url)

    (job,) = jobs_of(conn, "mail")
    assert (job.status, job.attempt, len(post[0].mails)) == ("succeeded", 2, 1)
    assert "retry_scheduled" in events_of(conn, job.id)


def test_what_cannot_succeed_is_not_tried_again(
    shop: ModuleType, url: str, conn: Connection, post: tuple[Post, int], tmp_path: Path
) -> None:
    post[0].turn_away = ["554 no such customer"]
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"this is no image")
    shop.place_order(conn, "ada@customer.example", [broken])

    work(url)

    (photo,) = jobs_of(conn, "photos")
    (mail,) = jobs_of(conn, "mail")
    assert (photo.status, photo.attempt) == ("failed", 1)
    assert photo.error_type == "UnidentifiedImageError"
    assert (mail.status, mail.attempt, mail.error_type) == ("failed", 1, "SMTPDataError")


def test_a_job_of_the_shop_that_runs_twice_does_its_work_once(
    shop: ModuleType, url: str, conn: Connection, post: tuple[Post, int], tmp_path: Path
) -> None:
    (photo,) = drawn(tmp_path, 4)
    shop.place_order(conn, "ada@customer.example", [photo])
    work(url)
    first = [job.payload for job in jobs_of(conn, "photos") + jobs_of(conn, "mail")]
    for queue, kind in (("photos", "photo.thumbnail"), ("mail", "mail.send")):
        for job in jobs_of(conn, queue):
            Client(conn).enqueue(kind, job.payload, queue=queue)
    work(url)

    again = jobs_of(conn, "photos") + jobs_of(conn, "mail")
    assert len(again) == 2 * len(first)
    assert {job.status for job in again} == {"succeeded"}
    assert len(post[0].mails) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4.jpg", "4.thumbnail.jpg"]


def test_the_shop_runs_from_one_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "shop" / "run.py"), str(tmp_path)],
        env={name: value for name, value in os.environ.items() if not name.startswith("SMTP_")},
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "mails sent: ready, received" in done.stdout
    assert len(list((tmp_path / "mail" / "new").iterdir())) == 2
