"""Serves the dashboard with waitress: `rowlock web`, and the demo's."""

from __future__ import annotations

import dataclasses
import ipaddress
import logging
import threading
from typing import Any

import waitress

from pyworker.errors import InvalidArgument, NotAllowed, Unavailable
from webui import create_app
from webui.config import Config
from webui.database import Database

log = logging.getLogger("rowlock.web")

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Server:
    """A dashboard that is bound and not yet serving.

    Anything but loopback is refused while there is no account: nobody could sign in, and whoever
    makes the first one should be at home. On loopback only loopback's own names are answered to,
    unless the configuration names others.
    """

    def __init__(self, config: Config, host: str, port: int, threads: int = 8) -> None:
        self.has_accounts = _has_accounts(config, must_know=not is_loopback(host))
        if not self.has_accounts and not is_loopback(host):
            raise NotAllowed(
                f"not serving on {host} while there is no account",
                hint="rowlock account add NAME --role admin makes one.",
            )
        if is_loopback(host) and not config.trusted_hosts:
            config = dataclasses.replace(config, trusted_hosts=_LOOPBACK_NAMES)
        # Waitress warns of each request that waits for a thread.
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        app = create_app(config)
        try:
            self._server: Any = waitress.create_server(
                app,
                host=host,
                port=port,
                threads=threads,
                ident="rowlock",
                channel_timeout=30,
                max_request_body_size=config.max_body + 1024 * 1024,
                # Nobody believes them unless they are counted, and /metrics wants to know of them.
                clear_untrusted_proxy_headers=False,
            )
        except OSError as exc:
            raise InvalidArgument(
                f"cannot serve on {host}:{port}: {exc.strerror or exc}",
                hint="Another --port or --host may be free.",
            ) from exc
        except ValueError as exc:
            # Waitress says no more of a host that has no address.
            raise InvalidArgument(
                f"cannot serve on {host}:{port}: {host!r} is no host",
                hint="--host is an address of this machine, or a name of it.",
            ) from exc
        shown = f"[{host}]" if ":" in host.strip("[]") else host
        self.address = f"http://{shown}:{self._server.effective_port}{config.base_path}"

    def run(self) -> None:
        """Serves until an exception such as KeyboardInterrupt or SystemExit."""
        try:
            self._server.run()
        finally:
            self.close()

    def run_beside(self) -> None:
        """Serves in a thread that ends with the process."""
        threading.Thread(target=self._server.run, name="dashboard", daemon=True).start()

    def close(self) -> None:
        self._server.close()


def _has_accounts(config: Config, *, must_know: bool) -> bool:
    database = Database(config)
    try:
        with database.as_role("admin", "") as client:
            return any(account.disabled_at is None for account in client.list_accounts())
    except Unavailable:
        if must_know:
            raise
        log.warning("the database does not answer: pages will say so until it does")
        return True
    finally:
        database.close()
