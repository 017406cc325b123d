"""`rowlock migrate`: db/roles.sql, db/migrations and db/functions into a database, and out of it.

Safe to run from several places at once (one advisory lock), to kill at any moment (a migration and
its mark are one transaction, the functions another) and under traffic (no lock is waited for
longer than callers wait for theirs; functions are replaced, not dropped, unless their signature
changed). All DDL of the shell is here.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import logging
import random
import re
import socket
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import DatabaseURI

from pyworker.client import Connection, Limits, connect
from pyworker.errors import NotAllowed, RowlockError, Unavailable, WrongState, translate

log = logging.getLogger("rowlock.deploy")

GROUP_ROLES = (
    "queue_producer",
    "queue_worker",
    "queue_viewer",
    "queue_operator",
    "queue_admin",
    "queue_web",
)
OWNER = "queue_owner"
ROLES = (*GROUP_ROLES, OWNER)

Report = Callable[[str], None]

# "rowlock" as a number: one key of the space of single-number advisory locks.
_ADVISORY_KEY = int.from_bytes(b"rowlock")

# Shorter than callers' own lock_timeout: whoever queues behind us outwaits us.
_LOCK_TIMEOUT = timedelta(milliseconds=500)

# Failures that another session causes and that pass: lock_timeout, deadlock, serialization, and
# "tuple concurrently updated" (XX000) from DDL on shared catalogs in another database.
_PASSING = ("55P03", "40P01", "40001", "23505", "42710")
_TRIES = 60


@dataclass(frozen=True, slots=True)
class Deployment:
    """What `migrate` changed."""

    roles: tuple[str, ...]
    migrations: tuple[str, ...]
    functions: int
    dropped: tuple[str, ...]
    adopted: bool

    @property
    def changed(self) -> bool:
        return bool(self.roles or self.migrations or self.functions or self.adopted)


# --------------------------------------------------------------------------------------------
# What there is to deploy
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """A db folder: in the wheel `pyworker/_db`, in a clone `db` beside the package."""

    folder: Path

    @classmethod
    def found(cls) -> Source:
        package = Path(__file__).resolve().parent
        for folder in (package / "_db", package.parent / "db"):
            if (folder / "roles.sql").is_file():
                return cls(folder)
        raise RowlockError("the SQL of Rowlock is missing from this installation")

    def roles(self) -> str:
        return (self.folder / "roles.sql").read_text(encoding="utf-8")

    def migrations(self) -> Any:
        """yoyo's list, oldest first."""
        return read_migrations(glob.escape(str(self.folder / "migrations")))

    def functions(self) -> list[tuple[Path, str]]:
        """(path, text) of each file: internal first, since others call them; retired last."""

        def place(path: Path) -> tuple[int, str]:
            order = {"internal": 0, "retired": 2}.get(path.parts[0], 1)
            return order, path.as_posix()

        top = self.folder / "functions"
        paths = sorted((path.relative_to(top) for path in top.glob("*/*.sql")), key=place)
        return [(path, (top / path).read_text(encoding="utf-8")) for path in paths]

    def digest(self) -> str:
        found = hashlib.sha256()
        for path, text in self.functions():
            found.update(f"{path.as_posix()}\0{text}\0".encode())
        return found.hexdigest()[:32]

    def version(self) -> str:
        """Of this Rowlock. A clone's own word goes before that of an older installation of it."""
        project = self.folder.parent / "pyproject.toml"
        if project.is_file():
            return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])
        try:
            return metadata.version("rowlock")
        except metadata.PackageNotFoundError:
            return "0"


# --------------------------------------------------------------------------------------------
# The session that deploys
# --------------------------------------------------------------------------------------------


@contextmanager
def _deploying(url: str, wait: timedelta, report: Report) -> Iterator[Connection]:
    """A connection that holds the advisory lock; errors leave it as ours."""
    limits = Limits(lock_timeout=_LOCK_TIMEOUT, statement_timeout=timedelta(0))
    with connect(url, "migrate", limits=limits) as conn:
        try:
            _check_server(conn)
            _take_lock(conn, wait, report)
            conn.execute("select set_config('client_min_messages', 'notice', false)")
            with contextlib.suppress(psycopg.Error):
                # The server notices within seconds that a migrator was killed, even in the midst of
                # a long statement; not every platform can.
                conn.execute("set client_connection_check_interval = '2s'")
            yield conn
        except psycopg.Error as exc:
            raise translate(exc, WrongState) from exc


def _check_server(conn: Connection) -> None:
    if conn.pooled:
        raise WrongState(
            "migrating needs a session of its own, and this is a connection pooler",
            hint="Give `rowlock migrate` the address of PostgreSQL itself.",
        )
    if conn.info.server_version < 150000:
        raise WrongState(
            f"PostgreSQL {conn.info.server_version // 10000} is too old",
            hint="Rowlock needs PostgreSQL 15 or later.",
        )
    row = conn.execute(
        "select current_setting('server_encoding'), current_setting('transaction_read_only')"
    ).fetchone()
    assert row is not None
    encoding, read_only = row
    if encoding != "UTF8":
        raise WrongState(
            f"the database's encoding is {encoding}, and payloads are UTF-8",
            hint="Create the database with encoding 'UTF8'.",
        )
    if read_only == "on":
        raise Unavailable("the server is read-only", hint="Migrate the primary.")


def _take_lock(conn: Connection, wait: timedelta, report: Report) -> None:
    """Asks again and again rather than waiting in one statement: a waiting statement has a
    snapshot, and a migration that builds an index concurrently would wait for that in turn."""
    deadline = time.monotonic() + wait.total_seconds()
    told = False
    while True:
        row = conn.execute("select pg_try_advisory_lock(%s)", [_ADVISORY_KEY]).fetchone()
        if row and row[0]:
            return
        if not told:
            report("another migration is running, waiting for it")
            told = True
        if time.monotonic() > deadline:
            raise Unavailable(
                f"another migration has been running for {wait}",
                hint="Look for application_name 'rowlock:migrate' in pg_stat_activity.",
            )
        time.sleep(random.uniform(0.1, 0.4))


def _passes(exc: psycopg.Error) -> bool:
    return exc.sqlstate in _PASSING or "tuple concurrently" in str(exc)


def _insist(what: str, step: Callable[[], None]) -> None:
    """Does a step again while others' locks are in its way, up to half a minute and more."""
    for attempt in range(1, _TRIES + 1):
        try:
            return step()
        except psycopg.Error as exc:
            if attempt == _TRIES or not _passes(exc):
                raise
            log.info("%s: %s, trying again", what, str(exc).splitlines()[0])
        time.sleep(random.uniform(0.5, 1.5) * min(0.05 * attempt, 1.0))
    raise AssertionError("unreachable")


@contextmanager
def _as_owner(conn: Connection) -> Iterator[None]:
    conn.execute(sql.SQL("set role {}").format(sql.Identifier(OWNER)))
    try:
        yield
    finally:
        if not conn.closed:
            conn.execute("reset role")


# --------------------------------------------------------------------------------------------
# Roles and schema
# --------------------------------------------------------------------------------------------


@contextmanager
def _notices(conn: Connection) -> Iterator[list[str]]:
    """What the server remarks meanwhile: roles.sql and the blocks below tell what they did."""
    heard: list[str] = []

    def hear(notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "NOTICE" and notice.message_primary:
            heard.append(notice.message_primary)

    conn.add_notice_handler(hear)
    try:
        yield heard
    finally:
        conn.remove_notice_handler(hear)


def _make_roles(conn: Connection, source: Source) -> list[str]:
    made: list[str] = []

    def step() -> None:
        with _notices(conn) as heard, conn.transaction():
            conn.execute(source.roles())
        made.extend(heard)

    _insist("roles", step)
    return made


def _schema_owner(conn: Connection) -> str | None:
    row = conn.execute(
        "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'queue'"
    ).fetchone()
    return row[0] if row else None


def _has_table(conn: Connection, name: str) -> bool:
    """Asks the catalog: a login that is no owner may not even name what is in the schema."""
    row = conn.execute(
        "select exists (select from pg_class as c join pg_namespace as n on n.oid = c.relnamespace "
        "where n.nspname = 'queue' and c.relname = %s)",
        [name],
    ).fetchone()
    return bool(row and row[0])


def _make_schema(conn: Connection) -> None:
    owner = _schema_owner(conn)
    if owner is None:
        try:
            conn.execute(f"create schema if not exists queue authorization {OWNER}")
        except psycopg.errors.InsufficientPrivilege as exc:
            raise NotAllowed(
                f"{conn.info.user} may not create a schema in database {conn.info.dbname}",
                sqlstate=exc.sqlstate,
                hint=f'grant create on database "{conn.info.dbname}" to "{conn.info.user}"; '
                f"or let an administrator: create schema queue authorization {OWNER}",
            ) from exc
    elif owner != OWNER:
        raise WrongState(
            f"schema queue exists and belongs to {owner}",
            hint="Rowlock lives in a schema of that name: use another database.",
        )


# --------------------------------------------------------------------------------------------
# Migrations
# --------------------------------------------------------------------------------------------

# yoyo's own tables, in the shape of its internal schema 2, so that its command line works too.
_BOOKKEEPING = """\
create table if not exists queue._yoyo_migration (
  migration_hash varchar(64) primary key, migration_id varchar(255), applied_at_utc timestamp
);
create table if not exists queue._yoyo_log (
  id varchar(36) primary key, migration_hash varchar(64), migration_id varchar(255),
  operation varchar(10), username varchar(255), hostname varchar(255), comment varchar(255),
  created_at_utc timestamp
);
create table if not exists queue._yoyo_version (
  version integer primary key, installed_at_utc timestamp
);
create table if not exists queue.yoyo_lock (
  locked integer default 1 primary key, ctime timestamp, pid integer not null
);
insert into queue._yoyo_version values (2, now() at time zone 'utc') on conflict do nothing;
"""


class _Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]
    """yoyo over the one session that has our lock, so that a killed migrator leaves nothing.

    Left to itself it opens connections of its own, leaves a row in `yoyo_lock` when it dies, and
    marks a migration as applied in another transaction than the migration's.
    """

    def __init__(self, conn: Connection) -> None:
        self._given = conn
        uri = DatabaseURI("postgresql+psycopg", None, None, None, None, None, {})
        super().__init__(uri, "_yoyo_migration")
        self.schema = "queue"

    def connect(self, dburi: DatabaseURI) -> Connection:
        return self._given

    def ensure_internal_schema_updated(self) -> None:
        """`_BOOKKEEPING` has done it."""

    def apply_one(self, migration: Any, force: bool = False, mark: bool = True) -> None:
        migration.load()
        if not migration.use_transactions:
            # Such as `create index concurrently`: written so that it can be repeated.
            for step in migration.steps:
                step.apply(self, force)
        with self.transaction():
            if migration.use_transactions:
                for step in migration.steps:
                    step.apply(self, force)
            self.mark_one(migration)

    def get_log_data(self, migration: Any = None, operation: str = "apply") -> dict[str, Any]:
        """Without yoyo's getpass and getfqdn: containers have no passwd entry, and DNS is slow."""
        return {
            "id": hashlib.sha256(random.randbytes(16)).hexdigest()[:36],
            "migration_id": migration.id if migration else None,
            "migration_hash": migration.hash if migration else None,
            "username": self._given.info.user,
            "hostname": socket.gethostname(),
            "created_at_utc": datetime.now(UTC).replace(tzinfo=None),
            "operation": "apply" if operation == "mark" else operation,
        }


def _applied(conn: Connection) -> dict[str, str]:
    """Hash and name of every migration this database has."""
    if not _has_table(conn, "_yoyo_migration"):
        return {}
    with _as_owner(conn):
        rows = conn.execute("select migration_hash, migration_id from queue._yoyo_migration")
        return {row[0]: row[1] for row in rows.fetchall()}


def _unknown(conn: Connection, source: Source) -> list[str]:
    known = {migration.hash for migration in source.migrations()}
    return sorted(name for hash, name in _applied(conn).items() if hash not in known)


def _migrate_tables(conn: Connection, source: Source, report: Report) -> list[str]:
    applied: list[str] = []
    with _as_owner(conn):
        _insist("bookkeeping", lambda: _once(conn, _BOOKKEEPING))
        conn.execute("select set_config('search_path', 'queue', false)")
        backend = _Backend(conn)
        for migration in backend.to_apply(source.migrations()):
            report(f"migration {migration.id}")

            def step(migration: Any = migration) -> None:
                try:
                    backend.apply_one(migration)
                except psycopg.Error:
                    if backend._in_transaction:
                        backend.rollback()
                    raise

            try:
                _insist(f"migration {migration.id}", step)
            except psycopg.Error as exc:
                raise _about(exc, f"migration {migration.id}") from exc
            applied.append(migration.id)
        conn.execute("reset search_path")
    return applied


def _once(conn: Connection, script: str) -> None:
    with conn.transaction():
        conn.execute(script)


def _about(exc: psycopg.Error, where: str, hint: str | None = None) -> RowlockError:
    """The error of a file of ours, naming the file."""
    found = translate(exc, WrongState)
    line = exc.diag.statement_position
    place = f"{where}, character {line}" if line else where
    return type(found)(f"{place}: {found}", sqlstate=found.sqlstate, hint=hint or found.hint)


# --------------------------------------------------------------------------------------------
# Functions
# --------------------------------------------------------------------------------------------

_OTHER_TABLES = (
    "The tables were made by other migrations than these. A database of a commit before the first"
    " release is made anew: drop it, or remove the directory of an --embedded one"
    " ($XDG_DATA_HOME/rowlock, ~/.local/share/rowlock, root's /var/lib/rowlock)."
)

# Bodies are looked at when all files have run, so that files need no order among themselves. Grants
# of an older file must not outlive it. Then the place of every routine's catalog row is noted: a
# row that is still there when the files have run belongs to no file.
_BEFORE_FUNCTIONS = f"""\
set local check_function_bodies = off;
revoke all on all routines in schema queue from public, {", ".join(GROUP_ROLES)};
select set_config(
  'rowlock.without_file',
  coalesce((
    select jsonb_object_agg(p.oid::text, p.ctid::text)
    from pg_catalog.pg_proc as p
    where p.pronamespace = 'queue'::regnamespace
  )::text, '{{}}'),
  true
);
"""

_AFTER_FUNCTIONS = """\
do $after$
declare
  v_left record;
begin
  for v_left in
    select p.oid::regprocedure::text as name
    from pg_catalog.pg_proc as p
      join jsonb_each_text(current_setting('rowlock.without_file')::jsonb) as noted (oid, place)
        on noted.oid = p.oid::text and noted.place = p.ctid::text
    where p.pronamespace = 'queue'::regnamespace
      and not exists (
        select from pg_catalog.pg_depend as d
        where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
      )
    order by 1
  loop
    execute 'drop routine ' || v_left.name;
    raise notice 'function % dropped', v_left.name;
  end loop;
end;
$after$;
revoke all on all routines in schema queue from public;
"""

_VALIDATORS = """\
select p.oid::regprocedure::text, l.lanvalidator::regproc::text, p.oid
from pg_proc as p join pg_language as l on l.oid = p.prolang
where p.pronamespace = 'queue'::regnamespace and l.lanname in ('sql', 'plpgsql')
order by 1
"""

# What the routines are, each with the roles of ours that may call it, whatever else was granted.
_ROUTINES = """\
select p.oid::regprocedure::text as name,
  concat_ws(
    E'\\n',
    pg_get_functiondef(p.oid),
    obj_description(p.oid, 'pg_proc'),
    (
      select string_agg(grantee, ' ' order by grantee)
      from (
        select coalesce(r.rolname, 'public')::text as grantee
        from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as acl
          left join pg_roles as r on r.oid = acl.grantee
        where acl.grantee = 0 or r.rolname like 'queue\\_%'
      ) as granted
    )
  ) as definition
from pg_proc as p
where p.pronamespace = 'queue'::regnamespace and p.prokind in ('f', 'p')
"""

_FINGERPRINT = f"""(
select md5(coalesce(string_agg(name || definition, E'\\n' order by name collate "C"), ''))
from ({_ROUTINES}) as routines)"""

_RECORD = f"""\
insert into queue.deployments (deployed_at, digest, version)
values (
  greatest(
    clock_timestamp(),
    (select max(d.deployed_at) + interval '1 microsecond' from queue.deployments as d)
  ),
  {{digest}} || '-' || {_FINGERPRINT},
  {{version}}
);
"""


class _FunctionError(Exception):
    """What PostgreSQL said to one file, or to one body (`name` None) once all files had run."""

    def __init__(self, where: str, name: str | None, exc: psycopg.Error) -> None:
        super().__init__(str(exc))
        self.where = where
        self.name = name
        self.exc = exc


def _replace_functions(
    conn: Connection, files: list[tuple[Path, str]], to_drop: set[str]
) -> list[str]:
    """Runs every file, inside the caller's transaction. Returns what was dropped."""
    _within_owner(conn)
    before = _names(conn)
    for name, routine in before.items():
        if routine in to_drop:
            conn.execute(f"drop routine {name}")
    conn.execute(_BEFORE_FUNCTIONS)
    for path, text in files:
        try:
            conn.execute(text)
        except psycopg.Error as exc:
            raise _FunctionError(f"db/functions/{path.as_posix()}", path.stem, exc) from exc
    conn.execute(_AFTER_FUNCTIONS)
    _check_bodies(conn)
    return sorted(before.keys() - _names(conn).keys())


def _names(conn: Connection) -> dict[str, str]:
    """Every routine of schema queue, as `queue.name(types)`, and its bare name."""
    rows = conn.execute(
        "select oid::regprocedure::text, proname::text from pg_proc "
        "where pronamespace = 'queue'::regnamespace"
    )
    return dict(rows.fetchall())


def _check_bodies(conn: Connection) -> None:
    """What `create function` would have said of each body, now that all functions are there."""
    conn.execute("set local check_function_bodies = on")
    rows = conn.execute(_VALIDATORS).fetchall()
    for name, validator, oid in rows:
        try:
            conn.execute(f"select {validator}({oid})")
        except psycopg.Error as exc:
            raise _FunctionError(f"function {name}", None, exc) from exc


def _within_owner(conn: Connection) -> None:
    """Until the transaction ends: the owner, and no schema but PostgreSQL's to find names in."""
    conn.execute(f"set local role {OWNER}")
    conn.execute("set local search_path = pg_catalog, pg_temp")


def _with_functions(
    conn: Connection,
    files: list[tuple[Path, str]],
    then: Callable[[list[str]], None],
    *,
    keep: bool,
) -> None:
    """The files and `then` in one transaction, kept or rolled back.

    `create or replace` refuses another return type or other parameter names (42P13), and a file
    that comments on its function by name alone finds two where its parameters changed (42725). All
    functions of that name are then dropped first, in the same transaction, so that no caller sees a
    moment without them.
    """
    to_drop: set[str] = set()

    def step() -> None:
        while True:
            try:
                with conn.transaction(force_rollback=not keep):
                    then(_replace_functions(conn, files, to_drop))
                return
            except _FunctionError as error:
                changed = error.exc.sqlstate in ("42P13", "42725")
                if changed and error.name and error.name not in to_drop:
                    to_drop.add(error.name)
                    continue
                if _passes(error.exc):
                    raise error.exc from None
                # No such column, table, type.
                is_lacking = error.exc.sqlstate in ("42703", "42P01", "42704")
                raise _about(
                    error.exc, error.where, _OTHER_TABLES if is_lacking else None
                ) from error.exc

    _insist("functions", step)


def _deployed(conn: Connection) -> tuple[str, str] | None:
    """Digest and version of the last deployment of functions."""
    if not _has_table(conn, "deployments"):
        return None
    with conn.transaction():
        _within_owner(conn)
        found = conn.execute(
            "select digest, version from queue.deployments order by deployed_at desc limit 1"
        ).fetchone()
    return (found[0], found[1]) if found else None


def _migrate_functions(conn: Connection, source: Source, report: Report) -> tuple[int, list[str]]:
    digest = source.digest()
    last = _deployed(conn)
    with conn.transaction():
        _within_owner(conn)
        row = conn.execute(f"select {_FINGERPRINT}").fetchone()
    assert row is not None
    if last and last[0] == f"{digest}-{row[0]}":
        return 0, []

    files = source.functions()
    report(f"{len(files)} functions")
    gone: list[str] = []

    def record(dropped: list[str]) -> None:
        gone[:] = dropped
        conn.execute(
            sql.SQL(_RECORD).format(
                digest=sql.Literal(digest), version=sql.Literal(source.version())
            )
        )

    _with_functions(conn, files, record, keep=True)
    for name in gone:
        report(f"function {name} dropped")
    return len(files), gone


# --------------------------------------------------------------------------------------------
# A database that came from another cluster
# --------------------------------------------------------------------------------------------


def _is_foreign(conn: Connection) -> bool:
    """Whether the schema was restored from a dump of another cluster: xids of its events, by which
    followers read, then mean nothing here."""
    if not _has_table(conn, "settings"):
        return False
    with conn.transaction():
        _within_owner(conn)
        found = conn.execute(
            "select s.system_identifier <> c.system_identifier "
            "from queue.settings as s, pg_control_system() as c"
        ).fetchone()
    return bool(found and found[0])


def _adopt(conn: Connection) -> None:
    with conn.transaction():
        _within_owner(conn)
        conn.execute("select queue._adopt_cluster()")


# --------------------------------------------------------------------------------------------
# The commands
# --------------------------------------------------------------------------------------------


def _say_nothing(line: str) -> None:
    log.info(line)


def migrate(
    url: str,
    *,
    source: Source | None = None,
    downgrade: bool = False,
    wait: timedelta = timedelta(minutes=10),
    report: Report = _say_nothing,
) -> Deployment:
    """Brings a database to this version of Rowlock; does nothing where it is there already.

    Raises NotAllowed naming what the login may not do, WrongState when the database belongs to a
    later version (`downgrade` puts this version's functions in nevertheless).
    """
    source = source or Source.found()
    with _deploying(url, wait, report) as conn:
        roles = _make_roles(conn, source)
        for line in roles:
            report(line)
        _make_schema(conn)
        _refuse_downgrade(conn, source, downgrade)
        migrations = _migrate_tables(conn, source, report)
        functions, dropped = _migrate_functions(conn, source, report)
        adopted = _is_foreign(conn)
        if adopted:
            report("this database was restored from another cluster: setting its events right")
            _insist("adoption", lambda: _adopt(conn))
        return Deployment(tuple(roles), tuple(migrations), functions, tuple(dropped), adopted)


def _refuse_downgrade(conn: Connection, source: Source, downgrade: bool) -> None:
    """A container of the old release that restarts during a roll-out must not undo the new one."""
    unknown = _unknown(conn, source)
    last = _deployed(conn)
    own = source.version()
    if unknown:
        raise WrongState(
            f"the database has migrations that version {own} does not know: {', '.join(unknown)}",
            hint="A later version of Rowlock migrated it: use that version.",
        )
    if last and _numbers(last[1]) > _numbers(own) and not downgrade:
        raise WrongState(
            f"the database has the functions of version {last[1]}, and this is {own}",
            hint="Use that version, or `rowlock migrate --downgrade`.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def check(
    url: str,
    *,
    source: Source | None = None,
    wait: timedelta = timedelta(minutes=10),
    report: Report = _say_nothing,
) -> list[str]:
    """What `migrate` would change, one line each; nothing when the database is as it should be.

    Roles and functions are deployed for it in transactions that are rolled back. Raises NotAllowed
    where the login may not migrate.
    """
    source = source or Source.found()
    found: list[str] = []
    with _deploying(url, wait, report) as conn:
        with _notices(conn) as heard, conn.transaction(force_rollback=True):
            conn.execute(source.roles())
        found += [f"missing: {line}" for line in heard]
        if found and any(OWNER in line for line in found):
            # Whatever comes next is asked as the owner.
            return found

        if _schema_owner(conn) is None:
            return [*found, "missing: schema queue"]
        found += [f"unknown migration: {name}" for name in _unknown(conn, source)]
        applied = _applied(conn)
        pending = [m.id for m in source.migrations() if m.hash not in applied]
        found += [f"pending migration: {name}" for name in sorted(pending)]
        if not pending:
            found += _differing_functions(conn, source)
        if _is_foreign(conn):
            found.append("restored from another cluster, not adopted yet")
    return found


def _differing_functions(conn: Connection, source: Source) -> list[str]:
    def routines() -> dict[str, str]:
        return dict(conn.execute(_ROUTINES).fetchall())

    with conn.transaction():
        _within_owner(conn)
        before = routines()
    after: dict[str, str] = {}
    _with_functions(conn, source.functions(), lambda dropped: after.update(routines()), keep=False)
    return sorted(
        [f"missing function: {name}" for name in after.keys() - before.keys()]
        + [f"function without a file: {name}" for name in before.keys() - after.keys()]
        + [
            f"function differs from its file: {name}"
            for name in before.keys() & after.keys()
            if before[name] != after[name]
        ]
    )


def roles_script(migrator: str | None = None, *, source: Source | None = None) -> str:
    """db/roles.sql, for an administrator to run; `migrator` is the login that will migrate."""
    script = (source or Source.found()).roles()
    if migrator is None:
        return script
    return f"set rowlock.migrator = {sql.quote(migrator)};\n\n{script}"


def sql_script(applied: frozenset[str] = frozenset(), *, source: Source | None = None) -> str:
    """All of it as one script for psql, less the migrations whose hashes are in `applied`."""
    source = source or Source.found()
    parts = [
        source.roles(),
        f"create schema if not exists queue authorization {OWNER};\n\nset role {OWNER};\n",
        _BOOKKEEPING,
    ]
    for migration in source.migrations():
        if migration.hash in applied:
            continue
        migration.load()
        text = Path(migration.path).read_text(encoding="utf-8")
        mark = (
            f"insert into queue._yoyo_migration values ({sql.quote(migration.hash)}, "
            f"{sql.quote(migration.id)}, now() at time zone 'utc');\n"
        )
        if migration.use_transactions:
            parts.append(f"-- {migration.id}\nbegin;\n\n{text}\n{mark}commit;\n")
        else:
            parts.append(f"-- {migration.id}\n{text}\n{mark}")
    record = _RECORD.format(digest=sql.quote(source.digest()), version=sql.quote(source.version()))
    parts += [
        "begin;\n\nset local search_path = pg_catalog, pg_temp;\n",
        _BEFORE_FUNCTIONS,
        *(text for _, text in source.functions()),
        _AFTER_FUNCTIONS,
        record,
        "commit;\n\nreset role;\n",
    ]
    return "\n".join(parts)


def applied(url: str) -> frozenset[str]:
    """Hashes of the migrations a database has, for `sql_script`."""
    with connect(url, "migrate") as conn:
        try:
            return frozenset(_applied(conn))
        except psycopg.Error as exc:
            raise translate(exc) from exc


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """What is gone, and what stayed and why."""

    removed: tuple[str, ...] = field(default=())
    left: tuple[str, ...] = field(default=())


def uninstall(
    url: str, *, wait: timedelta = timedelta(minutes=1), report: Report = _say_nothing
) -> Uninstalled:
    """Drops schema queue with every job in it, and the roles nobody else in the cluster uses."""
    removed: list[str] = []
    left: list[str] = []
    with _deploying(url, wait, report) as conn:
        owner = _schema_owner(conn)
        if owner not in (None, OWNER):
            raise WrongState(f"schema queue belongs to {owner}: it is not Rowlock's")
        if owner is not None:
            _remove_cron(conn, removed, left)
            _insist("schema queue", lambda: _drop_schema(conn))
            removed.append("schema queue")
        for role in ROLES:
            _drop_role(conn, role, removed, left)
    for line in removed:
        report(f"dropped {line}")
    return Uninstalled(tuple(removed), tuple(left))


def _remove_cron(conn: Connection, removed: list[str], left: list[str]) -> None:
    """pg_cron would go on calling what is no longer there."""
    row = conn.execute(
        "select exists (select from pg_extension where extname = 'pg_cron')"
    ).fetchone()
    if not row or not row[0]:
        return
    try:
        found = conn.execute("select queue.uninstall_cron()").fetchone()
        if found and found[0]:
            removed.append(f"{found[0]} pg_cron jobs")
    except psycopg.Error as exc:
        left.append(f"jobs of pg_cron: {translate(exc)}")


def _drop_schema(conn: Connection) -> None:
    with conn.transaction():
        conn.execute(f"set local role {OWNER}")
        conn.execute("set local client_min_messages = warning")
        conn.execute("drop schema queue cascade")
        # 0001 revoked it, and a role with default privileges anywhere cannot be dropped.
        conn.execute(
            f"alter default privileges for role {OWNER} grant execute on functions to public"
        )


def _drop_role(conn: Connection, role: str, removed: list[str], left: list[str]) -> None:
    rows = conn.execute(
        """
        select r.rolname,
          (
            select string_agg(m.rolname, ', ' order by m.rolname)
            from pg_auth_members as a join pg_roles as m on m.oid = a.member
            where a.roleid = r.oid and m.rolname <> session_user and not m.rolname = any(%s)
          )
        from pg_roles as r
        where r.rolname = %s
        """,
        [list(ROLES), role],
    ).fetchall()
    if not rows:
        return
    members = rows[0][1]
    if members:
        left.append(f"role {role}: granted to {members}")
        return
    try:
        with conn.transaction():
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
        removed.append(f"role {role}")
    except psycopg.errors.DependentObjectsStillExist as exc:
        left.append(f"role {role}: {exc.diag.message_detail or exc.diag.message_primary}")
    except psycopg.errors.InsufficientPrivilege as exc:
        left.append(f"role {role}: {exc.diag.message_primary}")
