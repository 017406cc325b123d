"""Runs db/tests/prove on a freshly migrated database: `python -m tests.support.prove [FILE ...]`."""

from __future__ import annotations

import subprocess
import sys

from pyworker import deploy
from tests.support import servers
from tests.support.cluster import Cluster


def main() -> int:
    cluster = Cluster()
    try:
        cron = "pg_cron" in cluster.features
        database = cluster.create_empty(servers.CRON_DATABASE if cron else None)
        deploy.migrate(database.url)
        print(f"pg_prove on {cluster.description}", flush=True)
        command = [servers.ROOT / "db" / "tests" / "prove", database.url, *sys.argv[1:]]
        return subprocess.run(command).returncode
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
