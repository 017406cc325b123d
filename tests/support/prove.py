"""db/tests/prove on a freshly migrated database: `python -m tests.support.prove [FILE ...]`."""

from __future__ import annotations

import os
import subprocess
import sys

from psycopg.conninfo import conninfo_to_dict

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
        place = conninfo_to_dict(database.url)
        names = {"PGDATABASE": "dbname"} | {
            f"PG{name.upper()}": name for name in ("host", "port", "user", "password")
        }
        environment = {name: str(place[key]) for name, key in names.items() if place.get(key)}
        command = [str(servers.ROOT / "db" / "tests" / "prove"), *sys.argv[1:]]
        return subprocess.run(command, env=os.environ | environment).returncode
    finally:
        cluster.close()


if __name__ == "__main__":
    sys.exit(main())
