"""schemathesis against a live server: whatever the document allows and forbids, no 5xx, and every
answer as the document says.

Each operation is tried with the token of the least role that may call it; that all other roles get
403 is in test_document.py. Seeded and bounded: the same cases each run.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.webapi import ops
from tests.webapi.conftest import DOCUMENT, ROLES, Api, make_tokens, operations
from webui import create_app
from webui.config import Config
from webui.server import Server

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
)


@dataclass
class Live:
    address: str
    tokens: dict[str, str] = field(repr=False)


@pytest.fixture(scope="module")
def live(cluster: Cluster) -> Iterator[Live]:
    database = cluster.create()
    config = Config(database_url=database.url_as("queue_web"))
    with database.connect() as conn:
        # Beyond the ids that are guessed: nobody shall revoke the token that is used.
        conn.execute("select setval(pg_get_serial_sequence('queue.tokens', 'id'), 900000000)")
        tokens = make_tokens(conn)
    server = Server(config, "127.0.0.1", 0)
    with database.connect() as conn:
        ops.make_history(Api(create_app(config), database, tokens), conn)
        conn.execute("select queue.enqueue('email.send') from generate_series(1, 20)")
    server.run_beside()
    yield Live(server.address, tokens)
    server.close()
    cluster.drop(database)


@pytest.mark.parametrize("role", ROLES)
def test_no_request_is_answered_by_an_error_of_the_server(
    live: Live, role: str, tmp_path: Path
) -> None:
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(part_for(role)))
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            str(document),
            "--url",
            live.address,
            "--header",
            f"Authorization: Bearer {live.tokens[role]}",
            "--checks",
            ",".join(CHECKS),
            "--phases",
            "examples,coverage,fuzzing",
            "--max-examples",
            "5",
            "--seed",
            "1",
            "--request-timeout",
            "30",
            "--continue-on-failure",
            "--warnings",
            "off",
            "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert "No failures found" in done.stdout or "passed" in done.stdout, done.stdout[-2000:]


def part_for(role: str) -> dict[str, object]:
    """The document with the operations that this role, and none before it, may call."""
    before = ROLES[: ROLES.index(role)]
    part = copy.deepcopy(DOCUMENT)
    part["servers"] = [{"url": "/"}]
    for method, path, operation in operations():
        roles = operation["x-roles"]
        if role not in roles or any(other in roles for other in before):
            del part["paths"][path][method.lower()]
    for item in part["paths"].values():
        for operation in item.values():
            # Waiting for events that do not come takes its time, and is tried in test_jobs.py.
            operation["parameters"] = [
                one for one in operation.get("parameters", []) if one.get("name") != "wait"
            ]
    part["paths"] = {path: item for path, item in part["paths"].items() if item}
    return part


def test_every_operation_is_tried_once() -> None:
    tried = [
        (method, path)
        for role in ROLES
        for path, item in part_for(role)["paths"].items()  # type: ignore[attr-defined]
        for method in item
    ]
    assert len(tried) == len(set(tried)) == len(list(operations()))
