"""What can be said of the container files without a Docker engine; `make containers` lints them."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pyworker import Client, deploy
from pyworker.client import connect
from pyworker.errors import NotAllowed
from tests.support.cluster import Cluster, Database, with_user
from tests.test_examples import with_psql

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
LOGINS = ("rowlock_migrator", "rowlock_worker", "rowlock_producer", "rowlock_web")


def test_each_variable_of_the_compose_file_is_in_the_sample_and_no_other() -> None:
    used = set(re.findall(r"\$\{(\w+)", COMPOSE))
    lines = (ROOT / ".env.sample").read_text().splitlines()
    sample = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}

    assert used == sample
    assert {"ROWLOCK_LOG_LEVEL", "ROWLOCK_THREADS"} <= sample


def test_no_password_has_a_default() -> None:
    secrets = re.findall(r"\$\{(\w*PASSWORD)(:?.)", COMPOSE)

    assert len(secrets) > 4
    assert {how for _, how in secrets} == {":?"}
    lines = (ROOT / ".env.sample").read_text().splitlines()
    assert all(line.endswith("=") for line in lines if "PASSWORD=" in line)


def test_the_files_that_the_compose_file_names_exist() -> None:
    named = re.findall(r"dockerfile: (\S+)", COMPOSE)

    assert {*named} == {"docker/app/Dockerfile", "docker/database/Dockerfile"}
    for name in named:
        text = (ROOT / name).read_text()
        for copied in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
            assert (ROOT / copied).exists(), f"{name} copies {copied}"
    (entry,) = re.findall(r"entrypoint: \[/rowlock/(\S+)\]", COMPOSE)
    assert os.access(ROOT / entry, os.X_OK)


def test_the_images_get_all_that_the_wheel_is_made_of() -> None:
    sent = (ROOT / ".dockerignore").read_text().split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]

    assert {f"!{path.split('/')[0]}" for path in wheel} <= set(sent)
    assert {"!pyproject.toml", "!README.md", "!LICENSE"} <= set(sent)


@pytest.fixture
def set_up(cluster: Cluster) -> Iterator[Database]:
    """A database in which the image's first start has run."""
    _ = cluster.template  # makes the roles, as another database of the cluster may have
    database = cluster.create_empty()
    place = conninfo_to_dict(database.url)
    environment = {
        **with_psql(),
        "PGHOST": str(place["host"]),
        "PGPORT": str(place.get("port", 5432)),
        "POSTGRES_USER": str(place["user"]),
        "POSTGRES_DB": database.name,
        "ROLES_SQL": str(ROOT / "db" / "roles.sql"),
        "ROWLOCK_MIGRATOR_PASSWORD": 'it\'s "secret"; drop',
        "ROWLOCK_WORKER_PASSWORD": "w",
        "ROWLOCK_PRODUCER_PASSWORD": "p",
        "ROWLOCK_WEB_PASSWORD": "d",
    }
    try:
        for _ in range(2):  # the second time nothing is left to do
            done = subprocess.run(
                [str(ROOT / "docker" / "database" / "logins.sh")],
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, done.stderr
        yield database
    finally:
        cluster.drop(database)
        with psycopg.connect(cluster.url, autocommit=True) as conn:
            for login in LOGINS:
                conn.execute(f"drop role if exists {login}")


def test_the_logins_of_the_database_image_can_do_their_work_and_no_more(set_up: Database) -> None:
    migrator, worker, producer, web = (with_user(set_up.url, login, "x") for login in LOGINS)
    with set_up.connect() as conn:
        might = conn.execute(
            "select from pg_roles where rolname = any (%s) and (rolsuper or rolcreaterole)",
            [list(LOGINS)],
        ).fetchall()
    assert might == []

    assert deploy.migrate(migrator).functions > 0
    with connect(producer, "test") as conn:
        job_id = Client(conn).enqueue("k").job_id
        with pytest.raises(NotAllowed):
            Client(conn).claim("w")
    with connect(worker, "test") as conn:
        (claim,) = Client(conn).claim("w")
        assert Client(conn).complete(claim.job_id, claim.fence).id == job_id
        with pytest.raises(NotAllowed):
            Client(conn).enqueue("k")
    with connect(web, "test") as conn:
        assert Client(conn).check_session("nobody's") is None
        with pytest.raises(NotAllowed):
            Client(conn).get_job(job_id)
        with conn.transaction():
            Client(conn).act_as("queue_viewer", "ada")
            assert Client(conn).get_job(job_id).status == "succeeded"
