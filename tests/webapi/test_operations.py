"""/metrics, /healthz and /readyz (A43), and that docs/metrics.md names what there is."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyworker import metrics as worker_metrics
from pyworker.client import Client
from tests.support.cluster import Cluster, Connection, Database
from tests.webapi import ops
from tests.webapi.conftest import Api, make_tokens
from webui import create_app
from webui.config import Config

LOCAL = {"REMOTE_ADDR": "127.0.0.1"}


def scrape(api: Api, role: str | None = None, **headers: str) -> Any:
    sent = {name.replace("_", "-"): text for name, text in headers.items()}
    if role is not None:
        sent["Authorization"] = f"Bearer {api.tokens[role]}"
    return api.app.test_client().get(
        "/metrics",
        headers=sent,
        environ_overrides={"REMOTE_ADDR": "203.0.113.9"} if role else LOCAL,
    )


@pytest.fixture
def busy(api: Api, conn: Connection) -> Api:
    """With something in every family."""
    ops.make_history(api, conn)
    return api


# -- metrics


def test_it_parses_and_every_family_has_its_help_once(busy: Api) -> None:
    response = scrape(busy)
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain; version=0.0.4")
    text = response.get_data(as_text=True)
    families = re.findall(r"^# TYPE (\S+)", text, re.M)
    assert len(families) == len(set(families)) == len(re.findall(r"^# HELP ", text, re.M))
    parsed = {family.name: family for family in text_string_to_metric_families(text)}
    finished = {
        (sample.labels["kind"], sample.labels["outcome"]): sample.value
        for sample in parsed["rowlock_jobs_finished"].samples
    }
    assert finished["email.send", "succeeded"] == 1
    assert finished["email.send", "failed"] == 1


def test_the_scrape_agrees_with_promtool(busy: Api) -> None:
    ops.promtool("check", "metrics", input=scrape(busy).get_data(as_text=True))


def test_every_metric_is_documented_and_every_documented_one_exposed(busy: Api) -> None:
    documented = ops.documented_metrics()
    exposed = ops.families(scrape(busy).get_data(as_text=True))
    assert {name for name, where in documented.items() if "dashboard" in where} == exposed


def test_the_workers_metrics_are_documented_too() -> None:
    text = worker_metrics.render(worker_metrics.registry(ops.worker_at_work())).decode()
    documented = ops.documented_metrics()
    assert {name for name, where in documented.items() if "worker" in where} == ops.families(text)
    ops.promtool("check", "metrics", input=text)


def test_labels_are_escaped(api: Api, conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = 'a"b\\c\nd{}'
    sample = SimpleNamespace(
        family="rowlock_odd",
        type="gauge",
        help="a\\b\nc",
        name="rowlock_odd",
        labels={"queue": odd},
        value=1.0,
    )
    monkeypatch.setattr(Client, "metrics", lambda self: [sample])
    text = scrape(api).get_data(as_text=True)
    (family,) = [f for f in text_string_to_metric_families(text) if f.name == "rowlock_odd"]
    assert family.samples[0].labels == {"queue": odd}
    assert family.documentation == "a\\b\nc"


def test_from_elsewhere_it_needs_the_token_of_a_viewer(api: Api) -> None:
    for role in ("viewer", "operator", "admin"):
        assert scrape(api, role).status_code == 200
    for role in ("producer", "worker"):
        assert scrape(api, role).status_code == 403
    anonymous = api.app.test_client().get(
        "/metrics", environ_overrides={"REMOTE_ADDR": "203.0.113.9"}
    )
    assert anonymous.status_code == 401
    assert b"rowlock_" not in anonymous.data


@pytest.mark.parametrize("name", ["Forwarded", "X_Forwarded_For", "X_Real_IP", "Via"])
def test_what_a_proxy_passes_on_is_not_local(api: Api, name: str) -> None:
    assert scrape(api).status_code == 200
    assert scrape(api, **{name: "127.0.0.1"}).status_code == 401


def test_a_bad_token_is_refused_from_here_too(api: Api) -> None:
    assert scrape(api, Authorization="Bearer nonsense").status_code == 401


def test_requests_are_counted_by_route_not_by_address(api: Api) -> None:
    for number in range(3):
        api.call("GET", f"/jobs/{number + 1}", "viewer")
        api.call("GET", f"/nope/{number}", "viewer")
    api.app.test_client().open("/api/v1/jobs", method="BREW")
    text = scrape(api).get_data(as_text=True)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        (sample.labels["method"], sample.labels["route"], sample.labels["code"]): sample.value
        for sample in families["rowlock_http_requests"].samples
    }
    assert counted["GET", "/api/v1/jobs/<job_id>", "404"] == 3
    assert counted["GET", "none", "404"] == 3
    assert not any(method == "BREW" for method, _, _ in counted)
    seconds = families["rowlock_http_request_seconds"].samples
    assert any(sample.name.endswith("_bucket") for sample in seconds)


# -- health


def test_a_process_is_ready_when_the_database_answers(api: Api) -> None:
    browser = api.app.test_client()
    assert (browser.get("/healthz").status_code, browser.get("/healthz").json) == (
        200,
        {"status": "ok"},
    )
    ready = browser.get("/readyz")
    assert ready.status_code == 200
    assert ready.json == {
        "status": "ok",
        "checks": {"database": "ok", "roles": "ok", "schema": "ok"},
    }


def test_a_database_without_rowlock_is_not_ready(cluster: Cluster) -> None:
    empty = cluster.create_empty()
    try:
        browser = create_app(Config(database_url=empty.url)).test_client()
        ready = browser.get("/readyz")
        assert ready.status_code == 503
        assert ready.json["checks"]["schema"].startswith("not deployed")
    finally:
        cluster.drop(empty)


def test_a_login_without_the_roles_is_not_ready(database: Database) -> None:
    browser = create_app(Config(database_url=database.url_as("queue_viewer"))).test_client()
    ready = browser.get("/readyz")
    assert ready.status_code == 503
    assert "lacks a role" in ready.json["checks"]["roles"]


def test_without_a_database_it_lives_and_is_not_ready_and_says_so(own_cluster: Cluster) -> None:
    database = own_cluster.create()
    with database.connect() as conn:
        tokens = make_tokens(conn)
    api = Api(create_app(Config(database_url=database.url)), database, tokens)
    browser = api.app.test_client()
    assert browser.get("/readyz").status_code == 200
    assert own_cluster.server is not None
    own_cluster.server.close()

    assert browser.get("/healthz").status_code == 200
    began = time.monotonic()
    ready = browser.get("/readyz")
    assert time.monotonic() - began < 2
    assert (ready.status_code, ready.json["status"]) == (503, "unavailable")
    assert set(ready.json["checks"]) == {"database"}

    refused = api.call("GET", "/jobs", "viewer")
    assert (refused.status_code, refused.json["code"]) == (503, "database_down")
    assert int(refused.headers["Retry-After"]) > 0

    local = scrape(api)
    assert local.status_code == 200
    assert "rowlock_up 0.0" in local.get_data(as_text=True)
    assert "rowlock_queue_jobs" not in local.get_data(as_text=True)


def test_a_call_that_takes_too_long_is_503_timeout(api: Api, conn: Connection) -> None:
    config = Config(
        database_url=api.database.url_as("queue_web"), statement_timeout=timedelta(milliseconds=100)
    )
    hasty = Api(create_app(config), api.database, api.tokens)
    with conn.transaction():
        conn.execute("lock table queue.jobs in access exclusive mode")
        response = hasty.call("GET", "/jobs", "viewer")
        assert (response.status_code, response.json["code"]) == (503, "timeout")
        assert int(response.headers["Retry-After"]) > 0
    assert hasty.call("GET", "/jobs", "viewer").status_code == 200


def test_a_read_only_database_is_read_and_not_written(api: Api, conn: Connection) -> None:
    job = api.job()
    conn.execute(f'alter database "{api.database.name}" set default_transaction_read_only = on')
    standby = Api(
        create_app(Config(database_url=api.database.url_as("queue_web"))), api.database, api.tokens
    )
    assert standby.get(f"/jobs/{job}")["status"] == "queued"
    assert standby.get("/capabilities")["read_only"] is True
    for method, path, role, body in (
        ("POST", "/jobs", "producer", {"kind": "a"}),
        ("POST", "/claims", "worker", {"worker": "w"}),
        ("POST", f"/jobs/{job}/cancel", "operator", {}),
    ):
        assert standby.call(method, path, role, body).status_code == 503


def test_a_server_that_hangs_is_not_waited_for(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    probe = api.app.extensions["rowlock_probe"]
    asked: list[int] = []

    def hang() -> dict[str, str]:
        asked.append(1)
        time.sleep(3)
        return {"database": "ok"}

    monkeypatch.setattr(probe, "_look", hang)
    browser = api.app.test_client()
    began = time.monotonic()
    for _ in range(2):
        ready = browser.get("/readyz")
        assert ready.status_code == 503
        assert ready.json["checks"] == {"database": "no answer within 1 s"}
    assert time.monotonic() - began < 2.8
    probe._asked.result(10)
    assert asked == [1]
    assert browser.get("/healthz").status_code == 200


def test_docs_name_the_file_that_alerts_are_in() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text()
    assert "ops/prometheus/alerts.yml" in text
