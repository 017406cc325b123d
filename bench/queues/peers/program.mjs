// What the Node peers' programs share. They run beside their packages, in .cache/bench/<peer>.
import fs from 'node:fs';
import readline from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

const { BENCH_URL, BENCH_RECORD, BENCH_NOTES } = process.env;
const MOST_BYTES = 16e6;
const done = [];
let began;

export const url = BENCH_URL;
const now = () => Number(process.hrtime.bigint()); // CLOCK_MONOTONIC, as in every other process
const since = (start) => (now() - start) / 1e9;

export const handlers = {
  nothing({ n }) {
    began ??= now();
    done.push(n);
  },
  note() { // one write, so that a line is whole
    fs.writeSync(Number(BENCH_NOTES), `${now()}\n`);
  },
};

/** Runs a worker until SIGTERM. `start` returns what stops it, when it has settled its jobs. */
export async function work(start) {
  const asked = new Promise((resolve) => process.once('SIGTERM', resolve));
  const stop = await start();
  await asked;
  await stop();
  if (BENCH_RECORD && done.length)
    fs.writeFileSync(`${BENCH_RECORD}/${process.pid}.json`, JSON.stringify({ began, done }));
}

/** A list in parts of so many, or of fewer where the payloads are long. */
export function* parts(payloads, most) {
  const size = Math.min(most, Math.ceil(MOST_BYTES / JSON.stringify(payloads[0]).length));
  for (let start = 0; start < payloads.length; start += size)
    yield payloads.slice(start, start + size);
}

/**
 * Answers requests, one a line, until standard input ends. `isDrained` is asked every 10 ms: it
 * must be cheap, and throws if a job failed. What a peer cannot do is left out of `driver`.
 */
export async function serve(driver) {
  const calls = {
    async enqueue({ number, handler }) {
      const start = now();
      for (let n = 0; n < number; n += 1) await driver.enqueue(handler, { n });
      return { seconds: since(start), at: now() };
    },
    async bulk({ number, bytes }) {
      const pad = bytes ? { pad: 'x'.repeat(bytes) } : {};
      const payloads = Array.from({ length: number }, (_, n) => ({ n, ...pad }));
      const start = now();
      await driver.enqueueBulk(payloads);
      return { seconds: since(start) };
    },
    async drained() {
      while (!await driver.isDrained()) await sleep(10);
      return { at: now() };
    },
    add_finished: ({ number }) => driver.addFinished(number),
    add_later: ({ number }) => driver.addLater(number),
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const { call, ...given } = JSON.parse(line);
    let answer;
    try {
      answer = await calls[call](given) ?? {};
    } catch (error) {
      answer = { error: String(error.stack ?? error) };
    }
    fs.writeSync(1, `${JSON.stringify(answer)}\n`);
  }
}

export const tomorrow = () => new Date(Date.now() + 24 * 3600 * 1000);
