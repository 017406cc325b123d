"""Rules about the files themselves: what is where, and that nothing is without its counterpart."""

from __future__ import annotations

import re
from pathlib import Path

from pyworker import errors
from tests.support.cluster import Connection

ROOT = Path(__file__).parents[1]
FUNCTIONS = ROOT / "db" / "functions"
TESTS = ROOT / "db" / "tests"
OTHER_TESTS = {"guards", "races", "schema", "support"}

GRANTED_TO = {
    # By hand an operator enqueues one too.
    "producer": {"queue_producer", "queue_operator"},
    "worker": {"queue_worker"},
    "operator": {"queue_operator"},
    "observer": {"queue_viewer"},
    "admin": {"queue_admin"},
    "web": {"queue_web"},
    # A step of upkeep is an administrator's; doing the next one is for all who keep things going.
    "scheduler": {"queue_admin", "queue_worker", "queue_operator"},
}

FILES = sorted(FUNCTIONS.glob("*/*.sql"))
PUBLIC = [path for path in FILES if path.parent.name in GRANTED_TO]


def code_of(path: Path) -> str:
    """A function's file without comments and with every string literal of its body emptied."""
    text = re.sub(r"--[^\n]*", "", path.read_text())
    return re.sub(r"'(?:[^']|'')*'", lambda found: found[0] if "RL" in found[0] else "''", text)


def raises_of(path: Path) -> list[str]:
    return re.findall(r"\braise\s+exception\b[^;]*;", code_of(path))


def codes_of(path: Path) -> set[str]:
    return {code for raised in raises_of(path) for code in re.findall(r"RL\d{3}", raised)}


# -- functions and their files ---------------------------------------------------------------------


def test_there_are_functions() -> None:
    assert len(PUBLIC) > 30
    assert {path.parent.name for path in FILES} <= {*GRANTED_TO, "internal", "retired"}


def test_a_file_holds_the_function_it_is_named_after() -> None:
    for path in FILES:
        text = path.read_text()
        created = re.findall(r"^create or replace (?:function|procedure) queue\.(\w+)", text, re.M)
        assert created == [path.stem]
        assert text.startswith(f"-- queue.{path.stem}: "), path
        comment = rf"^comment on (?:function|procedure) queue\.{path.stem}\b"
        assert re.search(comment, text, re.M), path


def test_every_function_has_a_file_and_every_file_a_function(conn: Connection) -> None:
    there = {
        name
        for (name,) in conn.execute(
            "select proname from pg_proc where pronamespace = 'queue'::regnamespace"
        )
    }
    assert there == {path.stem for path in FILES}


def test_the_folder_says_who_may_call() -> None:
    for path in PUBLIC:
        grants = re.findall(
            rf"^grant execute on (?:function|procedure) queue\.{path.stem}\b[^;]*? to ([^;]+);",
            path.read_text(),
            re.M,
        )
        assert len(grants) == 1, path
        granted = {role.strip() for role in grants[0].split(",")}
        assert granted <= GRANTED_TO[path.parent.name], path


def test_helpers_are_internal_and_nothing_else_is() -> None:
    for path in FILES:
        assert path.stem.startswith("_") == (path.parent.name == "internal"), path


# -- tests -----------------------------------------------------------------------------------------


def test_a_public_function_has_a_test() -> None:
    untested = [
        str(path.relative_to(FUNCTIONS))
        for path in PUBLIC
        if not (TESTS / path.relative_to(FUNCTIONS)).exists()
    ]
    assert untested == []


def test_a_test_is_about_a_function() -> None:
    about = {path.relative_to(FUNCTIONS) for path in FILES}
    for path in TESTS.glob("*/*.sql"):
        place = path.relative_to(TESTS)
        assert place in about or place.parent.name in OTHER_TESTS, place


def test_a_test_file_runs_anywhere_and_leaves_nothing() -> None:
    for path in TESTS.glob("*/*.sql"):
        text = path.read_text()
        assert not re.search(r"^\\", text, re.M), f"psql's own commands run under psql only: {path}"
        literals = re.sub(r"'[^']*'", "", text)
        assert "pg_sleep(" not in literals, f"time passes by ageing rows: {path}"
        if path.parent.name != "support":
            assert re.search(r"^begin;$", text, re.M), path
            assert re.search(r"^select \* from finish\(\);\nrollback;$", text, re.M), path


def test_lines_are_short() -> None:
    for paths, most in (TESTS.rglob("*.sql"), 100), (FILES, 120):
        for path in paths:
            for number, line in enumerate(path.read_text().splitlines(), 1):
                assert len(line) <= most, f"{path.relative_to(ROOT)}:{number}"


# -- errors ----------------------------------------------------------------------------------------


def test_every_error_of_ours_has_a_code_and_a_hint() -> None:
    for path in FILES:
        for raised in raises_of(path):
            assert re.search(r"errcode = .*'RL\d{3}'", raised), (path, raised)
            assert re.search(r"\bhint = ", raised), (path, raised)


def documented() -> dict[str, list[str]]:
    """The rows of the first table of docs/errors.md, by code."""
    rows = re.findall(r"^\| (RL\d{3}) \|(.*)\|$", (ROOT / "docs" / "errors.md").read_text(), re.M)
    return {code: [cell.strip() for cell in rest.split("|")] for code, rest in rows}


def test_the_documented_codes_are_those_that_are_raised() -> None:
    assert sorted(documented()) == sorted(set[str]().union(*map(codes_of, FILES)))


def test_each_code_has_its_status_a_meaning_and_a_remedy() -> None:
    for code, cells in documented().items():
        status, meaning, remedy = cells
        assert status.startswith(code[2:]), code
        assert len(meaning) > 20, code
        assert len(remedy) > 20, code


def test_each_code_has_a_class() -> None:
    known = {
        item.code
        for item in vars(errors).values()
        if isinstance(item, type) and issubclass(item, errors.RowlockError)
    }
    assert set(documented()) <= known


def test_the_raises_are_really_read() -> None:
    """A guard of the guards above: a body of each kind, and what must be found in it."""
    assert codes_of(FUNCTIONS / "internal" / "_lock_claim.sql") == {"RL404", "RL409"}
    assert len(raises_of(FUNCTIONS / "internal" / "_lock_claim.sql")) == 2
    assert codes_of(FUNCTIONS / "internal" / "_check_same_job.sql") == {"RL422"}
    assert codes_of(FUNCTIONS / "worker" / "claim.sql") == {"RL400"}
    for path in FILES:
        assert len(raises_of(path)) == path.read_text().count("raise exception"), path
