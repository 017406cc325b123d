"""`rowlock migrate`: fresh, repeated, killed, under traffic, without rights, restored, removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pyworker import deploy, embedded
from pyworker.client import Client, NewJob, connect
from pyworker.deploy import Source, check, migrate, roles_script, sql_script, uninstall
from pyworker.errors import NotAllowed, RowlockError, Unavailable, WrongState
from tests.support import servers
from tests.support.cluster import Cluster, Database, with_database, with_user
from tests.support.servers import ROOT

# -- what to deploy, and where


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Database]:
    """A database that has nothing, in a cluster that has the roles."""
    _ = cluster.template
    database = cluster.create_empty()
    yield database
    cluster.drop(database)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """A copy of db/ to change."""
    folder = tmp_path / "db"
    shutil.copytree(ROOT / "db", folder, ignore=shutil.ignore_patterns("tests"))
    return Source(folder)


@pytest.fixture
def small(tmp_path: Path) -> Source:
    """A db/ with the one table that deployment itself needs, and one function."""
    folder = tmp_path / "small"
    (folder / "migrations").mkdir(parents=True)
    shutil.copy(ROOT / "db" / "roles.sql", folder)
    (folder / "migrations" / "0001.deployments.sql").write_text(
        "create table queue.deployments (deployed_at timestamptz primary key, digest text, "
        "version text, deployed_by text default session_user);"
    )
    found = Source(folder)
    write(found, "worker/answer", "answer(question text) returns int", "select 42")
    return found


def write(source: Source, path: str, signature: str, body: str, more: str = "") -> None:
    file = source.folder / "functions" / f"{path}.sql"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        f"create or replace function queue.{signature} language sql as $$ {body} $$;\n{more}"
    )


def remove(source: Source, path: str) -> None:
    (source.folder / "functions" / f"{path}.sql").unlink()


def routines(database: Database) -> set[str]:
    with database.connect() as conn:
        rows = conn.execute(
            "select oid::regprocedure::text from pg_proc where pronamespace = 'queue'::regnamespace"
        )
        return {name.removeprefix("queue.") for (name,) in rows}


def scalar(database: Database, query: str) -> object:
    with database.connect() as conn:
        row = conn.execute(query).fetchone()
    assert row is not None
    return row[0]


MIGRATE = """
import sys
from pathlib import Path
from pyworker.deploy import Source, migrate
migrate(sys.argv[1], source=Source(Path(sys.argv[2])), report=lambda line: print(line, flush=True))
"""


def migrating(database: Database, source: Source) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MIGRATE, database.url, str(source.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


# -- fresh, repeated, at once


def test_a_second_run_has_nothing_to_do(empty: Database, source: Source) -> None:
    first = migrate(empty.url, source=source)
    assert first.migrations
    assert first.functions == len(source.functions())
    second = migrate(empty.url, source=source)
    assert not second.changed
    assert check(empty.url, source=source) == []


def test_four_at_once_on_a_fresh_database(empty: Database, source: Source) -> None:
    runs = [migrating(empty, source) for _ in range(4)]
    for run in runs:
        _, stderr = run.communicate(timeout=120)
        assert run.returncode == 0, stderr
    assert scalar(empty, "select count(*) from queue.deployments") == 1
    assert check(empty.url, source=source) == []


def test_two_databases_at_once_where_no_role_exists_yet(own_server: embedded.Server) -> None:
    urls = [new_database(own_server, f"fresh_{n}") for n in range(3)]
    failures: list[BaseException] = []

    def run(url: str) -> None:
        try:
            migrate(url)
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=[url]) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert [check(url) for url in urls] == [[], [], []]


def test_a_run_that_has_to_wait_too_long_says_for_whom(empty: Database) -> None:
    with empty.connect() as conn:
        conn.execute("select pg_advisory_lock(%s)", [deploy._ADVISORY_KEY])
        with pytest.raises(Unavailable, match="another migration"):
            migrate(empty.url, wait=timedelta(seconds=0.5))
    migrate(empty.url)


# -- killed


@pytest.mark.parametrize("where", ["migration", "functions"])
def test_killed_half_way_and_run_again(empty: Database, source: Source, where: str) -> None:
    """Whatever had been committed stays and is known of; the rest is done by the next run."""
    if where == "migration":
        slow = source.folder / "migrations" / "0002.slow.sql"
        slow.write_text("create table queue.half (a int);\nselect pg_sleep(3);\n")
        sign = "migration 0002.slow"
    else:
        slow = source.folder / "functions" / "worker" / "zzz.sql"
        slow.write_text("select pg_sleep(3);\n")
        sign = f"{len(source.functions())} functions"

    run = migrating(empty, source)
    assert run.stdout is not None
    for line in run.stdout:
        if line.strip() == sign:
            break
    else:
        pytest.fail(f"it never came to {sign}")
    time.sleep(0.5)
    run.send_signal(signal.SIGKILL)
    run.wait()
    run.communicate()

    slow.unlink()
    done = migrate(empty.url, source=source)
    assert scalar(empty, "select to_regclass('queue.half') is null")
    assert "0001.jobs" not in done.migrations  # it was committed, and marked with it
    assert done.functions
    assert check(empty.url, source=source) == []


def test_a_lock_row_that_yoyo_itself_left_is_in_nobodys_way(empty: Database) -> None:
    migrate(empty.url)
    with empty.connect() as conn:
        conn.execute("insert into queue.yoyo_lock values (1, now(), 1)")
        conn.execute("update queue.deployments set digest = ''")
    assert migrate(empty.url).functions


def test_a_migration_that_fails_leaves_nothing_of_itself(empty: Database, source: Source) -> None:
    migrate(empty.url, source=source)
    bad = source.folder / "migrations" / "9000.bad.sql"
    bad.write_text("create table queue.half (a int);\nselect nonsense;\n")
    with pytest.raises(RowlockError, match=r"migration 9000\.bad"):
        migrate(empty.url, source=source)
    assert scalar(empty, "select to_regclass('queue.half') is null")
    assert check(empty.url, source=source) == ["pending migration: 9000.bad"]
    bad.write_text("create table queue.half (a int);\n")
    assert migrate(empty.url, source=source).migrations == ("9000.bad",)


def test_a_migration_and_its_mark_are_one_transaction(empty: Database, source: Source) -> None:
    """yoyo's own way is two: killed between them, it would make every table a second time."""
    migrate(empty.url, source=source)
    (source.folder / "migrations" / "9000.half.sql").write_text("create table queue.half (a int);")
    with empty.connect() as conn:
        conn.execute("alter table queue._yoyo_migration add check (migration_id <> '9000.half')")
        with pytest.raises(RowlockError):
            migrate(empty.url, source=source)
        assert scalar(empty, "select to_regclass('queue.half') is null")
        conn.execute(
            "alter table queue._yoyo_migration drop constraint _yoyo_migration_migration_id_check"
        )
    assert migrate(empty.url, source=source).migrations == ("9000.half",)


def test_a_migration_outside_of_a_transaction(empty: Database, small: Source) -> None:
    migrate(empty.url, source=small)
    (small.folder / "migrations" / "0002.index.sql").write_text(
        "-- transactional: false\n"
        "create index concurrently if not exists by_digest on queue.deployments (digest);\n"
    )
    assert migrate(empty.url, source=small).migrations == ("0002.index",)
    assert not migrate(empty.url, source=small).changed


# -- functions and their files


def test_another_result_or_parameter_name_replaces_the_function(
    empty: Database, small: Source
) -> None:
    migrate(empty.url, source=small)
    write(small, "worker/answer", "answer(question text) returns text", "select 'forty-two'")
    assert migrate(empty.url, source=small).functions == 1
    assert scalar(empty, "select queue.answer('?')") == "forty-two"
    write(small, "worker/answer", "answer(doubt text) returns text", "select 'hm'")
    migrate(empty.url, source=small)
    assert scalar(empty, "select queue.answer(doubt => '?')") == "hm"


def test_a_new_defaulted_parameter_leaves_no_ambiguous_overload(
    empty: Database, small: Source
) -> None:
    migrate(empty.url, source=small)
    write(small, "worker/answer", "answer(question text, base int = 10) returns int", "select 42")
    assert migrate(empty.url, source=small).dropped == ("queue.answer(text)",)
    assert routines(empty) == {"answer(text,integer)"}
    assert scalar(empty, "select queue.answer('?')") == 42


def test_a_retired_signature_is_kept_while_it_has_a_file(empty: Database, small: Source) -> None:
    write(small, "worker/answer", "answer(question text, base int) returns int", "select 42")
    write(small, "retired/answer", "answer(question text) returns int", "select 1")
    migrate(empty.url, source=small)
    assert routines(empty) == {"answer(text,integer)", "answer(text)"}
    # The name is dropped and made again, both of it.
    write(small, "worker/answer", "answer(question text, base int) returns text", "select 'x'")
    migrate(empty.url, source=small)
    assert routines(empty) == {"answer(text,integer)", "answer(text)"}
    remove(small, "retired/answer")
    migrate(empty.url, source=small)
    assert routines(empty) == {"answer(text,integer)"}


def test_a_function_without_a_file_is_dropped(empty: Database, small: Source) -> None:
    write(small, "worker/other", "other() returns int", "select 1")
    migrate(empty.url, source=small)
    remove(small, "worker/other")
    assert migrate(empty.url, source=small).dropped == ("queue.other()",)
    assert routines(empty) == {"answer(text)"}


def test_files_may_call_each_other_in_any_order(empty: Database, small: Source) -> None:
    write(small, "internal/_a", "_a() returns int", "select queue._b()")
    write(small, "internal/_b", "_b() returns int", "select 7")
    migrate(empty.url, source=small)
    assert scalar(empty, "select queue._a()") == 7


def test_a_broken_body_is_named_and_changes_nothing(empty: Database, small: Source) -> None:
    migrate(empty.url, source=small)
    write(small, "worker/answer", "answer(question text) returns int", "select 43")
    write(small, "worker/broken", "broken() returns int", "select nothing_of_the_kind()")
    with pytest.raises(RowlockError, match=r"queue\.broken\(\)"):
        migrate(empty.url, source=small)
    (small.folder / "functions" / "worker" / "broken.sql").write_text("create or replace oops;")
    with pytest.raises(RowlockError, match=r"db/functions/worker/broken\.sql"):
        migrate(empty.url, source=small)
    assert scalar(empty, "select queue.answer('?')") == 42
    assert routines(empty) == {"answer(text)"}


def test_tables_of_other_migrations_are_said_to_be(empty: Database, small: Source) -> None:
    migrate(empty.url, source=small)
    write(small, "worker/newer", "newer() returns bigint", "select since from queue.answers")
    with pytest.raises(RowlockError, match=r"queue\.newer\(\)") as raised:
        migrate(empty.url, source=small)
    assert "made by other migrations" in str(raised.value.hint)


def test_grants_are_those_of_the_files(empty: Database, small: Source) -> None:
    grant = "grant execute on function queue.answer to queue_worker, queue_producer;"
    write(small, "worker/answer", "answer(question text) returns int", "select 42", grant)
    migrate(empty.url, source=small)
    fewer = "grant execute on function queue.answer to queue_worker;"
    write(small, "worker/answer", "answer(question text) returns int", "select 42", fewer)
    migrate(empty.url, source=small)
    may = "select has_function_privilege('{}', 'queue.answer(text)', 'execute')"
    assert scalar(empty, may.format("queue_worker")) is True
    assert scalar(empty, may.format("queue_producer")) is False
    assert scalar(empty, may.format("public")) is False


# -- drift


def test_check_names_what_was_changed_by_hand_and_migrate_mends_it(
    empty: Database, small: Source
) -> None:
    write(small, "worker/gone", "gone() returns int", "select 1")
    more = "grant execute on function queue.denied to queue_worker;"
    write(small, "worker/denied", "denied() returns int", "select 1", more)
    migrate(empty.url, source=small)
    with empty.connect() as conn:
        conn.execute("drop function queue.gone()")
        conn.execute("revoke execute on function queue.denied from queue_worker")
        conn.execute("create function queue.stray() returns int language sql as 'select 1'")
        conn.execute(
            "create or replace function queue.answer(question text) returns int "
            "language sql as 'select 43'"
        )
    differences = [
        "function differs from its file: queue.answer(text)",
        "function differs from its file: queue.denied()",
        "function without a file: queue.stray()",
        "missing function: queue.gone()",
    ]
    assert check(empty.url, source=small) == differences
    assert scalar(empty, "select queue.answer('?')") == 43  # it only looked
    assert migrate(empty.url, source=small).functions == 3
    assert check(empty.url, source=small) == []
    assert scalar(empty, "select queue.answer('?')") == 42


def test_an_administrators_own_grant_is_no_drift(empty: Database, small: Source) -> None:
    migrate(empty.url, source=small)
    with empty.connect() as conn:
        conn.execute("grant execute on function queue.answer to pg_monitor")
    assert check(empty.url, source=small) == []
    assert not migrate(empty.url, source=small).changed


def test_check_of_an_empty_database(empty: Database) -> None:
    assert check(empty.url) == ["missing: schema queue"]
    assert scalar(empty, "select to_regnamespace('queue') is null")


# -- versions


def test_an_older_rowlock_does_not_undo_a_newer_one(
    empty: Database, small: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Source, "version", lambda self: "1.10.0")
    migrate(empty.url, source=small)
    monkeypatch.setattr(Source, "version", lambda self: "1.9.0")
    write(small, "worker/answer", "answer(question text) returns int", "select 41")
    with pytest.raises(WrongState, match=r"1\.10\.0"):
        migrate(empty.url, source=small)
    assert scalar(empty, "select queue.answer('?')") == 42
    assert migrate(empty.url, source=small, downgrade=True).functions == 1


def test_a_database_with_later_migrations_is_left_alone(empty: Database, small: Source) -> None:
    later = small.folder / "migrations" / "0002.later.sql"
    later.write_text("create table queue.later (a int);")
    migrate(empty.url, source=small)
    later.unlink()
    with pytest.raises(WrongState, match=r"0002\.later"):
        migrate(empty.url, source=small, downgrade=True)
    assert check(empty.url, source=small) == ["unknown migration: 0002.later"]


# -- under traffic


def test_no_error_reaches_a_caller_while_migrations_pass(
    database: Database, source: Source
) -> None:
    """Bodies, a signature and a table change five times under enqueue, claim, renew, complete."""
    failures: list[BaseException] = []
    done = [0, 0]
    stop = threading.Event()

    def caller(work: Callable[[Client], int], place: int) -> None:
        try:
            with connect(database.url, "traffic") as conn:
                db = Client(conn)
                while not stop.is_set():
                    done[place] += work(db)
        except BaseException as exc:
            failures.append(exc)

    def produce(db: Client) -> int:
        return len(db.enqueue_many([NewJob(kind="k", payload={"n": 1})] * 5))

    def consume(db: Client) -> int:
        claims = db.claim("w", max_jobs=5)
        db.renew([claim.job_id for claim in claims], [claim.fence for claim in claims])
        for claim in claims:
            db.progress(claim.job_id, claim.fence, 50)
            db.complete(claim.job_id, claim.fence, {"ok": True})
        db.next_due()
        return len(claims)

    threads = [
        threading.Thread(target=caller, args=[produce, 0]),
        threading.Thread(target=caller, args=[consume, 1]),
        threading.Thread(target=caller, args=[consume, 1]),
    ]
    for thread in threads:
        thread.start()
    try:
        progress = source.folder / "functions" / "worker" / "progress.sql"
        original = progress.read_text()
        assert "message text default null\n)" in original
        changed = original.replace(
            "message text default null\n)", "message text default null,\n  extra int default 0\n)"
        )
        for n in range(5):
            time.sleep(0.3)
            progress.write_text(changed if n % 2 == 0 else original)
            (source.folder / "migrations" / f"900{n}.column.sql").write_text(
                f"alter table queue.jobs add column extra_{n} int;"
            )
            result = migrate(database.url, source=source)
            assert result.functions
            assert len(result.migrations) == 1
            assert [name.split("(")[0] for name in result.dropped] == ["queue.progress"]
            if failures:
                break
        time.sleep(0.3)
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert failures == []
    assert min(done) > 0


def test_a_table_in_use_is_not_waited_for_longer_than_callers_wait(
    database: Database, source: Source
) -> None:
    """A migration that needs a lock steps back again and again; callers get through meanwhile."""
    (source.folder / "migrations" / "9000.column.sql").write_text(
        "alter table queue.jobs add column extra int;"
    )
    with database.connect(autocommit=False) as reader, connect(database.url, "test") as conn:
        reader.execute("select count(*) from queue.jobs")
        results: list[deploy.Deployment] = []
        thread = threading.Thread(
            target=lambda: results.append(migrate(database.url, source=source))
        )
        thread.start()
        try:
            until = time.monotonic() + 3
            while time.monotonic() < until:
                Client(conn).enqueue("k")
            assert thread.is_alive()
            assert results == []
        finally:
            reader.rollback()
            thread.join(30)
    assert [result.migrations for result in results] == [("9000.column",)]


# -- rights


@pytest.fixture
def own_server(pytestconfig: pytest.Config) -> Iterator[embedded.Server]:
    """A cluster of this test's own, without any role of ours."""
    wanted = os.environ.get("PG")
    with servers.start(int(wanted) if wanted else None, profile=False) as server:
        yield server


def new_database(server: embedded.Server, name: str, owner: str = "postgres") -> str:
    with psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute(f"create database {name} owner {owner}")
    return with_database(server.url, name)


def run_as_superuser(server: embedded.Server, *statements: str) -> None:
    with psycopg.connect(server.url, autocommit=True) as conn:
        for statement in statements:
            conn.execute(statement)


def test_without_createrole_it_says_what_it_needs_and_works_with_it(
    own_server: embedded.Server,
) -> None:
    run_as_superuser(own_server, "create role deployer login")
    admin_url = new_database(own_server, "shop")
    url = with_user(admin_url, "deployer", "")

    with pytest.raises(NotAllowed) as caught:
        migrate(url)
    assert "queue_owner" in str(caught.value)
    assert "rowlock migrate --roles" in (caught.value.hint or "")
    with pytest.raises(NotAllowed, match="queue_owner"):
        check(url)

    run_as_superuser(own_server, roles_script("deployer"))
    with pytest.raises(NotAllowed) as caught:
        migrate(url)
    assert 'grant create on database "shop" to "deployer"' in (caught.value.hint or "")

    run_as_superuser(own_server, "grant create on database shop to deployer")
    assert migrate(url).functions
    assert check(url) == []
    with psycopg.connect(admin_url, autocommit=True) as conn:
        row = conn.execute(
            "select bool_and(pg_get_userbyid(relowner) = 'queue_owner') from pg_class "
            "where relnamespace = 'queue'::regnamespace"
        ).fetchone()
        assert row == (True,)


def test_a_login_with_createrole_makes_the_roles_itself(own_server: embedded.Server) -> None:
    run_as_superuser(own_server, "create role maker login createrole")
    url = with_user(new_database(own_server, "shop", "maker"), "maker", "")
    done = migrate(url)
    assert {f"role {role} created" for role in deploy.ROLES} <= set(done.roles)
    assert check(url) == []
    # The roles serve another database of the cluster too.
    other = with_user(new_database(own_server, "other", "maker"), "maker", "")
    assert migrate(other).roles == ()


def test_the_dashboards_role_has_nothing_until_it_takes_a_role_on(
    own_server: embedded.Server,
) -> None:
    admin_url = new_database(own_server, "shop")
    migrate(admin_url)
    run_as_superuser(own_server, "create role dashboard login in role queue_web")
    with psycopg.connect(with_user(admin_url, "dashboard", ""), autocommit=True) as conn:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("select * from queue.stats()")
        for role in ("viewer", "operator", "admin"):
            with conn.transaction():
                conn.execute(f"set local role queue_{role}")
                conn.execute("select * from queue.stats()")
        with conn.transaction():
            conn.execute("set local role queue_viewer")
            with pytest.raises(psycopg.errors.InsufficientPrivilege), conn.transaction():
                conn.execute("select * from queue.retry(1)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("set role queue_owner")


def test_a_schema_of_somebody_elses_is_left_alone(empty: Database) -> None:
    with empty.connect() as conn:
        conn.execute("create schema queue")
        conn.execute("create function queue.theirs() returns int language sql as 'select 1'")
    with pytest.raises(WrongState, match="belongs to postgres"):
        migrate(empty.url)
    with pytest.raises(WrongState, match="not Rowlock's"):
        uninstall(empty.url)
    assert routines(empty) == {"theirs()"}


def test_a_database_that_cannot_hold_every_payload_is_refused(
    own_server: embedded.Server,
) -> None:
    run_as_superuser(
        own_server, "create database latin encoding 'LATIN1' locale 'C' template template0"
    )
    with pytest.raises(WrongState, match="LATIN1"):
        migrate(with_database(own_server.url, "latin"))


# -- removing it


def test_uninstall_removes_everything_and_says_what_it_left(own_server: embedded.Server) -> None:
    one, two = new_database(own_server, "one"), new_database(own_server, "two")
    migrate(one)
    migrate(two)
    run_as_superuser(own_server, "create role app login in role queue_worker")

    first = uninstall(one)
    assert "schema queue" in first.removed
    assert len(first.left) == len(deploy.ROLES)  # the other database uses them all
    with connect(two, "test") as conn:
        assert Client(conn).enqueue("k").created

    second = uninstall(two)
    assert second.left == ("role queue_worker: granted to app",)
    assert "role queue_owner" in second.removed
    assert uninstall(two).removed == ()

    assert migrate(one).migrations
    assert check(one) == []


# -- other ways in


def test_the_script_for_psql_does_the_same(empty: Database) -> None:
    with empty.connect() as conn:
        conn.execute(sql_script())
    assert not migrate(empty.url).changed
    assert check(empty.url) == []
    with connect(empty.url, "test") as conn:
        assert Client(conn).enqueue("k").created


def test_the_script_leaves_out_what_is_there(empty: Database, small: Source) -> None:
    migrate(empty.url, source=small)
    (small.folder / "migrations" / "0002.more.sql").write_text("create table queue.more (a int);")
    script = sql_script(deploy.applied(empty.url), source=small)
    with empty.connect() as conn:
        conn.execute(script)
    assert not migrate(empty.url, source=small).changed


@pytest.mark.parametrize("form", ["plain", "custom"])
def test_a_dump_of_a_live_queue_restored_into_another_cluster(
    database: Database, cluster: Cluster, own_server: embedded.Server, tmp_path: Path, form: str
) -> None:
    wanted = os.environ.get("PG")
    bindir = servers.binaries(int(wanted) if wanted else None)
    if not (bindir / "pg_dump").exists():
        pytest.skip(f"these server binaries come without pg_dump: PG={wanted}")
    with connect(database.url, "test") as conn:
        db = Client(conn)
        db.enqueue_many([NewJob(kind="k", idempotency_key=f"key-{n}") for n in range(10)])
        (running,) = db.claim("w")
        (finished,) = db.claim("w")
        db.complete(finished.job_id, finished.fence)
        events = len(db.list_events(max_events=1000).rows)
    with database.connect() as conn:
        conn.execute("drop schema queue_tests cascade")
        conn.execute("drop extension if exists plpgsql_check, pgtap cascade")
        conn.execute("drop schema tap cascade")
    dump = tmp_path / "dump"
    restored = new_database(own_server, "restored")
    run_as_superuser(own_server, roles_script())
    subprocess.run([bindir / "pg_dump", "--format", form, "--file", dump, database.url], check=True)
    if form == "plain":
        options = ["-qX", "-v", "ON_ERROR_STOP=1", "-f", str(dump), restored]
        command = [str(bindir / "psql"), *options]
    else:
        options = ["--exit-on-error", "--dbname", restored, str(dump)]
        command = [str(bindir / "pg_restore"), *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    assert "restored from another cluster, not adopted yet" in check(restored)
    done = migrate(restored)
    assert done.adopted
    assert done.migrations == ()
    assert not migrate(restored).changed
    assert check(restored) == []

    with connect(restored, "test") as conn:
        db = Client(conn)
        assert not db.enqueue("k", idempotency_key="key-5").created
        made = db.enqueue("k", priority=9)
        assert made.created
        assert made.job_id > max(running.job_id, finished.job_id)
        assert db.get_job(running.job_id).status == "running"
        assert len(db.list_events(max_events=1000).rows) == events + 1
        (claim,) = db.claim("w2")
        assert claim.job_id == made.job_id
        assert db.complete(claim.job_id, claim.fence).status == "succeeded"


def test_an_installed_wheel_away_from_the_clone(empty: Database, tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        # Without hatchling beside the tests, as pip does it.
        subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
            check=True,
        )
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    shutil.unpack_archive(wheel, site, "zip")
    assert (site / "pyworker" / "_db" / "roles.sql").is_file()
    script = "import pyworker.cli as cli; print(cli.__file__, flush=True); cli.main()"
    run = subprocess.run(
        [sys.executable, "-c", script, "migrate", "--database-url", empty.url],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(str(site))
    assert check(empty.url) == []
