// A Rowlock worker in Node: node worker.mjs [QUEUE ...]. The database is DATABASE_URL or what
// libpq's variables name; SLOTS jobs run at once; SIGTERM gives back what is not done in 5 s.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { handlers } from './handlers.mjs';

const worker = `${os.hostname()}-${process.pid}-${Math.random().toString(16).slice(2, 10)}`;
const queues = process.argv.length > 2 ? process.argv.slice(2) : ['default'];
const slots = Number(process.env.SLOTS ?? 4);
const log = (error) => sleep(1000, console.error(error.code ?? '', error.message));
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 3 }).on('error', log);
const call = async (sql, ...values) => (await pool.query(sql, values)).rows;
let [held, stopping] = [new Set(), false];

async function outcome({ kind, job_id, fence, payload, abort }) {
  const progress = (percent) => call('select queue.progress($1, $2, $3)', job_id, fence, percent);
  if (!handlers[kind]) return { outcome: 'snooze', delay: '10 s', reason: 'no handler here' };
  try {
    const result = await handlers[kind](payload, { signal: abort.signal, progress });
    return { outcome: 'complete', result };
  } catch ({ name, message, stack }) {
    if (abort.signal.aborted) return { outcome: abort.signal.reason };
    return { outcome: 'fail', error_type: name, message, detail: { stack } };
  }
}

async function run(job) {
  held.add(Object.assign(job, { renewed: performance.now(), abort: new AbortController() }));
  const text = JSON.stringify([{ job_id: job.job_id, fence: job.fence, ...await outcome(job) }]);
  let verdict = 'busy'; // given again, an answer that may have arrived is treated as it was then
  while (verdict === 'busy') // lost: the claim went to another worker, and nothing was changed
    [{ verdict }] = await call('select * from queue.settle($1)', text).catch(log) ?? [{ verdict }];
  console.log(`job ${job.job_id} (${job.kind}, attempt ${job.attempt}): ${verdict}`);
  held.delete(job);
}

async function renew() { // every lease when a third of it has passed, all in one call
  const due = [...held].filter((job) => performance.now() - job.renewed > job.seconds * 333);
  const claims = [due.map((job) => job.job_id), due.map((job) => job.fence)];
  const answers = due.length ? await call('select * from queue.renew($1, $2)', ...claims) : [];
  for (const { job_id, fence, verdict } of answers) {
    const job = due.find((each) => each.job_id === job_id && each.fence === fence);
    if (verdict === 'held') job.renewed = performance.now();
    else job.abort.abort(verdict === 'stop' ? 'accept_cancel' : 'release');
  }
}

async function step() { // claims for the free slots; else ticks, as somebody must, and waits
  const claimed = held.size === slots ? [] : await call(`select *, extract(epoch from lease)::float
    as seconds from queue.claim($1, $2, $3)`, worker, queues, slots - held.size);
  claimed.forEach(run);
  if (!claimed.length) await Promise.all([call('select from queue.tick()'), sleep(250)]);
}
setInterval(() => renew().catch(log), 200).unref();
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => { stopping = true; });
while (!stopping) await step().catch(log);
for (let turn = 0; held.size; turn += 1, await sleep(50))
  if (turn === 100) for (const job of held) job.abort.abort('release');
await pool.end();
