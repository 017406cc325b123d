"""A peer of the bench is installed once, driven by its program, and held to each job done once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench.queues import peer
from bench.queues.contract import Contender, NotDoneOnceError
from bench.queues.measures import Measures, Sizes
from bench.queues.peer import Peer, PeerError, Program
from bench.queues.redis import Redis

pytestmark = pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")

_PACKAGE = {"dependencies": {"fake-queue": "file:library"}}
_LOCK = {
    "lockfileVersion": 3,
    "requires": True,
    "packages": {
        "": _PACKAGE,
        "library": {"name": "fake-queue", "version": "1.0.0"},
        "node_modules/fake-queue": {"resolved": "library", "link": True},
    },
}

# A folder is the queue, and a file a job. FAKE makes the worker a bad one.
_PROGRAM = """
import fs from 'node:fs'
import readline from 'node:readline'
import { queue } from 'fake-queue'

const { BENCH_URL, BENCH_RECORD, BENCH_NOTES, FAKE } = process.env
const now = () => Number(process.hrtime.bigint())
const jobs = () => fs.readdirSync(BENCH_URL).filter(name => name.endsWith(queue))
let made = 0

const answers = {
  enqueue: ({ number, handler }) => {
    const began = now()
    for (let n = 0; n < number; n++) {
      fs.writeFileSync(`${BENCH_URL}/${made}.new`, JSON.stringify({ n, handler }))
      fs.renameSync(`${BENCH_URL}/${made}.new`, `${BENCH_URL}/${made++}${queue}`)
    }
    return { seconds: (now() - began) / 1e9, at: now() }
  },
  bulk: ({ number }) => answers.enqueue({ number, handler: 'nothing' }),
  drained: async () => {
    while (jobs().length) await new Promise(done => setTimeout(done, 10))
    return { at: now() }
  },
  add_later: () => ({ error: 'no job can be\\nfor later' }),
}

const commands = {
  install: () => fs.mkdirSync(BENCH_URL),
  drive: async () => {
    for await (const line of readline.createInterface({ input: process.stdin })) {
      const request = JSON.parse(line)
      console.log(JSON.stringify(await answers[request.call](request)))
    }
  },
  work: () => {
    const done = []
    let began
    if (FAKE === 'ends') throw new Error('no work today')
    setInterval(() => {
      for (const name of jobs()) {
        const held = `${BENCH_URL}/${name}.held`
        try { fs.renameSync(`${BENCH_URL}/${name}`, held) } catch { continue }
        const job = JSON.parse(fs.readFileSync(held))
        if (job.handler === 'note') fs.writeSync(Number(BENCH_NOTES), `${now()}\\n`)
        else {
          began ??= now()
          if (FAKE !== 'loses' || job.n) done.push(job.n)
        }
      }
    }, 1)
    process.on('SIGTERM', () => {
      const record = JSON.stringify({ began, done })
      if (began) fs.writeFileSync(`${BENCH_RECORD}/${process.pid}.json`, record)
      process.exit(0)
    })
  },
}
await commands[process.argv[2]]()
"""


class Folders:
    """A server whose databases are folders."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def create_template(self, name: str, install: Callable[[str], object]) -> None:
        self._install = install

    def create(self, name: str, template: str) -> str:
        self._install(str(self._place / name))
        return str(self._place / name)

    def drop(self, name: str) -> None:
        shutil.rmtree(self._place / name)

    def checkpoint(self) -> None: ...


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    source = tmp_path / "peers" / "fake_queue"
    (source / "library").mkdir(parents=True)
    (source / "library" / "package.json").write_text('{"name": "fake-queue", "version": "1.0.0"}')
    (source / "library" / "index.js").write_text("exports.queue = '.job'")
    (source / "package.json").write_text(json.dumps(_PACKAGE))
    (source / "package-lock.json").write_text(json.dumps(_LOCK))
    (source / "peer.mjs").write_text(_PROGRAM)
    monkeypatch.setattr(peer, "_SOURCES", tmp_path / "peers")
    monkeypatch.setattr(peer, "_PLACE", tmp_path / "place")
    return Program("fake_queue", "node")


@pytest.fixture
def measures(program: Program, tmp_path: Path) -> Measures:
    contender = Contender(
        "fake-queue",
        open=partial(Peer, program),
        install=program.install_tables,
        prepare=program.prepare,
        drains=10_000,
    )
    contender.prepare()
    return Measures(contender, Folders(tmp_path), Sizes().scaled(0.002), turns=1)


def test_a_peer_is_installed_once_and_anew_when_another_is_pinned(
    program: Program, tmp_path: Path
) -> None:
    installed = tmp_path / "place" / "fake_queue" / "node_modules" / "fake-queue"

    assert program.prepare() == "file:library"
    assert installed.exists()
    installed.unlink()
    program.prepare()
    assert not installed.exists()
    lock = tmp_path / "peers" / "fake_queue" / "package-lock.json"
    lock.write_text(json.dumps({**_LOCK, "version": "2.0.0"}))
    program.prepare()
    assert installed.exists()


def test_what_cannot_be_installed_says_why(program: Program, tmp_path: Path) -> None:
    (tmp_path / "peers" / "fake_queue" / "package-lock.json").unlink()

    with pytest.raises(PeerError, match=r"npm ended by 1: (.|\n)*package-lock"):
        program.prepare()


def test_a_peer_is_measured_as_ours_is(measures: Measures) -> None:
    for part in "ABCI":
        rate = measures.measure(part)
        assert isinstance(rate, float)
        assert rate > 0
    took = measures.measure("D")
    assert isinstance(took, list)
    assert len(took) == 10


@pytest.mark.parametrize(
    ("fault", "told"),
    [("loses", "1 jobs were not done"), ("ends", "node ended by 1: (.|\n)*no work today")],
)
def test_a_bad_worker_gives_no_figure(
    fault: str, told: str, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", fault)

    with pytest.raises(NotDoneOnceError, match=told):
        measures.measure("C")


def test_what_a_program_answers_is_told(measures: Measures) -> None:
    with pytest.raises(PeerError, match="no job can be"):
        measures.measure("G")


@pytest.mark.skipif(
    not (shutil.which("redis-server") or shutil.which("redis-check-rdb")),
    reason="neither redis-server nor redis-tools is installed",
)
def test_a_redis_gives_out_empty_databases_and_goes() -> None:
    redis = Redis()
    try:
        assert redis.version > "5"
        first, second = redis.create("first", ""), redis.create("second", "")
        assert first != second
        assert redis._say("SELECT 0", "SET a 1", "DBSIZE") == ":1\r\n"
        redis.drop("first")
        assert redis._say("SELECT 0", "DBSIZE") == ":0\r\n"
        assert redis._say("CONFIG GET appendfsync").split()[-1] == "everysec"
    finally:
        redis.close()
    with pytest.raises(ConnectionRefusedError):
        redis._say("PING")
