"""What the dashboard can be told, and from where."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from pyworker.errors import InvalidArgument

_COLOURS = ("grey", "blue", "green", "amber", "red", "violet")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one dashboard process.

    `instance` and `colour` mark which installation this is on every page. `base_path` is where a
    proxy serves it, such as `/queue`. `secure_cookies` is for a proxy that ends TLS before us:
    cookies then have the `__Host-` prefix and browsers send them over TLS alone. `trusted_hosts`
    are the only names this answers to, where given. `proxies` is how many proxies in front may say
    where a request came from; none are believed unless counted.
    """

    database_url: str = field(repr=False)
    instance: str = "rowlock"
    colour: str = "grey"
    base_path: str = ""
    secure_cookies: bool = False
    trusted_hosts: tuple[str, ...] = ()
    proxies: int = 0
    statement_timeout: timedelta = timedelta(seconds=2)
    max_body: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        if self.colour not in _COLOURS:
            raise InvalidArgument(
                f"colour {self.colour!r} is unknown", hint=f"It is one of {', '.join(_COLOURS)}."
            )
        if not re.fullmatch(r"(/[A-Za-z0-9_.~-]+)*", self.base_path):
            raise InvalidArgument(
                f"base path {self.base_path!r} is no path",
                hint="It begins with / and does not end with one, as /queue.",
            )

    @classmethod
    def from_environment(
        cls, database_url: str, environment: Mapping[str, str] = os.environ, base_path: str = ""
    ) -> Config:
        """ROWLOCK_INSTANCE, ROWLOCK_INSTANCE_COLOUR, ROWLOCK_SECURE_COOKIES (1 or 0),
        ROWLOCK_TRUSTED_HOSTS (names, with commas between), ROWLOCK_PROXIES (how many)."""
        proxies = environment.get("ROWLOCK_PROXIES", "0")
        if not re.fullmatch(r"[0-9]", proxies):
            raise InvalidArgument(f"ROWLOCK_PROXIES is {proxies[:20]!r}", hint="0 to 9.")
        secure = environment.get("ROWLOCK_SECURE_COOKIES", "")
        if secure not in {"", "0", "1"}:
            raise InvalidArgument(f"ROWLOCK_SECURE_COOKIES is {secure[:20]!r}", hint="0 or 1.")
        hosts = environment.get("ROWLOCK_TRUSTED_HOSTS", "").split(",")
        return cls(
            database_url=database_url,
            instance=environment.get("ROWLOCK_INSTANCE", "rowlock")[:40],
            colour=environment.get("ROWLOCK_INSTANCE_COLOUR", "grey"),
            base_path=base_path,
            secure_cookies=secure == "1",
            trusted_hosts=tuple(host.strip() for host in hosts if host.strip()),
            proxies=int(proxies),
        )
