"""The pytest side: fixtures, collectors, and the closing lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import pgtap, races
from tests.support.cluster import Cluster, Connection, Database

CLUSTER = pytest.StashKey[Cluster]()


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
    config.stash[pgtap.COUNTS] = pgtap.Counts()
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


def pytest_sessionfinish(session: pytest.Session) -> None:
    cluster = session.config.stash.get(CLUSTER, None)
    if cluster is None:
        return
    if "url" in vars(cluster):
        _ = cluster.description
    cluster.close()
    profile = cluster.profile
    if profile is not None and profile.functions:
        profile.save()
        if profile.percent < session.config.getoption("--plpgsql-fail-under"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    cluster = config.stash.get(CLUSTER, None)
    counts = config.stash[pgtap.COUNTS]
    if cluster is not None and cluster.profile is not None:
        terminalreporter.section("PL/pgSQL coverage")
        for line in cluster.profile.report():
            terminalreporter.write_line(line)
        least = config.getoption("--plpgsql-fail-under")
        if cluster.profile.percent < least:
            terminalreporter.write_line(f"FAILED: below the {least:g} % asked for", red=True)
    if counts.files:
        terminalreporter.section("pgTAP")
        terminalreporter.write_line(str(counts))
    if cluster is not None and "description" in vars(cluster):
        terminalreporter.write_line(f"ran on {cluster.description}")


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
