"""One blueprint a noun: its URL, its module and its templates have the same name."""

from __future__ import annotations

from importlib import import_module

from flask import Flask

NOUNS = (
    "sign_in",
    "overview",
    "jobs",
    "dead",
    "queues",
    "workers",
    "events",
    "settings",
    "preferences",
)


def register(app: Flask) -> None:
    for noun in NOUNS:
        app.register_blueprint(import_module(f"webui.views.{noun}").blueprint)
