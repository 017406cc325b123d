// pg-boss, run by the bench: node peer.mjs install | drive | work
import { PgBoss } from 'pg-boss';
// From .cache/bench/pg_boss, where this runs.
import {
  handlers, parts, serve, tomorrow, url, work,
} from '../../../bench/queues/peers/program.mjs';

// https://github.com/timgit/pg-boss/blob/12.37.0/docs/api/workers.md and dist/types.d.ts: batches,
// fetched without a pause while they come back full, by two workers of the process, so that one
// waits for the server while the other's jobs are looked at. Four drain as fast and spoil latency:
// LISTEN wakes them all (`notify`, docs/api/queues.md). Batches of 5,000 save the server a fifth of
// its time a job.
const SETTINGS = { batchSize: 1000, localConcurrency: 2, burstWhenBatchFull: true };
const BULK = 10_000; // docs/api/jobs.md#insert-name-job-options names no size; 1,000 are slower

async function connect(options) {
  const boss = new PgBoss({ connectionString: url, ...options });
  boss.on('error', (error) => console.error(error));
  return boss.start();
}

async function install() {
  const boss = await connect();
  for (const name of Object.keys(handlers)) await boss.createQueue(name, { notify: true });
  await boss.stop();
}

// By its index of just these states, however many jobs are done.
const STATES = `
select distinct state::text from pgboss.job
where name = any($1) and state in ('created', 'retry', 'active', 'failed') and not blocked
  and start_after <= now()`;

// As complete() leaves them.
const ADD_FINISHED = `
insert into pgboss.job
  (name, data, state, policy, created_on, start_after, started_on, completed_on, keep_until)
select 'nothing', jsonb_build_object('n', n), 'completed', 'standard',
  done - interval '1 s', done - interval '1 s', done, done, done + interval '14 days'
from generate_series(1, $1) as n, cast(now() - interval '1 hour' as timestamptz) as done`;

async function drive() {
  const boss = await connect({ max: 1, supervise: false, schedule: false });
  const query = async (text, ...values) => (await boss.getDb().executeSql(text, values)).rows;
  const settleDown = () => query('vacuum (analyze) pgboss.job_common'); // as autovacuum would
  let last; // the job added last, so done among the last

  await serve({
    async enqueue(name, payload) {
      last = { name, id: await boss.send(name, payload) };
    },
    async enqueueBulk(payloads) {
      const name = 'nothing';
      for (const part of parts(payloads, BULK)) {
        const returnId = part.at(-1) === payloads.at(-1);
        const ids = await boss.insert(name, part.map((data) => ({ data })), { returnId });
        if (returnId) last = { name, id: ids.at(-1) };
      }
    },
    async isDrained() {
      const [{ state }] = await boss.findJobs(last.name, { id: last.id });
      if (state === 'created' || state === 'active') return false;
      const left = (await query(STATES, Object.keys(handlers))).map((row) => row.state);
      if (left.includes('retry') || left.includes('failed')) throw new Error('a job failed');
      return left.length === 0;
    },
    async addFinished(number) {
      await query(ADD_FINISHED, number);
      await settleDown();
    },
    async addLater(number) {
      const later = { startAfter: tomorrow(), priority: 2147483647 };
      const jobs = Array.from({ length: number }, (_, n) => ({ ...later, data: { n } }));
      for (const part of parts(jobs, BULK)) await boss.insert('nothing', part);
      await settleDown();
    },
  });
  await boss.stop();
}

const start = async () => {
  const boss = await connect({ useListenNotify: true });
  for (const [name, handler] of Object.entries(handlers))
    await boss.work(name, SETTINGS, async (jobs) => jobs.forEach(({ data }) => handler(data)));
  return () => boss.stop();
};

await { install, drive, work: () => work(start) }[process.argv[2]]();
