"""ops/: alerts that fire for what they are about, dashboards that ask for what there is."""

from __future__ import annotations

import json
import re
from typing import Any

import psycopg
import pytest

from tests.support.cluster import Connection, Database
from tests.webapi import ops
from tests.webapi.conftest import Api

PROMETHEUS = ops.ROOT / "ops" / "prometheus"
GRAFANA = ops.ROOT / "ops" / "grafana"
DASHBOARDS = sorted(GRAFANA.glob("*.json"))


def exposed(expression: str) -> set[str]:
    """The documented metrics that an expression names, by the names of their families."""
    names = set(re.findall(r"\browlock_\w+", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


def panels_of(path: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["panels"]
    return found


def alert_blocks() -> dict[str, str]:
    text = (PROMETHEUS / "alerts.yml").read_text()
    blocks = re.split(r"^      - alert: ", text, flags=re.M)[1:]
    return {block.partition("\n")[0]: block for block in blocks}


def test_alerts_are_valid_and_fire_when_they_should() -> None:
    ops.promtool("check", "rules", str(PROMETHEUS / "alerts.yml"))
    ops.promtool("test", "rules", str(PROMETHEUS / "alerts_test.yml"))


def test_alerts_ask_for_metrics_that_exist() -> None:
    there = set(ops.documented_metrics())
    for name, block in alert_blocks().items():
        asked = exposed(block)
        assert asked, name
        assert asked <= there, name


def test_each_alert_has_a_runbook_entry_a_severity_and_a_test() -> None:
    runbook = (ops.ROOT / "docs" / "runbook.md").read_text()
    tests = (PROMETHEUS / "alerts_test.yml").read_text()
    names = list(alert_blocks())
    assert len(names) >= 10
    for name, block in alert_blocks().items():
        assert f"runbook_url: docs/runbook.md#{name.lower()}" in block
        assert f"\n## {name}\n" in runbook
        assert re.search(r"severity: (warning|critical)", block)
        fires = rf"alertname: {name}\n\s+exp_alerts:"
        assert re.search(fires, tests), f"{name} is never seen to fire"
    assert re.findall(r"^## (\w+)$", runbook, re.M) == names


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_is_whole(path: Any) -> None:
    board = json.loads(path.read_text())
    assert board["uid"] == path.stem
    assert board["schemaVersion"] >= 36
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies on another"
        taken |= cells
        assert panel["targets"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)


def test_the_prometheus_dashboard_asks_for_metrics_that_exist() -> None:
    there = set(ops.documented_metrics())
    asked: set[str] = set()
    for panel in panels_of(GRAFANA / "rowlock-prometheus.json"):
        for target in panel["targets"]:
            assert exposed(target["expr"]), panel["title"]
            asked |= exposed(target["expr"])
    assert asked <= there
    assert len(asked) > 15


def test_its_expressions_parse(tmp_path: Any) -> None:
    """promtool reads them as rules, with Grafana's variables filled in."""
    rules = [
        {"record": f"panel:{panel['id']}{target['refId']}", "expr": filled(target["expr"])}
        for panel in panels_of(GRAFANA / "rowlock-prometheus.json")
        for target in panel["targets"]
    ]
    path = tmp_path / "rules.json"
    path.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    ops.promtool("check", "rules", str(path))


def filled(expression: str) -> str:
    return expression.replace("$__rate_interval", "5m").replace("$queue", ".*")


def test_the_postgres_dashboard_runs_as_a_viewer(
    api: Api, conn: Connection, database: Database
) -> None:
    ops.make_history(api, conn)
    rows = 0
    with psycopg.connect(database.url_as("queue_viewer"), autocommit=True) as viewer:
        for hours in (1, 6, 24 * 90):
            row = conn.execute(
                "select (now() - %s * interval '1 hour')::text, now()::text", [hours]
            ).fetchone()
            assert row is not None
            for panel in panels_of(GRAFANA / "rowlock-postgres.json"):
                for target in panel["targets"]:
                    sql = target["rawSql"].replace("$__timeFrom()", f"'{row[0]}'")
                    sql = sql.replace("$__timeTo()", f"'{row[1]}'")
                    assert "$" not in sql
                    found = viewer.execute(sql).fetchall()
                    assert found or panel["title"] == "What to look at", panel["title"]
                    rows += len(found)
    assert rows > 100
