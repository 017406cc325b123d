"""Who calls the API: a token, or somebody signed in."""

from __future__ import annotations

from flask import Response, g, request

from webui import auth, errors
from webui.auth import Caller

# A token has 256 random bits; what is much longer was never one.
_LONGEST_SECRET = 200


def find() -> Response | None:
    """Before each request: a bearer token, or a session's cookie and then the rule for forms.

    With a token the cookie does not count. A token in the address is never looked at: addresses
    end up in logs.
    """
    secret = bearer()
    if secret is not None:
        g.caller = find_token(secret)
    else:
        g.caller = auth.find_session()
        if g.caller is not None and request.method not in {"GET", "HEAD", "OPTIONS"}:
            auth.check_form()
    return None if g.caller is not None else refused(secret is not None)


def bearer() -> str | None:
    """The secret of `Authorization: Bearer`, None when there is no such header."""
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def find_token(secret: str) -> Caller | None:
    """Whose token this is: None when it is unknown, expired or revoked."""
    if not secret or len(secret) > _LONGEST_SECRET:
        return None
    with auth.database().as_web() as client:
        holder = client.check_token(secret)
    return Caller(holder.name, holder.role) if holder else None


def refused(had_token: bool) -> Response:
    response = errors.problem(
        401,
        "the token is unknown, expired or revoked" if had_token else "nobody is signed in",
        hint="Send Authorization: Bearer with a token of `rowlock token create`, or sign in.",
    )
    response.headers["WWW-Authenticate"] = 'Bearer error="invalid_token"' if had_token else "Bearer"
    return response
