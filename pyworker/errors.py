"""What can go wrong in a call, one class per SQLSTATE of ours.

Every error the database raises reaches a caller as one of these, by `raise translate(exc) from
exc`. `sqlstate` and `hint` are the server's; the last three digits of an RLxxx code are an HTTP
status.
"""

# Named after what happened, as their SQLSTATEs are, without a suffix.
# ruff: noqa: N818

from __future__ import annotations

from typing import ClassVar

import psycopg


class RowlockError(Exception):
    """A call that was refused or could not be made: the message says what, `hint` what to do."""

    code: ClassVar[str | None] = None

    def __init__(
        self, message: str, *, sqlstate: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate or self.code
        self.hint = hint


class InvalidArgument(RowlockError):
    """An argument is out of its bounds, malformed, or of the wrong type."""

    code = "RL400"


class NotAllowed(RowlockError):
    """The login's roles do not grant this."""

    code = "RL403"


class JobNotFound(RowlockError):
    """No such job: it never existed, or retention removed it."""

    code = "RL404"


class ClaimLost(RowlockError):
    """The claim was taken away: whatever the worker did for it counts no more."""

    code = "RL409"


class WrongState(RowlockError):
    """The job's status does not allow what an operator asked for."""

    code = "RL409"


class TooLarge(RowlockError):
    """A payload or a result over 1 MiB."""

    code = "RL413"


class KeyReused(RowlockError):
    """The idempotency key belongs to a job with another kind or payload."""

    code = "RL422"


class LimitReached(RowlockError):
    """A limit or quota refuses more for now."""

    code = "RL429"


class Unavailable(RowlockError):
    """Not now: the server is away, busy, shutting down or read-only. Ask again later."""

    code = "RL503"


_BY_SQLSTATE: dict[str, type[RowlockError]] = {
    "RL400": InvalidArgument,
    "RL403": NotAllowed,
    "RL404": JobNotFound,
    "RL413": TooLarge,
    "RL422": KeyReused,
    "RL429": LimitReached,
    "RL503": Unavailable,
    "42501": NotAllowed,
    "25006": Unavailable,  # read-only transaction: a standby, or default_transaction_read_only
    "40001": Unavailable,
    "40P01": Unavailable,
    "55P03": Unavailable,  # lock_timeout
    "57014": Unavailable,  # statement_timeout
}

_BY_SQLSTATE_CLASS: dict[str, type[RowlockError]] = {
    "08": Unavailable,
    "22": InvalidArgument,  # the server could not read a value as its type
    "28": NotAllowed,
    "53": Unavailable,
    "57": Unavailable,
    "58": Unavailable,
}

_HINTS: dict[str, str] = {
    "22P05": "No text here holds NUL, written \\u0000: remove it, or replace it by U+FFFD.",
    "42501": "Another queue_* group role may call this: the table of roles is in the README.",
    "42883": "Run `rowlock migrate`: this database has no such function of Rowlock.",
    "3F000": "Run `rowlock migrate`: this database has no schema queue.",
    "25P02": "An earlier statement of this transaction failed: roll it back first.",
    "25006": "The server is read-only: connect to the primary.",
    "40001": "Run the whole transaction again.",
    "40P01": "Run the whole transaction again.",
    "55P03": "Another session holds a lock that this call needs: ask again.",
    "57014": "The call took longer than statement_timeout: ask again.",
}


def translate(
    exc: psycopg.Error, conflict: type[ClaimLost] | type[WrongState] = ClaimLost
) -> RowlockError:
    """The error of ours that a database error means.

    `conflict` is what RL409 stands for: ClaimLost in worker functions, WrongState in operator ones.
    """
    sqlstate = exc.sqlstate
    message = exc.diag.message_primary or str(exc).strip() or type(exc).__name__
    hint = exc.diag.message_hint

    if sqlstate is None:
        # Without a SQLSTATE the server did not speak: the connection is gone, or psycopg itself
        # refused a value.
        if isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError):
            return Unavailable(
                message,
                hint="No connection: is the server up, and are address, database and login right?",
            )
        if isinstance(exc, psycopg.DataError):
            return InvalidArgument(message)
        return RowlockError(message)

    if sqlstate == "42883":
        hint = None  # the server's speaks of casts
    if sqlstate.startswith("22") and exc.diag.message_detail:
        message = f"{message}: {exc.diag.message_detail}"

    found: type[RowlockError]
    if sqlstate == "RL409":
        found = conflict
    else:
        found = _BY_SQLSTATE.get(sqlstate) or _BY_SQLSTATE_CLASS.get(sqlstate[:2], RowlockError)
    return found(message, sqlstate=sqlstate, hint=hint or _HINTS.get(sqlstate))
