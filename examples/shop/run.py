"""The shop from end to end: `python examples/shop/run.py [FOLDER]`.

Uses ROWLOCK_DATABASE_URL or DATABASE_URL, else a PostgreSQL of its own that goes when it ends; and
SMTP_HOST and SMTP_PORT, else a mail server of its own that keeps what it gets in FOLDER/mail.
Needs Pillow and, for the mail server, aiosmtpd: `pip install -e '.[test]'` has both.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from pyworker import Worker, deploy, embedded

sys.path.insert(0, str(Path(__file__).parent))

import photos
import shop


class CardRefusedError(Exception):
    """The customer's card was refused."""


def main(folder: Path) -> int:
    with ExitStack() as stack:
        if not (os.environ.get("ROWLOCK_DATABASE_URL") or os.environ.get("DATABASE_URL")):
            server = stack.enter_context(embedded.start())
            os.environ["ROWLOCK_DATABASE_URL"] = server.url
        if not os.environ.get("SMTP_PORT"):
            stack.callback(_start_mail_server(folder / "mail"))

        url = os.environ.get("ROWLOCK_DATABASE_URL") or os.environ["DATABASE_URL"]
        deploy.migrate(url)
        conn = stack.enter_context(psycopg.connect(url, autocommit=True))
        conn.execute((Path(__file__).parent / "schema.sql").read_text())

        order_id = _open_for_business(conn, folder)
        Worker(shop.app, url, queues=["mail", "photos"], threads=4, burst=True).run()
        return _report(conn, order_id)


def _open_for_business(conn: psycopg.Connection[Any], folder: Path) -> int:
    drawn = [photos.draw(folder / f"photo-{number}.jpg", number) for number in range(1, 4)]
    with conn.transaction():
        order_id = shop.place_order(conn, "ada@customer.example", drawn)
    print(f"order {order_id} is placed, with {len(drawn)} photos")

    try:
        with conn.transaction():
            lost = shop.place_order(conn, "bob@customer.example", drawn)
            raise CardRefusedError
    except CardRefusedError:
        print(f"order {lost} is rolled back, and its jobs with it")
    return order_id


def _report(conn: psycopg.Connection[Any], order_id: int) -> int:
    jobs = conn.execute(
        "select job.id, job.kind, job.status, job.result"
        " from queue.list_jobs('{}', max_jobs => 20) as listed"
        " cross join lateral queue.get_job(listed.id) as job order by job.id"
    ).fetchall()
    for job in jobs:
        print("job", *job)
    mails = conn.execute(
        "select template from shop.mails where order_id = %s order by template", [order_id]
    ).fetchall()
    print("mails sent:", ", ".join(template for (template,) in mails))
    return 0 if len(mails) == 2 and all(status == "succeeded" for _, _, status, _ in jobs) else 1


def _start_mail_server(folder: Path) -> Callable[[], None]:
    from aiosmtpd.controller import Controller
    from aiosmtpd.handlers import Mailbox

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    controller = Controller(Mailbox(folder), hostname="127.0.0.1", port=port)
    controller.start()
    os.environ |= {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(port)}
    print(f"mail goes to {folder}")
    return controller.stop


if __name__ == "__main__":
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="shop-"))
    given.mkdir(parents=True, exist_ok=True)
    print(f"photos are in {given}")
    sys.exit(main(given))
