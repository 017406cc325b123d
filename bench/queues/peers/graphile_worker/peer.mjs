// graphile-worker, run by the bench: node peer.mjs install | drive | work
import { Logger, makeWorkerUtils, run, runMigrations } from 'graphile-worker';
// From .cache/bench/graphile_worker, where this runs.
import {
  handlers, parts, serve, tomorrow, url, work,
} from '../../../bench/queues/peers/program.mjs';

// What its performance page measures with, https://worker.graphile.org/docs/performance. A larger
// local queue drains faster, and a crash locks as many jobs for four hours (docs/performance.md has
// what 1,000 and 5,000 do). A pool of "10 or concurrentJobs + 2, whichever is larger" (maxPoolSize,
// dist/index.d.ts). LISTEN wakes it: the same settings serve latency. A line in the log for every
// job done is left out.
const SETTINGS = {
  concurrentJobs: 24,
  maxPoolSize: 26,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};
const BULK = 10_000; // as fast as 50,000 in one call, and faster than 1,000

const logger = new Logger(() => (level, message) => {
  if (level === 'error' || level === 'warning') console.error(message);
});
const preset = { worker: { connectionString: url, logger, ...SETTINGS } };

// What addJobs() runs, without fetching the jobs that it made:
// https://worker.graphile.org/docs/sql-add-job#graphile_workeradd_jobs
const ADD_JOBS = `
select min(id) as first, max(id) as last
from graphile_worker.add_jobs(
  array(select json_populate_recordset(null::graphile_worker.job_spec, $1::json))
)`;

// A job that is done is deleted; one that failed is due again later.
const LEFT = `
select last_error from graphile_worker.jobs
where id between $1 and $2 and (run_at <= now() or last_error is not null)
order by last_error limit 1`;

async function drive() {
  const utils = await makeWorkerUtils({ preset });
  const query = async (text, ...values) =>
    (await utils.withPgClient((client) => client.query(text, values))).rows;
  let first; // of the jobs that are not known to be done
  let last; // added last, so done among the last

  async function add(specs) {
    for (const part of parts(specs, BULK)) {
      const [made] = await query(ADD_JOBS, JSON.stringify(part));
      first ??= made.first;
      last = made.last;
    }
  }

  await serve({
    async enqueue(handler, payload) {
      last = (await utils.addJob(handler, payload)).id;
      first ??= last;
    },
    enqueueBulk: (payloads) => add(payloads.map((payload) => ({ identifier: 'nothing', payload }))),
    async isDrained() {
      for (const from of [last, first]) {
        const [left] = await query(LEFT, from, last);
        if (left?.last_error) throw new Error(left.last_error);
        if (left) return false;
      }
      first = undefined;
      return true;
    },
    async addLater(number) {
      const later = { identifier: 'nothing', run_at: tomorrow(), priority: -32768 };
      const jobs = Array.from({ length: number }, (_, n) => ({ ...later, payload: { n } }));
      const known = [first, last];
      await add(jobs);
      [first, last] = known;
      await query('vacuum (analyze) graphile_worker._private_jobs'); // as autovacuum would
    },
  });
  await utils.release();
}

const start = async () => {
  const runner = await run({ preset, noHandleSignals: true, taskList: handlers });
  return () => runner.stop();
};

const install = () => runMigrations({ preset });

await { install, drive, work: () => work(start) }[process.argv[2]]();
