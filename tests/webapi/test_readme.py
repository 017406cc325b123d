"""The README's requests, run by a shell against a live server."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.support.cluster import Database
from tests.webapi import ops
from tests.webapi.conftest import Api
from webui.config import Config
from webui.server import Server


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="needs curl and jq")
def test_the_requests_take_a_job_to_its_end(api: Api, database: Database) -> None:
    text = (ops.ROOT / "README.md").read_text()
    (script,) = re.findall(r"^```sh\n(api=http://127.0.0.1:8000/.*?)^```$", text, re.M | re.S)
    server = Server(Config(database_url=database.url_as("queue_web")), "127.0.0.1", 0)
    server.run_beside()
    try:
        done = subprocess.run(
            [
                "bash",
                "-euo",
                "pipefail",
                "-c",
                script.replace("http://127.0.0.1:8000", server.address),
            ],
            env={
                "PATH": "/usr/bin:/bin",
                "SHOP": api.tokens["producer"],
                "WORKER": api.tokens["worker"],
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        server.close()
    assert done.returncode == 0, done.stderr
    assert '"verdict":"accepted"' in done.stdout
    (job,) = api.get("/jobs")["data"]
    assert (job["status"], job["queue"], job["idempotency_key"]) == (
        "succeeded",
        "email",
        "order-42",
    )
    assert api.get(f"/jobs/{job['id']}")["result"] == "sent"
