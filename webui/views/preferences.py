"""What a browser remembers about itself: the theme, in a cookie."""

from __future__ import annotations

from flask import Blueprint, Response, request

from webui import auth
from webui.pages import done

blueprint = Blueprint("preferences", __name__)


@blueprint.post("/preferences/theme")
@auth.answers_form
def set_theme() -> Response:
    """light, dark, or as the system says."""
    response = done("overview.show")
    theme = request.form.get("theme")
    if theme in {"light", "dark"}:
        response.set_cookie("theme", theme, max_age=365 * 86400, samesite="Lax", httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax", httponly=True)
    return response
