"""The pytest side: fixtures, collectors, and the closing lines."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support import pgtap, races
from tests.support.cluster import Cluster, Connection, Database
from tests.support.plpgsql_coverage import REPORT, Profile

CLUSTER = pytest.StashKey[Cluster]()


@dataclass
class Told:
    """What a run tells at its end; of `pytest -n 2`, what its two processes tell together."""

    counts: pgtap.Counts = field(default_factory=pgtap.Counts)
    profile: Profile | None = None
    server: str | None = None

    def add(self, other: Told) -> None:
        self.counts.add(other.counts)
        self.server = self.server or other.server
        if other.profile is not None:
            self.profile = self.profile or Profile()
            self.profile.add(other.profile)

    def to_json(self) -> str:
        profile = None if self.profile is None else self.profile.to_json()
        return json.dumps([asdict(self.counts), profile, self.server])

    @classmethod
    def from_json(cls, text: str) -> Told:
        counts, profile, server = json.loads(text)
        return cls(pgtap.Counts(**counts), profile and Profile.from_json(profile), server)


TOLD = pytest.StashKey[Told]()


def cluster_of(config: pytest.Config) -> Cluster:
    """The run's cluster; its server starts when something first asks for it."""
    if CLUSTER not in config.stash:
        config.stash[CLUSTER] = Cluster(profile=config.getoption("--plpgsql-coverage"))
    return config.stash[CLUSTER]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--plpgsql-coverage",
        action="store_true",
        help="measure statement coverage of the SQL functions (needs plpgsql_check: PG=15)",
    )
    parser.addoption(
        "--plpgsql-fail-under",
        type=float,
        default=0.0,
        metavar="PERCENT",
        help="fail the run when less of the SQL functions is covered",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = told = Told()
    config.stash[pgtap.COUNTS] = told.counts
    # A developer's own database must never be what a test finds.
    for name in list(os.environ):
        if name.startswith("PG") and name != "PG":
            del os.environ[name]
    for name in ("ROWLOCK_DATABASE_URL", "DATABASE_URL"):
        os.environ.pop(name, None)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    folder = parent.config.rootpath / "db" / "tests"
    if not file_path.is_relative_to(folder):
        return None
    if file_path.suffix == ".spec":
        return races.RaceFile.from_parent(parent, path=file_path)
    if file_path.suffix == ".sql" and not file_path.is_relative_to(folder / "support"):
        return pgtap.PgTapFile.from_parent(parent, path=file_path)
    return None


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs = [name for marker in item.iter_markers("requires") for name in marker.args]
    if needs:
        missing = [name for name in needs if name not in cluster_of(item.config).features]
        if missing:
            pytest.skip(f"{item.nodeid}: this server lacks {', '.join(missing)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    """Cleans what tests with broken text have logged: a report must pass to another process."""
    report = yield
    report.sections = [(name, _encodable(text)) for name, text in report.sections]
    if report.longrepr is not None and _encodable(report.longreprtext) != report.longreprtext:
        report.longrepr = _encodable(report.longreprtext)
    return report


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """One of the processes of `pytest -n 2` has ended."""
    told = getattr(node, "workeroutput", {}).get("rowlock")
    if told is not None:
        node.config.stash[TOLD].add(Told.from_json(told))


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    told = config.stash[TOLD]
    cluster = config.stash.get(CLUSTER, None)
    if cluster is not None and "url" in vars(cluster):
        told.server = cluster.description
        cluster.close()
        told.profile = cluster.profile
    if hasattr(config, "workeroutput"):
        config.workeroutput["rowlock"] = told.to_json()
    elif told.profile is not None and told.profile.functions:
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(told.profile.to_json())
        if told.profile.percent < config.getoption("--plpgsql-fail-under"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    told = config.stash[TOLD]
    if told.profile is not None:
        terminalreporter.section("PL/pgSQL coverage")
        for line in told.profile.report():
            terminalreporter.write_line(line)
        least = config.getoption("--plpgsql-fail-under")
        if told.profile.percent < least:
            terminalreporter.write_line(f"FAILED: below the {least:g} % asked for", red=True)
    if told.counts.files:
        terminalreporter.section("pgTAP")
        terminalreporter.write_line(str(told.counts))
    if told.server is not None:
        terminalreporter.write_line(f"ran on {told.server}")


# -- fixtures --------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    """The server under test and its databases."""
    return cluster_of(pytestconfig)


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A second server, for tests that stop, crash or reconfigure one, or kill -9 a backend.

    On the shared one that would end other tests' sessions and wipe the coverage counted so far.
    """
    if os.environ.get("ROWLOCK_TEST_DATABASE_URL"):
        pytest.skip("needs a server of its own; ROWLOCK_TEST_DATABASE_URL lends one")
    cluster = Cluster()
    yield cluster
    cluster.close()


@pytest.fixture
def database(cluster: Cluster) -> Iterator[Database]:
    """A fresh migrated database, dropped after the test with whoever is connected."""
    database = cluster.create()
    yield database
    cluster.drop(database)


@pytest.fixture
def cron_database(cluster: Cluster) -> Database:
    """The run's one database with pg_cron: mark the test `requires("pg_cron")`, leave no jobs."""
    return cluster.cron


@pytest.fixture
def url(database: Database) -> str:
    """The URL of this test's own migrated database, as the superuser."""
    return database.url


@pytest.fixture
def conn(database: Database) -> Iterator[Connection]:
    """An autocommit connection to this test's own migrated database, as the superuser."""
    with database.connect() as conn:
        yield conn
