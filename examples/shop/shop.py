"""A photo shop. An order and its jobs commit together; the jobs make thumbnails and send e-mails.

Every handler may run twice: a worker can die between its work and the word of it. Each looks first
at what is there already, and makes what is missing in a way that can be repeated.
"""

from __future__ import annotations

import os
import smtplib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import psycopg
from PIL import Image, ImageOps, UnidentifiedImageError

from pyworker import App, Cancel, Fail, Job, Retry

app = App()

THUMBNAIL_SIZE = (200, 200)

# --------------------------------------------------------------------------------------------
# What the web site calls
# --------------------------------------------------------------------------------------------


def place_order(conn: psycopg.Connection[Any], email: str, photos: Sequence[Path]) -> int:
    """The number of a new order. Call it in a transaction: all of it happens or none."""
    order_id: int = _one(conn, "insert into shop.orders (email) values (%s) returning id", email)
    for photo in photos:
        photo_id = _one(
            conn,
            "insert into shop.photos (order_id, file) values (%s, %s) returning id",
            order_id,
            str(photo),
        )
        make_thumbnail.enqueue(Thumbnail(photo_id), conn=conn)
    send_mail.enqueue(Mail(order_id, "received"), conn=conn, key=f"order-{order_id}-received")
    return order_id


# --------------------------------------------------------------------------------------------
# Jobs
# --------------------------------------------------------------------------------------------


@dataclass
class Thumbnail:
    photo_id: int


@app.job("photo.thumbnail", queue="photos", lease="30s", timeout="2m", max_attempts=3)
def make_thumbnail(payload: Thumbnail, job: Job) -> dict[str, Any]:
    """A small JPEG beside the photo. The last one of an order tells the customer."""
    with _connect() as conn:
        found = conn.execute(
            "select order_id, file from shop.photos where id = %s", [payload.photo_id]
        ).fetchone()
        if found is None:
            raise Cancel("the photo was deleted")
        order_id, file = found[0], Path(found[1])

        target = file.with_name(f"{file.stem}.thumbnail.jpg")
        size = _shrink(file, target, job)
        job.progress(percent=90, message="recording it")

        with conn.transaction():
            # Two last photos finish at once: the lock lets one of them see the other done.
            conn.execute("select from shop.orders where id = %s for update", [order_id])
            conn.execute(
                "update shop.photos set thumbnail = %s where id = %s",
                [str(target), payload.photo_id],
            )
            left = _one(
                conn,
                "select count(*) from shop.photos where order_id = %s and thumbnail is null",
                order_id,
            )
            if left == 0:
                send_mail.enqueue(Mail(order_id, "ready"), conn=conn, key=f"order-{order_id}-ready")
    return {"file": target.name, "width": size[0], "height": size[1]}


def _shrink(source: Path, target: Path, job: Job) -> tuple[int, int]:
    draft = target.with_name(f"{target.name}.{job.id}-{job.fence}")
    try:
        with Image.open(source) as photo:
            upright = ImageOps.exif_transpose(photo).convert("RGB")
            job.progress(percent=40, message=f"{upright.width} x {upright.height} read")
            upright.thumbnail(THUMBNAIL_SIZE)
            upright.save(draft, "JPEG", quality=85)
    except UnidentifiedImageError as exc:
        raise Fail from exc  # no attempt will make an image of it
    # Whoever reads the target finds a whole image, be it of this run or of another.
    draft.replace(target)
    return upright.size


@dataclass
class Mail:
    order_id: int
    template: str


@app.job("mail.send", queue="mail", lease="30s", timeout="1m", max_attempts=8)
def send_mail(payload: Mail) -> dict[str, Any]:
    """Sends a mail about an order, once as far as a mail server lets one be sure.

    Should the worker die after the server took the mail and before the row commits, it is sent
    again, with the Message-ID that it had.
    """
    with _connect() as conn:
        message_id = f"<order-{payload.order_id}-{payload.template}@shop.example>"
        known = conn.execute(
            "select from shop.mails where order_id = %s and template = %s",
            [payload.order_id, payload.template],
        ).fetchone()
        if known is not None:
            return {"sent": False, "message_id": message_id}

        mail = _compose(conn, payload)
        mail["Message-ID"] = message_id
        try:
            with smtplib.SMTP(
                os.environ.get("SMTP_HOST", "127.0.0.1"),
                int(os.environ.get("SMTP_PORT", "25")),
                timeout=10,
            ) as server:
                server.send_message(mail)
        except smtplib.SMTPResponseException as exc:
            if exc.smtp_code >= 500:
                raise Fail from exc
            raise Retry(in_=os.environ.get("SMTP_RETRY_IN", "30s")) from exc
        except smtplib.SMTPRecipientsRefused as exc:
            raise Fail from exc

        conn.execute(
            "insert into shop.mails (order_id, template) values (%s, %s) on conflict do nothing",
            [payload.order_id, payload.template],
        )
    return {"sent": True, "message_id": message_id}


def _compose(conn: psycopg.Connection[Any], payload: Mail) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Photo shop <orders@shop.example>"
    mail["To"] = _one(conn, "select email from shop.orders where id = %s", payload.order_id)
    if payload.template == "received":
        mail["Subject"] = f"We have your order {payload.order_id}"
        mail.set_content("Thank you. You will hear from us when your prints are ready.\n")
        return mail

    mail["Subject"] = f"Your order {payload.order_id} is ready"
    mail.set_content("Your prints are ready. This is what they look like.\n")
    thumbnails = conn.execute(
        "select thumbnail from shop.photos where order_id = %s order by id", [payload.order_id]
    )
    for (thumbnail,) in thumbnails.fetchall():
        image = Path(thumbnail)
        mail.add_attachment(
            image.read_bytes(), maintype="image", subtype="jpeg", filename=image.name
        )
    return mail


# --------------------------------------------------------------------------------------------
# The shop's own way to its database
# --------------------------------------------------------------------------------------------


def _connect() -> psycopg.Connection[Any]:
    url = os.environ.get("ROWLOCK_DATABASE_URL") or os.environ.get("DATABASE_URL") or ""
    return psycopg.connect(url, autocommit=True)


def _one(conn: psycopg.Connection[Any], sql: str, *values: Any) -> Any:
    row = conn.execute(sql, values).fetchone()
    if row is None:
        raise LookupError(f"no row: {sql}")
    return row[0]
