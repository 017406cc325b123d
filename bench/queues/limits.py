"""The machine's limit: what one connection does with a bare table, one statement a transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]

_TABLE: LiteralString = """
create table bare (id bigint generated always as identity primary key, payload text not null)
"""
_FILL: LiteralString = "insert into bare (payload) select '{}' from generate_series(1, %s)"

_INSERT: LiteralString = "insert into bare (payload) values ('{}')"
_UPDATE: LiteralString = "update bare set payload = '[]' where id = %s"
_DELETE: LiteralString = """
delete from bare where ctid = any (array(
  select ctid from bare order by id limit %s for update skip locked
)) returning id, payload
"""


def insert(conn: Connection, number: int) -> float:
    return _rate(number, lambda _: conn.execute(_INSERT))


def update(conn: Connection, number: int) -> float:
    conn.execute(_FILL, [number])
    return _rate(number, lambda each: conn.execute(_UPDATE, [each + 1]))


def delete(conn: Connection, number: int, batch: int) -> float:
    """As the barest of queues would: rows a second, taken in batches."""
    conn.execute(_FILL, [number])

    def take(_: int) -> None:
        gone = conn.execute(_DELETE, [batch]).fetchall()
        assert len(gone) == batch

    return batch * _rate(number // batch, take)


def measure(url: str, singles: int, rows: int) -> dict[str, float]:
    """One round: rows a second, of `singles` in transactions of one, of `rows` in hundreds."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as conn:
        calls: dict[str, Callable[[], float]] = {
            "insert": lambda: insert(conn, singles),
            "update": lambda: update(conn, singles),
            "delete1": lambda: delete(conn, singles, 1),
            "delete100": lambda: delete(conn, rows, 100),
        }
        told = {}
        for name, call in calls.items():
            conn.execute("drop table if exists bare")
            conn.execute(_TABLE)
            told[name] = call()
    return told


def _rate(number: int, call: Callable[[int], object]) -> float:
    began = time.perf_counter()
    for each in range(number):
        call(each)
    return number / (time.perf_counter() - began)
