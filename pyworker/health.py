"""/healthz, /readyz and /metrics of a worker process, by option.

healthz: every background loop is alive (200, else 503). readyz: the database answers and the worker
takes jobs; 503 while starting, while the database is away, and while shutting down.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from pyworker import metrics
from pyworker.errors import InvalidArgument
from pyworker.logs import logger

if TYPE_CHECKING:
    from pyworker.worker import Worker

DEFAULT_PORT = 8321

log = logger("rowlock.health")

# A client that sends nothing, or many at once, must cost little.
_READ_TIMEOUT = 5.0
_MOST_AT_ONCE = 16


def parse_address(address: str) -> tuple[str, int]:
    """ "127.0.0.1:8321", "[::1]:8321", ":8321" (every interface) or "127.0.0.1".

    Raises InvalidArgument.
    """
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(
            f"not an address to listen on: {address}", hint="It reads host:port, or :port."
        )
    return host, int(port)


def liveness(worker: Worker) -> tuple[bool, dict[str, Any]]:
    checks: dict[str, Any] = {}
    for loop in worker.loops:
        checks[loop.name] = {
            "alive": loop.is_alive or worker.is_draining,
            "seconds_since_beat": round(monotonic() - loop.beat, 1),
            "failing_for_seconds": (
                None if loop.failing_since is None else round(monotonic() - loop.failing_since, 1)
            ),
            "errors": loop.errors,
            "last_error": loop.last_error,
        }
    return all(check["alive"] for check in checks.values()), checks


def readiness(worker: Worker) -> tuple[bool, dict[str, Any]]:
    answered = [link.answered_at for link in worker.links if link.answered_at is not None]
    failing = [loop.name for loop in worker.loops if loop.failing_since is not None]
    checks = {
        "database": "ok" if answered and not failing else "failing" if failing else "not yet asked",
        "failing_loops": failing,
        "draining": worker.is_draining,
        "wakeup": worker.cover,
        "slots": worker.slots,
        "busy_slots": len(worker.claims),
        "stuck_handlers": worker.stuck,
    }
    return checks["database"] == "ok" and not worker.is_draining, checks


class HealthServer:
    """A small HTTP server in a thread of its own."""

    def __init__(self, worker: Worker, address: str) -> None:
        host, port = parse_address(address)
        self._server = _Server((host, port), worker)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="rowlock-health", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], worker: Worker) -> None:
        self.worker = worker
        self.registry = metrics.registry(worker)
        self.seats = threading.BoundedSemaphore(_MOST_AT_ONCE)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        try:
            super().__init__(address, _Handler)
        except OSError as exc:
            raise InvalidArgument(f"cannot listen on {address[0]}:{address[1]}: {exc}") from exc

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.seats.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.seats.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a health request failed", exc_info=True)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server
    server_version = "rowlock"
    sys_version = ""
    timeout = _READ_TIMEOUT

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/healthz":
                self._answer_check(*liveness(self.server.worker))
            case "/readyz":
                self._answer_check(*readiness(self.server.worker))
            case "/metrics":
                self._answer(200, metrics.CONTENT_TYPE, metrics.render(self.server.registry))
            case _:
                self._answer(404, "text/plain; charset=utf-8", b"/healthz /readyz /metrics\n")

    do_HEAD = do_GET  # noqa: N815

    def _answer_check(self, is_ok: bool, checks: dict[str, Any]) -> None:
        body = {
            "status": "ok" if is_ok else "unavailable",
            "worker": self.server.worker.id,
            "checks": checks,
        }
        self._answer(
            200 if is_ok else 503, "application/json", json.dumps(body, default=str).encode()
        )

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(OSError):
                self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Probes are not logged."""
