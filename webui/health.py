"""/healthz: this process answers. /readyz: the database does too, and has what a request needs.

Whoever runs the process asks them often and without signing in: they say little and cost little.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from threading import Lock

from flask import Blueprint, Flask, Response, current_app, jsonify

from pyworker.errors import NotAllowed, RowlockError, Unavailable
from webui import auth
from webui.database import GROUP_ROLES, Database

blueprint = Blueprint("health", __name__)

_PATIENCE = 1.0


def register(app: Flask) -> None:
    app.extensions["rowlock_probe"] = Probe(app.extensions["rowlock_database"])
    app.register_blueprint(blueprint)


@blueprint.get("/healthz")
@auth.public
def live() -> Response:
    """The process answers; the database is not asked."""
    return jsonify(status="ok")


@blueprint.get("/readyz")
@auth.public
def ready() -> tuple[Response, int]:
    """200 when requests can be served, else 503 with what is missing."""
    probe: Probe = current_app.extensions["rowlock_probe"]
    checks = probe.ask()
    is_ready = all(found == "ok" for found in checks.values())
    return jsonify(
        status="ok" if is_ready else "unavailable", checks=checks
    ), 200 if is_ready else 503


class Probe:
    """Asks the database on a thread and a connection of its own.

    An answer is waited for a second. While a server that hangs owes one, no other is asked for, so
    that however many ask, one connection is used.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rowlock-probe")
        self._asked: Future[dict[str, str]] | None = None
        self._lock = Lock()

    def ask(self) -> dict[str, str]:
        """By check: ok, or what is the matter."""
        with self._lock:
            if self._asked is None or self._asked.done():
                self._asked = self._thread.submit(self._look)
            asked = self._asked
        try:
            return asked.result(_PATIENCE)
        except NoAnswer:
            return {"database": f"no answer within {_PATIENCE:g} s"}

    def _look(self) -> dict[str, str]:
        checks = {"database": "ok", "roles": "ok", "schema": "ok"}
        try:
            with self._database.as_web() as client:
                for group_role in GROUP_ROLES.values():
                    client.act_as(group_role, "readyz")
                client.act_as(GROUP_ROLES["viewer"], "readyz")
                client.capabilities()
        except Unavailable:
            return {"database": "unreachable"}
        except NotAllowed:
            checks["roles"] = "the dashboard's login lacks a role of Rowlock's"
        except RowlockError:
            checks["schema"] = "not deployed: run rowlock migrate"
        return checks
