"""Who asks: a session's cookie, or an API token; and that a form came from our own page.

Nothing is signed and no secret key exists: a session is a secret in a cookie whose digest the
database keeps, and the token of a form is derived from that secret, which no other page can read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from flask import Response, current_app, g, redirect, request, url_for
from werkzeug.security import check_password_hash, generate_password_hash

from pyworker.errors import InvalidArgument, NotAllowed
from webui.config import Config
from webui.database import Database

View = TypeVar("View", bound=Callable[..., Any])

_RANKS = {"viewer": 1, "operator": 2, "admin": 3}

SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1024

# Compared with when there is no such account, so that the answer takes as long.
_NOBODY = generate_password_hash("nobody's password")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes this request. `secret` is of a session; a token's caller has none."""

    name: str
    role: str
    secret: str | None = None

    @property
    def actor(self) -> str:
        """The name as events and audit show it."""
        return self.name if self.secret else f"token:{self.name}"

    @property
    def form_token(self) -> str:
        """What a form of this session carries, and another site cannot know."""
        return form_token(self.secret or "")

    def may(self, role: str) -> bool:
        """Whether to offer an action; the database decides when it is asked for."""
        return _RANKS.get(self.role, 0) >= _RANKS[role]


def form_token(secret: str) -> str:
    return hashlib.sha256(f"form:{secret}".encode()).hexdigest()


def config() -> Config:
    return cast(Config, current_app.extensions["rowlock_config"])


def database() -> Database:
    return cast(Database, current_app.extensions["rowlock_database"])


def caller() -> Caller:
    """Who makes this request; only within routes that ask for a sign-in."""
    found: Caller | None = g.get("caller")
    if found is None:
        raise NotAllowed("nobody is signed in", hint="Sign in first.")
    return found


def current() -> Caller | None:
    """As `caller`, or None on pages that anybody may see."""
    found: Caller | None = g.get("caller")
    return found


# -- session cookies


def cookie_name() -> str:
    return "__Host-rowlock" if _is_secure() else "rowlock"


def _is_secure() -> bool:
    return config().secure_cookies or request.is_secure


def find_session() -> Caller | None:
    """Whose cookie this is, asked of the database at every request. An open page that polls does
    not keep its session from ending: nobody may be there."""
    secret = request.cookies.get(cookie_name())
    if not secret or len(secret) > 128:
        return None
    with database().as_web() as client:
        found = client.check_session(secret, touch="X-Live" not in request.headers)
    return Caller(found.account, found.role, secret) if found else None


def keep_session(response: Response, secret: str) -> Response:
    response.set_cookie(
        cookie_name(),
        secret,
        max_age=12 * 3600,
        httponly=True,
        secure=_is_secure(),
        samesite="Lax",
        path="/" if _is_secure() else config().base_path or "/",
    )
    return response


def drop_session(response: Response) -> Response:
    response.delete_cookie(
        cookie_name(),
        secure=_is_secure(),
        httponly=True,
        samesite="Lax",
        path="/" if _is_secure() else config().base_path or "/",
    )
    return response


def password_is_right(password: str, password_hash: str | None) -> bool:
    password = password[:LONGEST_PASSWORD]
    right = check_password_hash(password_hash or _NOBODY, password)
    return right and password_hash is not None


def hash_password(password: str) -> str:
    """Raises InvalidArgument for a password that is too short."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise InvalidArgument(
            "the password is too short"
            if len(password) < SHORTEST_PASSWORD
            else "the password is too long",
            hint=f"{SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters.",
        )
    return generate_password_hash(password)


# -- requests that change something


def check_same_origin() -> None:
    """Refuses a request that another site made a browser send; browsers say which site that was."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if (site is not None and site not in {"same-origin", "none"}) or (
        origin is not None and urlsplit(origin).netloc != request.host
    ):
        raise NotAllowed(
            "the request came from another site", hint="Open the page here and try again."
        )


def check_form() -> None:
    """As `check_same_origin`, and the form must carry its session's token."""
    check_same_origin()
    given = request.form.get("form_token") or request.headers.get("X-Form-Token") or ""
    if not hmac.compare_digest(given, caller().form_token):
        raise NotAllowed(
            "the form has no token of this session", hint="Reload the page and try again."
        )


def public(view: View) -> View:
    """Marks a view that needs no sign-in. All others do: `before_request` sees to it."""
    view.is_public = True  # type: ignore[attr-defined]
    return view


def is_public(view: Callable[..., Any] | None) -> bool:
    return bool(getattr(view, "is_public", False))


def safe_path(target: str | None) -> str | None:
    """`target` if it is a path of ours to go back to, else None: never another site."""
    if not target or not target.startswith("/") or target[1:2] in {"/", "\\"}:
        return None
    if any(ord(character) < 32 or character == "\\" for character in target):
        return None
    parts = urlsplit(target)
    return target if not parts.scheme and not parts.netloc else None


def asked_from() -> str | None:
    """The page of ours that a form was sent from: the form's own address may show nothing."""
    parts = urlsplit(request.referrer or "")
    if parts.netloc != request.host:
        return None
    return safe_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def to_sign_in() -> Response:
    asked = request.script_root + request.full_path.rstrip("?")
    here = asked if request.method == "GET" else asked_from()
    return cast(Response, redirect(url_for("sign_in.form", next=here), 303))


def answers_form(view: View) -> View:
    """Marks a view that changes something from a form: token and origin are checked first."""

    @wraps(view)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_form()
        return view(*args, **kwargs)

    return cast(View, checked)
