"""The command line: what it prints, where, and how it exits."""

from __future__ import annotations

import csv
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from pyworker import cli, deploy, embedded
from pyworker.cli import shared
from pyworker.cli.output import print_settings
from pyworker.client import Client, NewJob, connect
from pyworker.errors import NotAllowed, Unavailable
from tests.support.cluster import Cluster, Database, with_user
from tests.support.servers import ROOT

Rowlock = Callable[..., Result]


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), logging.getLogger("rowlock")]
    before = [(list(logger.handlers), logger.level) for logger in loggers]
    yield
    for logger, (handlers, level) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)


def run(*arguments: str, stdin: str | bytes | None = None) -> Result:
    result = CliRunner().invoke(cli.main, [str(argument) for argument in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture
def rowlock(url: str, monkeypatch: pytest.MonkeyPatch) -> Rowlock:
    """`rowlock ...` on this test's own database."""
    monkeypatch.setenv("ROWLOCK_DATABASE_URL", url)
    return run


@pytest.fixture
def db(url: str) -> Iterator[Client]:
    with connect(url, "test") as conn:
        yield Client(conn)


def rows(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


# -- all commands


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


@pytest.mark.parametrize(("name", "command"), list(commands(cli.main)))
def test_every_command_explains_itself_and_takes_the_shared_options(
    name: str, command: click.Command
) -> None:
    assert command.help
    shared = {option for param in command.params for option in param.opts}
    assert {"--database-url", "--embedded", "--output", "--verbose"} <= shared
    assert run(*name.split(), "--help").exit_code == 0


def test_the_database_is_stated_on_stderr_without_a_password(database: Database) -> None:
    url = with_user(database.url, "postgres", "s3cret")
    result = run("stats", "--database-url", url)
    assert result.exit_code == 0
    assert "database: postgresql://postgres@" in result.stderr
    assert "--database-url" in result.stderr
    assert "s3cret" not in result.output
    assert "database:" not in result.stdout


def test_options_may_stand_before_and_after_the_command(url: str) -> None:
    before = run("--database-url", url, "-o", "json", "stats")
    after = run("stats", "--database-url", url, "-o", "json")
    names = [{row["name"] for row in json.loads(result.stdout)} for result in (before, after)]
    assert names[0] == names[1]
    assert "ready" in names[0]


_EXIT_CODES: list[tuple[list[str], int]] = [
    (["stats"], 0),
    (["enqueue", "NOT A KIND"], 2),
    (["enqueue", "k", "{"], 2),
    (["enqueue", "k", "--in", "soon"], 2),
    (["enqueue", "k", "--at", "2031-01-01T00:00:00"], 2),
    (["job", "list", "nothing"], 2),
    (["job", "list", "unknown:1"], 2),
    (["queue", "set", "q"], 2),
    (["queue", "set", "q", "colour=red"], 2),
    (["queue", "set", "q", "lease=1000d"], 2),
    (["queue", "set", "q", "max_attempts=99999999999"], 2),
    (["queue", "policy", "NOT A QUEUE"], 2),
    (["settings", "set"], 2),
    (["settings", "set", "lease"], 2),
    (["settings", "set", "lease=1m", "lease=2m"], 2),
    (["migrate", "--check", "--sql"], 2),
    (["migrate", "--migrator", "x"], 2),
    (["migrate", "--yes"], 2),
    (["migrate", "--uninstall", "--database-url", ""], 2),
    (["job", "list", "queue:a", "queue:b"], 2),
    (["job", "list", "created_before:2020-01-01"], 2),
    (["events", "kind:a", "kind:b"], 2),
    (["events", "event:fialed"], 2),
    (["job", "show", "99999999999999999999"], 2),
    (["enqueue", "k", "--priority", "99999999999"], 2),
    (["dead", "--limit", "99999999999"], 2),
    (["queue", "pause", "q", "--for", "999999999d"], 2),
    (["job", "bulk", "reprioritize", "kind:k", "--yes"], 2),
    (["job", "bulk", "discard", "status:queued", "--dry-run"], 2),
    (["job", "bulk", "retry", "--all", "--in", "9999d", "--dry-run"], 2),
    (["events", "--follow", "--cursor", "1/1:1:"], 4),
    (["nonsense"], 2),
    (["worker", "--app", "nonsense"], 2),
    (["worker", "--app", "no.such.module:app"], 2),
    (["worker", "--app", "json:loads"], 2),
    (["job", "show", "4711"], 3),
    (["job", "events", "4711"], 3),
    (["job", "events", "4711", "-o", "json"], 3),
    (["job", "attempts", "4711"], 3),
    (["token", "revoke", "4711"], 3),
    (["account", "role", "nobody", "admin"], 3),
    (["account", "disable", "nobody"], 3),
    (["account", "enable", "nobody"], 3),
    (["account", "link", "nobody"], 3),
    (["job", "cancel", "4711"], 3),
    (["job", "retry", "1"], 4),
    (["enqueue", "other", "--key", "taken"], 4),
    (["stats", "--database-url", "postgresql://127.0.0.1:1/x"], 5),
    (["worker", "--app", "tests.workers:app", "--burst", "--database-url", "host=::1 port=1"], 5),
    (["cron", "install"], 5),
    (["health", "--worker", "127.0.0.1:1"], 5),
    (["health", "--worker", "http://127.0.0.1:x"], 5),
    (["health", "--worker", ""], 2),
    (["health", "--worker", "file:///etc/hostname"], 2),
    (["job", "list", "created_after:yesterday"], 2),
]


def test_exit_codes(rowlock: Rowlock, db: Client) -> None:
    db.enqueue("k", idempotency_key="taken")
    for arguments, code in _EXIT_CODES:
        result = rowlock(*arguments)
        assert result.exit_code == code, f"{arguments}: {result.output}"
        assert "Traceback" not in result.output
        assert code == 0 or not result.stdout


def test_no_database_named_is_unreachable_and_names_the_variables() -> None:
    result = run("stats")
    assert result.exit_code == 5
    for variable in ("ROWLOCK_DATABASE_URL", "DATABASE_URL", "PGHOST"):
        assert variable in result.stderr


def test_who_may_not_is_denied(database: Database) -> None:
    url = database.url_as("queue_producer")
    assert run("enqueue", "k", "--database-url", url).exit_code == 0
    denied = run("stats", "--database-url", url)
    assert denied.exit_code == 6
    assert "queue_" in denied.stderr


# -- output


def test_json_has_every_column_and_a_table_the_telling_ones(rowlock: Rowlock, db: Client) -> None:
    job_id = db.enqueue("email.send", {"to": "ä"}).job_id
    (row,) = json.loads(rowlock("job", "list", "-o", "json").stdout)
    assert (row["id"], row["label"], row["progress"]) == (job_id, "ready", None)
    assert row["created_at"].endswith("Z")
    (line,) = rows(rowlock("job", "list", "-o", "jsonl"))
    assert line == row
    table = rowlock("job", "list").stdout.splitlines()
    assert table[0].split()[:3] == ["ID", "KIND", "QUEUE"]
    assert table[1].split()[:4] == [str(job_id), "email.send", "default", "ready"]
    shown = json.loads(rowlock("job", "show", str(job_id), "-o", "json").stdout)
    assert shown["payload"] == {"to": "ä"}


def test_a_jobs_text_cannot_drive_the_terminal(rowlock: Rowlock, db: Client) -> None:
    job_id = db.enqueue("k", {"x": "\x1b[2J\u202e"}, max_attempts=1).job_id
    (claim,) = db.claim("w")
    db.fail(job_id, claim.fence, "Bad\rType\u202e\x07", "one\r\ntwo\x1b]0;title\x07")
    for arguments in (
        ["job", "list"],
        ["job", "show", str(job_id)],
        ["job", "events", str(job_id)],
        ["job", "attempts", str(job_id)],
        ["dead"],
        ["events"],
    ):
        for output in ("table", "json", "jsonl", "csv"):
            result = rowlock(*arguments, "-o", output)
            assert result.exit_code == 0
            assert not {"\x1b", "\r", "\x07", "\u202e"} & set(result.output)
    assert "two" in rowlock("job", "show", str(job_id)).stdout


@pytest.mark.parametrize(
    "arguments",
    [["stats", "\x1b[2J"], ["\x1b[2J"], ["enqueue", "k", "@\x1b[2J"], ["enqueue", "\x1b[2J"]],
)
def test_a_refused_argument_is_told_without_its_control_characters(
    rowlock: Rowlock, arguments: list[str]
) -> None:
    result = rowlock(*arguments)
    assert result.exit_code == 2
    assert "\\x1b[2J" in result.stderr
    assert "\x1b" not in result.output


def command(line: str, url: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "pyworker.cli", *line.split(), "--database-url", url],
        capture_output=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def test_an_encoding_without_a_character_does_not_end_the_output(url: str, db: Client) -> None:
    job_id = db.enqueue("k", {"to": "日本", "last": "x" * 99}).job_id
    for line, told in ((f"job show {job_id}", b"\\u65e5"), (f"job events {job_id}", b"enqueued")):
        done = command(line, url, PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
        assert (done.returncode, told in done.stdout) == (0, True), done.stderr


def test_no_color_is_heeded_on_a_terminal(url: str) -> None:
    def on_a_terminal(**environment: str) -> bytes:
        ours, theirs = os.openpty()
        with open(ours, "rb", buffering=0) as screen:
            subprocess.run(
                [sys.executable, "-m", "pyworker.cli", "settings", "show", "--database-url", url],
                stdout=theirs,
                stderr=theirs,
                cwd=ROOT,
                env={**os.environ, "TERM": "xterm", **environment},
                check=True,
            )
            os.close(theirs)
            return screen.read(10_000)

    assert b"\x1b[1mNAME" in on_a_terminal(NO_COLOR="")
    assert b"\x1b" not in on_a_terminal(NO_COLOR="1")
    assert b"\x1b" not in on_a_terminal(TERM="dumb", NO_COLOR="")


def test_help_is_quick_and_no_summary_is_cut_short() -> None:
    """A summary that does not fit its line ends in dots."""
    for path in ("", "job", "queue", "settings", "account", "token", "cron"):
        listed = run(*path.split(), "--help").stdout.partition("Commands:")[2]
        assert "..." not in listed, path
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "pyworker.cli", "--help"], cwd=ROOT, check=True, capture_output=True
    )
    after = os.times()
    assert sum(after[2:4]) - sum(before[2:4]) < 1


@pytest.mark.parametrize(
    ("told", "redirection"),
    [("", "| head -n 1 > /dev/null"), ("No space left on device", "> /dev/full")],
)
def test_a_reader_that_has_gone_ends_it_quietly(
    told: str, redirection: str, url: str, db: Client
) -> None:
    db.enqueue_many([NewJob(kind="k" * 60)] * 1000)
    for output in ("table", "jsonl"):
        command = f"job list --limit 1000 -o {output} --database-url '{url}'"
        line = f"{sys.executable} -m pyworker.cli {command} {redirection}; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT)
        assert done.stdout.split()[-1:] == ["1"], (output, done)
        assert not {"Traceback", "Exception"} & set(done.stderr.split()), done.stderr
        assert told in done.stderr


def test_a_closed_standard_input_is_a_usage_error(url: str) -> None:
    line = f"{sys.executable} -m pyworker.cli enqueue k - --database-url '{url}' <&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, "standard input is closed" in done.stderr) == (2, True)


def test_a_closed_standard_output_keeps_nothing_from_being_done(url: str, db: Client) -> None:
    line = f"{sys.executable} -m pyworker.cli enqueue k --database-url '{url}' >&-"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert len(db.list_jobs().rows) == 1


def test_what_runs_for_ever_outlasts_a_long_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """More tries than a power of two has room for; then a refusal, which ends it."""
    answers = iter([Unavailable("away")] * 1100 + [NotAllowed("no")])
    rests: list[float] = []

    def connect(*_: object) -> None:
        raise next(answers)

    monkeypatch.setattr(shared.client, "connect", connect)
    monkeypatch.setattr(shared.signal, "signal", lambda *_: None)
    monkeypatch.setattr(threading.Event, "wait", lambda _, seconds: rests.append(seconds))
    with pytest.raises(NotAllowed):
        shared.for_ever("", "test", lambda _: 0)
    assert (rests[0], rests[-1], len(rests)) == (1, 15, 1100)


def test_an_empty_answer_is_no_error(rowlock: Rowlock) -> None:
    assert rowlock("job", "list").stdout == ""
    assert "no jobs" in rowlock("job", "list").stderr
    assert json.loads(rowlock("job", "list", "-o", "json").stdout) == []
    assert rowlock("job", "list", "-o", "jsonl").stdout == ""


def test_csv_is_for_spreadsheets_and_never_a_formula(rowlock: Rowlock, db: Client) -> None:
    job_id = db.enqueue("k", {"to": 'a "b", c'}, max_attempts=1).job_id
    (claim,) = db.claim("w")
    db.fail(job_id, claim.fence, "E", "=cmd|' /C calc'!A0")
    listed = list(csv.DictReader(io.StringIO(rowlock("job", "list", "-o", "csv").stdout)))
    assert [(row["id"], row["label"], row["worker"]) for row in listed] == [
        (str(job_id), "dead", "")
    ]
    (shown,) = csv.DictReader(io.StringIO(rowlock("job", "show", str(job_id), "-o", "csv").stdout))
    assert json.loads(shown["payload"]) == {"to": 'a "b", c'}
    assert shown["error_message"] == "'=cmd|' /C calc'!A0"
    made = list(
        csv.DictReader(io.StringIO(rowlock("enqueue", "-", "-o", "csv", stdin=LINES).stdout))
    )
    assert [row["created"] for row in made] == ["true", "true"]


LINES = '{"kind": "a"}\n{"kind": "b"}\n'


# -- enqueue


def test_a_payload_is_json_or_a_file(rowlock: Rowlock, db: Client, tmp_path: Path) -> None:
    assert rowlock("enqueue", "a", '{"n": 1}').stdout == "job 1\n"
    (tmp_path / "payload.json").write_text('{"n": 2}')
    rowlock("enqueue", "a", f"@{tmp_path / 'payload.json'}", "--priority", "9")
    rowlock("enqueue", "a", "--in", "1h")
    assert [claim.payload for claim in db.claim("w", max_jobs=9)] == [{"n": 2}, {"n": 1}]
    assert rowlock("enqueue", "a", f"@{tmp_path / 'nothing'}").exit_code == 2


def test_numbers_of_a_payload_keep_every_digit(rowlock: Rowlock, url: str) -> None:
    rowlock("enqueue", "a", '{"n": 0.12345678901234567890123}')
    with connect(url, "test") as conn:
        row = conn.execute("select payload ->> 'n' from queue.jobs").fetchone()
    assert row == ("0.12345678901234567890123",)


def test_the_same_key_is_the_same_job(rowlock: Rowlock) -> None:
    assert rowlock("enqueue", "a", "--key", "k").stdout == "job 1\n"
    assert rowlock("enqueue", "a", "--key", "k").stdout == "job 1 exists already\n"
    assert rows(rowlock("enqueue", "a", "--key", "k", "-o", "jsonl")) == [
        {"job_id": 1, "created": False}
    ]


def test_lines_are_payloads_sent_a_thousand_at_a_time(rowlock: Rowlock, db: Client) -> None:
    lines = "".join(f'{{"n": {n}}}\n' for n in range(2345)) + "\n"
    result = rowlock("enqueue", "bulk", "-", "-q", "bulk", stdin=lines)
    assert result.exit_code == 0
    assert "2345 jobs, 2345 of them new" in result.stderr
    found = [c.payload["n"] for _ in range(3) for c in db.claim("w", ["bulk"], 1000)]
    assert found == list(range(2345))


def test_lines_may_be_whole_jobs(rowlock: Rowlock, db: Client) -> None:
    lines = '{"kind": "a", "payload": [1], "priority": 1}\n{"kind": "b", "delay": "5 min"}\n'
    result = rowlock("enqueue", "-", "-o", "jsonl", stdin=lines)
    assert [row["created"] for row in rows(result)] == [True, True]
    (claim,) = db.claim("w", max_jobs=5)
    assert (claim.kind, claim.payload) == ("a", [1])
    assert rowlock("enqueue", "-", "--priority", "1", stdin=lines).exit_code == 2
    deep = rowlock("enqueue", "-", stdin=f'{{"kind": "a", "payload": {"[" * 9999}{"]" * 9999}}}\n')
    assert (deep.exit_code, "line 1 cannot be read" in deep.stderr) == (2, True)


def test_what_was_enqueued_is_one_json_array(rowlock: Rowlock) -> None:
    done = rowlock("enqueue", "k", "-", "-o", "json", stdin="1\n2\n")
    assert [row["job_id"] for row in json.loads(done.stdout)] == [1, 2]
    cut_short = rowlock("enqueue", "k", "-", "-o", "json", stdin="1\n" * 1000 + "{\n")
    assert (cut_short.exit_code, len(json.loads(cut_short.stdout))) == (2, 1000)
    assert rowlock("enqueue", "k", "-", "-o", "json", stdin="").stdout == "[\n]\n"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("{", "line 1001 is not JSON"),
        ("[NaN]", "line 1001 is not JSON: NaN"),
        ('"\\ud800"', "surrogate"),
        ("\xff", "line 1001 is not UTF-8"),
        (f'\n"fine"\n"{"x" * 2**20}"', "element 2 is line 1003 of standard input"),
    ],
)
def test_a_bad_line_is_named_and_what_was_done_is_said(
    rowlock: Rowlock, db: Client, bad: str, said: str
) -> None:
    lines = b'{"n": 1}\n' * 1000 + bad.encode("latin-1") + b"\n"
    result = rowlock("enqueue", "bulk", "-", stdin=lines)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "1000 jobs were enqueued" in result.stderr
    assert len(db.claim("w", max_jobs=1000)) == 1000


# -- jobs


def test_filters_are_those_of_the_dashboard(rowlock: Rowlock, db: Client) -> None:
    db.enqueue_many(
        [
            NewJob(kind="a", queue="x", payload={"user": {"id": 1}, "ok": True}),
            NewJob(kind="a", queue="y", payload={"user": {"id": 2}, "ok": True}),
            NewJob(kind="b", queue="y", available_at=None, payload={"user": "1"}),
        ]
    )

    def found(*terms: str) -> list[str]:
        return sorted(str(row["id"]) for row in rows(rowlock("job", "list", "-o", "jsonl", *terms)))

    assert found("kind:a") == ["1", "2"]
    assert found("queue:y", "kind:a") == ["2"]
    assert found("payload.user.id:1") == ["1"]
    assert found("payload.user.id:2", "payload.ok:true") == ["2"]
    assert found("payload.user:1") == []  # a number is not a text
    assert found('payload.user:"1"') == ["3"]
    assert found("status:ready") == ["1", "2", "3"]
    assert found("status:failed") == []


def test_a_list_ends_at_its_limit_and_says_how_to_go_on(rowlock: Rowlock, db: Client) -> None:
    db.enqueue_many([NewJob(kind="k")] * 250)
    first = rowlock("job", "list", "-o", "jsonl", "--limit", "230")
    assert len(rows(first)) == 230
    cursor = first.stderr.split("--cursor '")[1].split("'")[0]
    assert len(rows(rowlock("job", "list", "-o", "jsonl", "--cursor", cursor))) == 20


def test_the_operators_words_change_jobs(rowlock: Rowlock, db: Client) -> None:
    job_id = str(db.enqueue("k", max_attempts=1).job_id)
    assert "cancelled" in rowlock("job", "cancel", job_id, "--reason", "no").stdout
    assert "queued" in rowlock("job", "retry", job_id, "--in", "1h").stdout
    assert rowlock("job", "run-now", job_id).exit_code == 0
    assert rowlock("job", "reprioritize", job_id, "9").exit_code == 0
    assert rowlock("job", "reprioritize", job_id, "99").exit_code == 2
    events = rows(rowlock("job", "events", job_id, "-o", "jsonl"))
    assert [event["event"] for event in events] == [
        "enqueued",
        "cancelled",
        "retried",
        "made_due",
        "reprioritized",
    ]
    assert "no" in json.dumps(events[1]["detail"])


def test_the_history_of_a_job_that_was_pruned_is_listed(rowlock: Rowlock, db: Client) -> None:
    job_id = db.enqueue("k").job_id
    assert "no claims" in rowlock("job", "attempts", str(job_id)).stderr
    (claim,) = db.claim("w")
    db.complete(job_id, claim.fence)
    db.discard(job_id)
    events = rows(rowlock("job", "events", str(job_id), "-o", "jsonl"))
    assert [event["event"] for event in events] == ["enqueued", "claimed", "succeeded", "discarded"]
    (attempt,) = rows(rowlock("job", "attempts", str(job_id), "-o", "jsonl"))
    assert (attempt["worker"], attempt["outcome"]) == ("w", "succeeded")
    assert rowlock("job", "show", str(job_id)).exit_code == 3


def test_a_job_that_outlived_its_events_is_no_unknown_one(rowlock: Rowlock, db: Client) -> None:
    job_id = db.enqueue("k").job_id
    db.conn.execute("alter table queue.job_events disable trigger user")
    db.conn.execute("truncate queue.job_events")
    result = rowlock("job", "events", str(job_id))
    assert (result.exit_code, "older than events_retention" in result.stderr) == (0, True)


def test_finished_jobs_are_discarded(rowlock: Rowlock, db: Client) -> None:
    finished, waiting = (str(db.enqueue("k").job_id) for _ in range(2))
    rowlock("job", "cancel", finished)
    result = rowlock("job", "discard", finished, waiting, "-ojsonl")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {"id": int(finished), "was": "cancelled"}
    assert rowlock("job", "discard", finished).exit_code == 3


def test_one_refused_job_does_not_keep_the_rest_from_it(rowlock: Rowlock, db: Client) -> None:
    db.enqueue_many([NewJob(kind="k")] * 2)
    result = rowlock("job", "cancel", "1", "4711", "2", "-o", "jsonl")
    assert result.exit_code == 3
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [1, 2]
    assert "4711" in result.stderr


def test_what_was_changed_before_an_error_is_told(
    rowlock: Rowlock, db: Client, database: Database
) -> None:
    db.enqueue_many([NewJob(kind="k")] * 3)
    with database.connect(autocommit=False) as other:
        other.execute("select from queue.jobs where id = 2 for update")
        result = rowlock("job", "cancel", "1", "4711", "2", "3", "-o", "jsonl")
        other.rollback()
    assert result.exit_code == 5
    assert [json.loads(line)["id"] for line in result.stdout.splitlines()] == [1]
    assert "no job 4711" in result.stderr
    assert db.get_job(3).status == "queued"


# -- many jobs


def fail_all(db: Client, number: int, error_type: str = "E", **values: Any) -> None:
    db.enqueue_many([NewJob(kind="k", max_attempts=1, **values)] * number)
    while claims := db.claim("w", [values.get("queue", "default")], 1000):
        for claim in claims:
            db.fail(claim.job_id, claim.fence, error_type, "no")


def test_many_jobs_are_changed_by_what_they_have_in_common(rowlock: Rowlock, db: Client) -> None:
    fail_all(db, 3)
    fail_all(db, 2, "Other", queue="other")
    tried = rowlock("job", "bulk", "retry", "queue:default", "--dry-run")
    assert tried.stdout.split() == ["OUTCOME", "NOTE", "JOBS", "matched", "-", "3"]
    asked = rowlock("job", "bulk", "retry", "queue:default", stdin="n\n")
    assert (asked.exit_code, "retry 3 jobs?" in asked.stderr) == (1, True)
    assert db.count_jobs({"status": "failed"}).jobs == 0  # as of the last roll_up
    assert [job.label for job in db.list_jobs({"status": "failed"}).rows] == ["dead"] * 5

    done = rowlock(
        "job", "bulk", "retry", "queue:default", "--yes", "--spread", "1h", "--extra-attempts", "2",
        "--reason", "mended",
    )  # fmt: skip
    assert done.stdout.split() == ["OUTCOME", "NOTE", "JOBS", "changed", "-", "3"]
    found = db.list_jobs({"queue": "default"}).rows
    assert [(job.status, job.max_attempts) for job in found] == [("queued", 3)] * 3
    assert len({job.available_at for job in found}) == 3
    assert "mended" in rowlock("job", "events", "1").stdout

    each = rows(rowlock("job", "bulk", "discard", "--all", "--yes", "-o", "jsonl"))
    assert [(row["job_id"], row["outcome"]) for row in each] == [(4, "changed"), (5, "changed")]
    assert rowlock("job", "bulk", "cancel", "kind:k", "--yes", "--limit", "2").exit_code == 0
    left = [job.status for job in db.list_jobs({}).rows]
    assert sorted(left) == ["cancelled", "cancelled", "queued"]
    assert "no jobs match" in rowlock("job", "bulk", "cancel", "kind:none", "--yes").stderr


def test_a_bulk_change_goes_on_beyond_a_page(rowlock: Rowlock, db: Client) -> None:
    for _ in range(3):
        db.enqueue_many([NewJob(kind="k")] * 800)
    result = rowlock("job", "bulk", "reprioritize", "priority:5", "--priority", "9", "--yes")
    assert result.stdout.split()[-3:] == ["changed", "-", "2400"], result.output
    assert {job.priority for job in db.list_jobs({}, max_jobs=200).rows} == {9}


def test_a_bulk_change_that_is_cut_short_says_what_is_done(url: str, db: Client) -> None:
    for _ in range(3):
        db.enqueue_many([NewJob(kind="k")] * 1000)
    # The third thousand takes longer than the signal.
    db.conn.execute(
        "create function queue.slow() returns trigger language plpgsql as"
        " 'begin if new.id > 2000 then perform pg_sleep(20); end if; return new; end'"
    )
    db.conn.execute(
        "create trigger slow before update on queue.jobs for each row execute function queue.slow()"
    )
    command = [sys.executable, "-m", "pyworker.cli", "job", "bulk", "cancel", "--all", "--yes"]
    process = subprocess.Popen(
        [*command, "--database-url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    until = time.monotonic() + 20
    asleep = (
        "select count(*) from pg_stat_activity"
        " where wait_event = 'PgSleep' and datname = current_database()"
    )
    while db.conn.execute(asleep).fetchone() != (1,) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "before this: 2000 changed" in stderr


def test_nothing_is_asked_about_no_job(rowlock: Rowlock) -> None:
    result = rowlock("job", "bulk", "retry", "kind:none")
    assert (result.exit_code, "no jobs match" in result.stderr) == (0, True)


def test_a_bulk_change_says_which_jobs(rowlock: Rowlock) -> None:
    assert rowlock("job", "bulk", "cancel").exit_code == 2
    assert rowlock("job", "bulk", "cancel", "kind:k", "--all").exit_code == 2
    assert rowlock("job", "bulk", "cancel", "kind:k", "--yes", "--priority", "1").exit_code == 2
    assert rowlock("job", "bulk", "cancel", "label:nonsense", "--yes").exit_code == 2


def test_dead_jobs_are_told_by_what_went_wrong(rowlock: Rowlock, db: Client) -> None:
    assert "no job has failed" in rowlock("dead").stderr
    fail_all(db, 3)
    fail_all(db, 1, "Other", queue="other")
    first, second = rows(rowlock("dead", "-o", "jsonl"))
    assert (first["error_type"], first["jobs"], second["jobs"]) == ("E", 3, 1)
    (other,) = rows(rowlock("dead", "-o", "jsonl", "--queue", "other"))
    assert other["error_type"] == "Other"
    found = rows(rowlock("job", "list", f"error_group:{other['error_group']}", "-o", "jsonl"))
    assert [row["id"] for row in found] == [other["sample_id"]]


# -- events


def test_what_happened_is_listed_and_followed(rowlock: Rowlock, url: str, db: Client) -> None:
    fail_all(db, 2)
    listed = rowlock("events", "-o", "jsonl", "--limit", "4")
    assert [row["event"] for row in rows(listed)] == ["failed", "failed", "claimed", "claimed"]
    cursor = listed.stderr.split("--cursor '")[1].split("'")[0]
    older = rows(rowlock("events", "-o", "jsonl", "--cursor", cursor))
    assert [row["event"] for row in older] == ["enqueued"] * 2
    assert len(rows(rowlock("events", "event:failed", "kind:k", "-o", "jsonl"))) == 2
    assert rowlock("events", "nonsense").exit_code == 2
    assert rowlock("events", "colour:red").exit_code == 2
    assert rowlock("events", "--cursor", "x").exit_code == 2
    assert rowlock("events", "--follow", "kind:k").exit_code == 2
    assert rowlock("events", "--follow", "-o", "json").exit_code == 2

    lines, cursor = follow(url, db, "start", 8)
    assert [json.loads(line)["event"] for line in lines] == [
        *["enqueued", "enqueued", "claimed", "claimed", "failed", "failed"],
        *["enqueued", "enqueued"],
    ]
    lines, _ = follow(url, db, cursor, 2)
    assert [json.loads(line)["job_id"] for line in lines] == [5, 6]


@contextmanager
def a_limit_of(seconds: float, process: subprocess.Popen[str]) -> Iterator[None]:
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    yield
    timer.cancel()


def test_a_list_of_events_looks_until_it_has_found(rowlock: Rowlock, db: Client) -> None:
    fail_all(db, 1)
    for _ in range(11):
        db.enqueue_many([NewJob(kind="other")] * 1000)
    (found,) = rows(rowlock("events", "event:failed", "-o", "jsonl", "--limit", "3"))
    assert found["job_id"] == 1


def follow(url: str, db: Client, cursor: str, number: int) -> tuple[list[str], str]:
    """What a follower printed from there on, whose session was cut off between two enqueues, and
    where it says to go on once it has printed so many lines."""
    command = [sys.executable, "-m", "pyworker.cli", "events", "--follow", "-o", "jsonl"]
    process = subprocess.Popen(
        [*command, "--cursor", cursor, "--database-url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    cut_off = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where application_name = 'rowlock:events' and datname = current_database()"
    )
    try:
        db.enqueue("k")
        until = time.monotonic() + 20
        while db.conn.execute(cut_off).fetchone() == (0,) and time.monotonic() < until:
            time.sleep(0.05)
        db.enqueue("k")
        assert process.stdout is not None
        with a_limit_of(30, process):
            lines = [process.stdout.readline() for _ in range(number)]
    finally:
        process.send_signal(signal.SIGTERM)
        rest, stderr = process.communicate(timeout=20)
    assert process.returncode == 0, stderr
    return [*lines, *rest.splitlines()], stderr.split("--cursor '")[-1].split("'")[0]


# -- queues


def test_a_queue_is_paused_and_resumed(rowlock: Rowlock, db: Client) -> None:
    db.enqueue("k")
    paused = rowlock("queue", "pause", "default", "--reason", "so", "--for", "1h")
    assert (paused.exit_code, "no job waits" in paused.stderr) == (0, False)
    (row,) = rows(rowlock("queue", "list", "-o", "jsonl"))
    assert (row["queue"], row["paused"], row["pause_reason"]) == ("default", True, "so")
    assert row["paused_until"]
    assert db.claim("w") == []
    assert "resumed" in rowlock("queue", "resume", "default").stdout
    assert "was not paused" in rowlock("queue", "resume", "default").stdout
    assert len(db.claim("w")) == 1
    assert "no job waits or runs in defualt" in rowlock("queue", "pause", "defualt").stderr


def test_a_queues_defaults_are_set_and_taken_back(rowlock: Rowlock, db: Client) -> None:
    def policy(*arguments: str) -> dict[object, object]:
        return {row["name"]: row["value"] for row in rows(rowlock("queue", *arguments, "-ojsonl"))}

    given = policy("set", "q", "lease=90s", "max_attempts=7", "--reason", "so")
    assert (given["lease"], given["max_attempts"], given["timeout"]) == (90, 7, None)
    assert policy("set", "q", "max_attempts=")["max_attempts"] is None
    assert policy("policy", "q")["lease"] == 90
    assert rowlock("queue", "policy", "q").stdout.splitlines()[1].split() == ["lease", "1m30s"]
    assert [action.reason for action in db.list_audit()] == [None, "so"]


def test_what_is_refused_on_the_line_is_named(rowlock: Rowlock) -> None:
    assert "lease is not a duration: '1:30'" in rowlock("queue", "set", "q", "lease=1:30").stderr
    assert "created_after: not a time" in rowlock("job", "list", "created_after:1:30").stderr


def test_looking_at_a_policy_makes_no_queue_and_a_slip_is_told(rowlock: Rowlock) -> None:
    for command in ("policy", "resume"):
        result = rowlock("queue", command, "defualt")
        assert (result.exit_code, "no job waits or runs" in result.stderr) == (0, True)
    assert "no queues" in rowlock("queue", "list").stderr
    assert "no job waits or runs" in rowlock("queue", "set", "defualt", "lease=1m").stderr


def test_settings_are_shown_as_they_are_set(rowlock: Rowlock, db: Client) -> None:
    shown = rowlock("settings", "show").stdout
    lines = [line.split() for line in shown.splitlines()[1:]]
    assert lines[0] == ["lease", "1m"]
    again = rowlock("settings", "set", *("=".join(line) for line in lines))
    assert again.stdout == shown
    changed = rowlock(
        "settings", "set", "lease=1h30m5s", "claim_floor=off", "--reason", "so", "-ojsonl"
    )
    assert rows(changed) == rows(rowlock("settings", "show", "-ojsonl"))
    values = {row["name"]: row["value"] for row in rows(changed)}
    assert (values["lease"], values["claim_floor"], values["max_attempts"]) == (5405, False, 5)
    last = db.list_audit()[0]
    assert (last.reason, last.detail) == ("so", {"lease": "1h30m5s", "claim_floor": "off"})


def test_an_unknown_event_is_refused_with_those_there_are(rowlock: Rowlock) -> None:
    result = rowlock("events", "event:fialed")
    assert result.exit_code == 2
    assert "event is one of enqueued, claimed, made_due, " in result.stderr
    assert ", discarded." in result.stderr


def test_settings_in_another_style_are_shown_as_they_come(
    db: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    db.conn.execute("set intervalstyle = iso_8601")
    print_settings(click.Context(cli.main), db.get_settings())
    assert ["lease", "PT1M"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "pair",
    [
        *("lease=soon", "lease=1:30", "lease=", "lease=100d", "max_attempts=0", "max_attempts=-1"),
        *("max_attempts=99999999999999", "claim_floor=maybe", "backoff_base=2h"),
        *("events_retention=1s", "tick_interval=0", "colour=\x1b[31mred"),
    ],
)
def test_a_setting_that_is_refused_is_named(rowlock: Rowlock, pair: str) -> None:
    result = rowlock("settings", "set", "failed_retention=9d", pair)
    assert result.exit_code == 2
    assert pair.partition("=")[0] in result.stderr
    assert "\x1b" not in result.stderr
    assert {"name": "failed_retention", "value": 30 * 86400} in rows(
        rowlock("settings", "show", "-ojsonl")
    )


def test_the_audit_is_paged(rowlock: Rowlock, db: Client) -> None:
    assert "nothing was done" in rowlock("audit").stderr
    for name in "abc":
        db.pause(name, f"for {name}\x1b[2J")
    first = rowlock("audit", "--limit", "2", "-ojsonl")
    assert [row["queue"] for row in rows(first)] == ["c", "b"]
    cursor = first.stderr.split("--cursor '")[1].split("'")[0]
    assert [row["queue"] for row in rows(rowlock("audit", "-ojsonl", "--cursor", cursor))] == ["a"]
    assert "\x1b" not in rowlock("audit").output


def test_who_may_not_change_settings_may_look(database: Database) -> None:
    url = database.url_as("queue_viewer")
    assert run("settings", "show", "--database-url", url).exit_code == 0
    assert run("settings", "set", "lease=1m", "--database-url", url).exit_code == 6
    assert run("queue", "policy", "q", "--database-url", url).exit_code == 0
    assert run("queue", "set", "q", "lease=1m", "--database-url", url).exit_code == 6


def test_without_a_terminal_a_password_is_not_asked_for(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pyworker.cli", "account", "add", "ada", "--database-url", url],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert (done.returncode, b"--password-stdin" in done.stderr) == (2, True), done.stderr
    assert b"Warning" not in done.stderr


# -- maintenance and health


def test_tick_does_all_that_is_due(rowlock: Rowlock, db: Client) -> None:
    db.enqueue_many([NewJob(kind="k", max_attempts=1), NewJob(kind="k")])
    lost, finished = db.claim("w", max_jobs=2)
    db.complete(finished.job_id, finished.fence)
    db.conn.execute("update queue.jobs set lease_expires_at = now() - interval '1 s' where id = 1")
    db.conn.execute("update queue.jobs set finished_at = now() - interval '1 year' where id = 2")
    assert {"reap", "prune"} <= {row["step"] for row in rows(rowlock("tick", "-o", "jsonl"))}
    assert db.get_job(lost.job_id).status == "failed"
    assert db.list_jobs({"ids": [finished.job_id]}).rows == []
    assert "nothing is due" in rowlock("tick").stderr


def test_tick_for_ever_reaps_and_ends_on_sigterm(url: str, db: Client) -> None:
    db.enqueue("k", lease=None, max_attempts=1)
    (claim,) = db.claim("w")
    db.conn.execute("update queue.jobs set lease_expires_at = now() - interval '1 s'")
    process = subprocess.Popen(
        [sys.executable, "-m", "pyworker.cli", "tick", "--loop", "--database-url", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        until = time.monotonic() + 20
        while db.get_job(claim.job_id).status == "running" and time.monotonic() < until:
            time.sleep(0.05)
        # A session that is cut off is replaced.
        db.conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where application_name = 'rowlock:tick' and datname = current_database()"
        )
        time.sleep(0.5)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 0, stderr
    assert "reap 1" in stdout
    assert db.get_job(claim.job_id).status == "failed"


@pytest.mark.requires("pg_cron")
def test_cron_is_installed_and_removed(cron_database: Database) -> None:
    url = cron_database.url
    jobs = rows(run("cron", "install", "--database-url", url, "-o", "jsonl"))
    assert jobs
    removed = rows(run("cron", "remove", "--database-url", url, "-o", "jsonl"))
    assert removed == [{"removed": len(jobs)}]


def test_health_is_for_container_checks(rowlock: Rowlock, db: Client) -> None:
    assert rowlock("health").exit_code == 0
    db.conn.execute("update queue.settings set system_identifier = 1")
    unwell = rowlock("health", "-o", "jsonl")
    assert unwell.exit_code == 7
    checks = [json.loads(line) for line in unwell.stdout.splitlines()]
    assert [check["check_name"] for check in checks if check["status"] == "fail"] == ["cluster"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 7)])
def test_a_workers_health_address_is_asked(status: int, code: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()
            self.wfile.write(b'{"status": "\x1b[2J"}')

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        result = run("health", "--worker", f":{server.server_port}")
    assert result.exit_code == code
    assert "\x1b" not in result.output


def test_an_address_that_speaks_no_http_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        threading.Thread(target=answer, daemon=True).start()
        result = run("health", "--worker", f"127.0.0.1:{server.getsockname()[1]}")
    assert (result.exit_code, "does not answer" in result.stderr) == (5, True)


def test_doctor_looks_at_everything(rowlock: Rowlock, db: Client, database: Database) -> None:
    with database.connect(autocommit=False) as writer:
        writer.execute("create table public.forgotten (a int)")
        result = rowlock("doctor", "-o", "jsonl")
        checks = {row["check_name"]: row for row in map(json.loads, result.stdout.splitlines())}
        assert result.exit_code == 0, result.stdout
        assert f"pid {writer.info.backend_pid} " in str(checks["writers"]["detail"])
        writer.rollback()
    assert {"server", "pooler", "roles", "pg_cron", "version", "steps"} <= checks.keys()

    db.conn.execute("drop function queue.stats()")
    result = rowlock("doctor")
    assert result.exit_code == 7
    assert "missing function: queue.stats()" in result.stdout
    assert "rowlock migrate" in result.stderr


def test_a_function_that_is_missing_is_a_matter_of_migrating(rowlock: Rowlock, db: Client) -> None:
    db.conn.execute("drop function queue.stats()")
    result = rowlock("stats")
    assert (result.exit_code, "Run `rowlock migrate`" in result.stderr) == (1, True)


def test_what_doctor_found_is_told_whole(rowlock: Rowlock, db: Client) -> None:
    for function in ("stats()", "get_settings()", "get_policy(text)", "list_workers()"):
        db.conn.execute(f"drop function queue.{function}")
    shown = rowlock("doctor").stdout
    assert "queue.stats()" in shown
    assert "queue.get_policy(text)" in shown


def test_doctor_of_an_ordinary_login_and_of_an_empty_database(
    database: Database, cluster: Cluster
) -> None:
    ordinary = run("doctor", "-o", "jsonl", "--database-url", database.url_as("queue_viewer"))
    assert ordinary.exit_code == 0, ordinary.stdout
    assert "not compared" in ordinary.stdout
    empty = cluster.create_empty()
    try:
        result = run("doctor", "--database-url", empty.url)
        assert result.exit_code == 7
        assert "schema queue is missing" in result.stdout
    finally:
        cluster.drop(empty)


# -- migrate


def test_migrate_check_uninstall(cluster: Cluster) -> None:
    _ = cluster.template
    empty = cluster.create_empty()
    try:
        differing = run("migrate", "--check", "--database-url", empty.url)
        assert differing.exit_code == 7
        assert "schema queue" in differing.stdout
        done = run("migrate", "--database-url", empty.url)
        assert done.exit_code == 0
        assert "0001.jobs" in done.stderr
        assert "nothing to do" in run("migrate", "--database-url", empty.url).stderr
        assert run("migrate", "--check", "--database-url", empty.url).exit_code == 0

        refused = run("migrate", "--uninstall", "--database-url", empty.url, stdin="n\n")
        assert refused.exit_code == 1
        assert run("stats", "--database-url", empty.url).exit_code == 0
        removed = run("migrate", "--uninstall", "--yes", "--database-url", empty.url)
        assert removed.exit_code == 0
        assert "dropped schema queue" in removed.stderr
        # The template's database uses the roles.
        assert "left role queue_owner" in removed.stderr
        assert run("stats", "--database-url", empty.url).exit_code == 1
    finally:
        cluster.drop(empty)


def test_scripts_are_printed_without_a_database() -> None:
    roles = run("migrate", "--roles", "--migrator", "o'hara")
    assert roles.exit_code == 0
    assert roles.stdout.startswith("set rowlock.migrator = 'o''hara';")
    assert "create role" in roles.stdout
    script = run("migrate", "--sql")
    assert script.exit_code == 0
    assert "create table queue.jobs" in script.stdout
    assert "create or replace function queue.claim" in script.stdout


# -- an embedded server


def test_embedded_starts_a_server_and_keeps_its_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/never_asked")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)  # the server's user passes through it
        monkeypatch.setattr(embedded, "default_data_dir", lambda: Path(folder) / "postgres")
        first = run("--embedded", "enqueue", "k", '{"n": 1}')
        assert first.exit_code == 0, first.output
        assert "(from --embedded)" in first.stderr
        (row,) = rows(run("job", "list", "--embedded", "-o", "jsonl"))
        assert row["kind"] == "k"
        # Another one attaches to a server that runs.
        with embedded.start(Path(folder) / "postgres") as server, connect(server.url, "t") as conn:
            assert run("--embedded", "job", "cancel", "1").exit_code == 0
            assert Client(conn).get_job(1).status == "cancelled"
    both = run("stats", "--embedded", "--database-url", "postgresql://h/d")
    assert both.exit_code == 2


# -- processes


@pytest.fixture
def app_folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(
        textwrap.dedent(
            """
            from pyworker import App

            app = App()
            other = object()

            @app.job("greet", queue="greetings")
            def greet(payload: dict) -> dict:
                return {"hello": payload["name"]}
            """
        )
    )
    return tmp_path


def test_a_worker_runs_what_is_due(url: str, db: Client, app_folder: Path) -> None:
    job_id = db.enqueue("greet", {"name": "Ada"}, "greetings").job_id
    arguments = ["--app", "shop:app", "-q", "greetings", "-t", "2", "--burst", "--json-logs"]
    process = subprocess.run(
        [sys.executable, "-m", "pyworker.cli", "worker", *arguments],
        cwd=app_folder,
        env={**os.environ, "ROWLOCK_DATABASE_URL": url, "ROWLOCK_LOG_LEVEL": "INFO"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert db.get_job(job_id).result == {"hello": "Ada"}
    first, *log = process.stderr.splitlines()
    assert first.startswith("database: ")
    assert all(json.loads(line)["level"] for line in log)


@pytest.mark.parametrize("burst", [[], ["--burst"]])
def test_a_worker_that_may_never_claim_says_so_once_and_ends(
    database: Database, app_folder: Path, burst: list[str]
) -> None:
    for url, queue, code in (
        (database.url, "BAD", 2),
        (database.url, "", 2),
        (database.url_as("queue_viewer"), "greetings", 6),
    ):
        process = subprocess.run(
            [
                sys.executable,
                "-m",
                "pyworker.cli",
                "worker",
                "--app",
                "shop:app",
                "-q",
                queue,
                *burst,
            ],
            cwd=app_folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ROWLOCK_DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert process.returncode == code, process.stderr
        assert process.stderr.count("\nrowlock: ") == 1
        assert "Traceback" not in process.stderr
        # The waker may have been refused its tick before, and have said so.
        assert "WARNING rowlock.dispatcher" not in process.stderr


def test_an_app_that_is_none_is_a_usage_error(
    app_folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, url: str
) -> None:
    request.addfinalizer(lambda: sys.modules.pop("shop", None))
    monkeypatch.chdir(app_folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (app_folder / "shop_pinging.py").write_text("import shop_ping")
    with pytest.raises(ModuleNotFoundError, match="'shop_ping'"):
        run("worker", "--app", "shop_pinging:app", "--database-url", url)
    for name, said in {
        ".shop:app": "package.module:attribute",
        "shop.py:app": "no module shop.py",
        "shop:nothing": "has no nothing",
        "shop:other": "not an App",
        "shop": "package.module:attribute",
    }.items():
        result = run("worker", "--app", name, "--database-url", url)
        assert result.exit_code == 2
        assert said in result.stderr


def test_a_shell_completes_commands() -> None:
    script = run("completion", "bash").stdout
    assert "complete" in script
    done = subprocess.run(
        [sys.executable, "-c", "from pyworker.cli import main; main(prog_name='rowlock')"],
        cwd=ROOT,
        env={
            **os.environ,
            "_ROWLOCK_COMPLETE": "bash_complete",
            "COMP_WORDS": "rowlock sett",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.stdout == "plain,settings\n"
    assert "_ROWLOCK_COMPLETE" in script


def test_version_is_that_of_the_sql_too() -> None:
    source = deploy.Source.found()
    shown = json.loads(run("version", "-o", "json").stdout)
    assert shown == {"rowlock": source.version(), "functions": source.digest()}
