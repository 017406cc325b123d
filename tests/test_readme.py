"""The README's code runs as it stands, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import click
import pytest

from pyworker import Client, cli
from tests.test_examples import Connection, surroundings

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "examples" / "README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def psql(url: str, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-f", "-"],
        env=surroundings(url),
        input=script,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def orders(conn: Connection) -> None:
    conn.execute("create table orders (customer text)")


@pytest.mark.usefixtures("orders")
def test_the_sql_takes_a_job_from_enqueue_to_its_history(url: str, conn: Connection) -> None:
    (script,) = blocks("sql")

    done = psql(url, script)

    assert done.returncode == 0, done.stderr
    assert conn.execute("select count(*) from orders").fetchone() == (1,)
    (job,) = Client(conn).list_jobs().rows
    assert (job.status, job.priority) == ("succeeded", 7)
    assert [event.event for event in Client(conn).list_events(job.id).rows] == [
        "enqueued", "claimed", "succeeded",
    ]  # fmt: skip
    assert " held" in done.stdout
    assert done.stdout.rstrip().endswith("(3 rows)")


@pytest.mark.usefixtures("orders")
def test_the_python_declares_enqueues_and_runs_a_job(
    url: str, conn: Connection, tmp_path: Path
) -> None:
    declare, enqueue = blocks("python")
    assert declare.startswith("# mail.py\n")
    (tmp_path / "mail.py").write_text(declare)
    (tmp_path / "enqueue.py").write_text(enqueue)
    (command,) = re.findall(r"^    rowlock (worker .*)$", README, re.MULTILINE)

    def run(*arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=surroundings(url),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

    run("enqueue.py")
    run("-c", "from pyworker.cli import main; main()", *command.split(), "--burst")

    (listed,) = Client(conn).list_jobs({"queue": "email"}).rows
    job = Client(conn).get_job(listed.id)
    assert (job.status, job.result) == ("succeeded", {"sent to": "ada@customer.example"})
    assert (job.max_attempts, job.timeout) == (8, timedelta(minutes=2))
    assert (job.idempotency_key, job.progress_message) == ("order-42", "rendered")
    assert conn.execute("select count(*) from orders").fetchone() == (1,)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = page.parent / unquote(path) if path else page
        assert place.exists(), f"{page.name} links to {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", place.read_text(), re.MULTILINE)
            anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
            anchors += re.findall(r"^\*\*([\w ]+)\.\*\*", place.read_text(), re.MULTILINE)
            assert anchor in anchors, f"{page.name} links to {target}"


@pytest.mark.parametrize("drawing", ["states", "architecture", "lease"])
def test_each_drawing_is_described_and_has_a_dark_side(drawing: str) -> None:
    tree = ElementTree.parse(ROOT / "docs" / "images" / f"{drawing}.svg")
    names = {"svg": "http://www.w3.org/2000/svg"}
    assert tree.findtext("svg:title", namespaces=names)
    assert tree.findtext("svg:desc", namespaces=names)
    assert "prefers-color-scheme: dark" in (tree.findtext("svg:style", namespaces=names) or "")
    assert f"docs/images/{drawing}.svg" in README


@pytest.mark.parametrize("picture", ["overview", "job", "dead-letters"])
def test_each_picture_of_the_dashboard_is_described_small_and_has_a_dark_side(picture: str) -> None:
    (alt,) = re.findall(rf'<img src="docs/images/{picture}\.png" alt="([^"]+)">', README)
    assert len(alt) > 40
    assert f'srcset="docs/images/{picture}-dark.png"' in README
    for name in (picture, f"{picture}-dark"):
        file = ROOT / "docs" / "images" / f"{name}.png"
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size < 250_000


def test_the_drawing_of_the_states_names_every_function_of_the_table() -> None:
    drawing = (ROOT / "docs" / "images" / "states.svg").read_text()
    verbs = set(
        re.findall(r"\w+", " ".join(re.findall(r'class="verb[^"]*"[^>]*>([^<]*)<', drawing)))
    )
    table = set(
        re.findall(r"db/functions/(?:producer|worker|operator|scheduler)/(\w+)\.sql", README)
    )
    assert verbs - {"160"} == table - {"settle", "tick"}


def test_the_arrows_are_those_of_the_functions_files() -> None:
    """Each function of the table says so itself in the first line of its file."""
    rows = re.findall(r"^\| ([^|]*->[^|]*) \| ([^|]*) \| ([^|]*) \|$", README, re.MULTILINE)
    table = (ROOT / "db" / "migrations" / "0002.events.sql").read_text()
    (listed,) = re.findall(r"value in \((.*?)\)", table, re.DOTALL)
    known = set(re.findall(r"'(\w+)'", listed))
    told: set[str] = set()
    for arrow, functions, events in rows:
        target = re.split(r"[,:]", arrow.split("->")[1].strip())[0].split(" ")[0]
        for path in re.findall(r"\((db/[^)]+)\)", functions):
            first = (ROOT / path).read_text().splitlines()[0]
            assert target in first, f"{path}: {first} does not say {arrow}"
        told |= set(re.findall(r"\w+", events)) - {"none"}

    assert len(rows) == 15
    assert told == known


def test_every_command_that_the_readme_names_exists() -> None:
    spans = re.findall(r"`(?:[\w./]*/)?rowlock ([^`]*)`", README)
    spans += re.findall(r"^    rowlock (.*)$", README, re.MULTILINE)
    assert len(spans) > 10
    for span in spans:
        words = span.split()
        command: click.Command = cli.main
        options = {"--help"} | {name for parameter in command.params for name in parameter.opts}
        while words:
            word = words.pop(0)
            if word.startswith("-"):
                assert word in options, f"rowlock {span}: no {word}"
            elif isinstance(command, click.Group):
                assert word in command.commands, f"rowlock {span}: no {word}"
                command = command.commands[word]
                options |= {name for parameter in command.params for name in parameter.opts}
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z_]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def test_the_defaults_are_those_of_a_fresh_database(conn: Connection) -> None:
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)?) \| ([^|]*) \| ([^|]*) \|", README, re.MULTILINE)
    told = {
        name.strip(" `"): value.strip()
        for names, values, _ in rows
        for name, value in zip(names.split(","), values.split(","), strict=True)
        if not name.strip(" `").isupper()
    }
    units = {"min": "minutes", "h": "hours", "s": "seconds", "days": "days", "": ""}
    settings = {row.name: row.value for row in Client(conn).set_settings({})}
    assert set(told) == set(settings) | {"timeout"}
    for name, value in settings.items():
        assert value is not None
        number, _, unit = told[name].partition(" ")
        if name == "claim_floor":
            assert (number, value) == ("on", "true")
        elif unit:
            row = conn.execute(
                "select %s::interval = %s::interval", [f"{number} {units[unit]}", value]
            ).fetchone()
            assert row == (True,), f"{name}: {told[name]} is {value}"
        else:
            assert number == value
