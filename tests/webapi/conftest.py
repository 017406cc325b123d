"""The API over a migrated database of its own, through a login that has queue_web and nothing else.

Every answer that goes through `Api.call` is held to the OpenAPI document: its status is listed for
the operation, and its body is as described.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from jsonschema import Draft202012Validator
from werkzeug.test import TestResponse

from pyworker.client import Client
from tests.support.cluster import Cluster, Connection, Database
from webui import create_app
from webui.config import Config

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "webui" / "openapi.json").read_text()
)
ROLES = ("producer", "worker", "viewer", "operator", "admin")


def resolve(part: dict[str, Any]) -> dict[str, Any]:
    """What a part of the document refers to, or itself."""
    while "$ref" in part:
        found: Any = DOCUMENT
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each method, path and operation of the document."""
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation an address belongs to; one without parameters goes first."""
    for template, item in sorted(DOCUMENT["paths"].items(), key=lambda pair: pair[0].count("{")):
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            found: dict[str, Any] | None = item.get(method.lower())
            return found
    return None


def check_answer(method: str, path: str, response: TestResponse) -> None:
    """Holds an answer to the document."""
    assert response.status_code < 500 or response.status_code == 503, response.get_data(True)
    if response.status_code >= 400:
        assert response.mimetype == "application/problem+json"
        validator({"$ref": "#/components/schemas/Problem"}).validate(response.json)
        assert response.json["status"] == response.status_code
        assert response.json["request_id"] == response.headers["X-Request-Id"]
    operation = operation_of(method, path)
    if operation is None or response.status_code == 405:
        return
    responses = operation["responses"]
    assert str(response.status_code) in responses, f"{method} {path}: {response.status_code}"
    described = resolve(responses[str(response.status_code)])
    if response.status_code in {204, 304}:
        assert not response.data
        return
    schema = described["content"][response.mimetype]["schema"]
    errors = [error.message for error in validator(schema).iter_errors(response.json)]
    assert not errors, f"{method} {path}: {errors}"
    for name in described.get("headers", {}):
        required = name in {"X-Request-Id", "ETag", "Retry-After", "WWW-Authenticate"}
        assert name in response.headers or not required, f"{method} {path}: no {name}"


@dataclass
class Api:
    app: Flask
    database: Database
    tokens: dict[str, str] = field(repr=False)

    def call(
        self,
        method: str,
        path: str,
        role: str | None = "admin",
        body: Any = None,
        *,
        raw: bytes | str | None = None,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> TestResponse:
        """One request with the token of a role, checked against the document."""
        sent = {} if role is None else {"Authorization": f"Bearer {self.tokens[role]}"}
        sent.update(headers or {})
        if raw is not None:
            sent.setdefault("Content-Type", "application/json")
        full = path if path.startswith("/api") else f"/api/v1{path}"
        response = self.app.test_client().open(
            full, method=method, headers=sent, json=body, data=raw, query_string=query or None
        )
        check_answer(method, full, response)
        return response

    def get(self, path: str, role: str | None = "viewer", **query: Any) -> Any:
        response = self.call("GET", path, role, **query)
        assert response.status_code == 200, response.get_data(True)
        return response.json

    def job(self, kind: str = "email.send", **fields: Any) -> str:
        """A new job's id."""
        response = self.call("POST", "/jobs", "producer", {"kind": kind, **fields})
        assert response.status_code in {200, 201}, response.get_data(True)
        return str(response.json["id"])

    def claim(self, **fields: Any) -> dict[str, Any]:
        response = self.call("POST", "/claims", "worker", {"worker": "w1", **fields})
        assert response.status_code == 200, response.get_data(True)
        found: dict[str, Any] = response.json["data"][0]
        return found

    def fail(self, **fields: Any) -> str:
        """A dead job's id."""
        job = self.job(**fields)
        claim = self.claim()
        assert claim["job_id"] == job
        outcome = {
            "job_id": job,
            "fence": claim["fence"],
            "outcome": "fail",
            "error_type": "CardDeclined",
            "message": "insufficient funds",
            "fatal": True,
        }
        answer = self.call("POST", "/settlements", "worker", {"outcomes": [outcome]})
        assert answer.json["data"][0]["verdict"] == "accepted"
        return job


def make_tokens(conn: Connection) -> dict[str, str]:
    client = Client(conn)
    return {role: client.create_token(role, role).secret for role in ROLES}


@pytest.fixture(scope="module")
def shared_api(cluster: Cluster) -> Iterator[Api]:
    """One for a file's tests that do not mind each other."""
    database = cluster.create()
    with database.connect() as conn:
        tokens = make_tokens(conn)
    yield Api(create_app(Config(database_url=database.url_as("queue_web"))), database, tokens)
    cluster.drop(database)


@pytest.fixture
def app(database: Database) -> Flask:
    return create_app(Config(database_url=database.url_as("queue_web")))


@pytest.fixture
def api(app: Flask, database: Database, conn: Connection) -> Api:
    return Api(app, database, make_tokens(conn))
