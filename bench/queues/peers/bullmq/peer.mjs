// BullMQ, run by the bench: node peer.mjs install | drive | work
import { Queue, Worker } from 'bullmq';
// From .cache/bench/bullmq, where this runs.
import { handlers, parts, serve, url, work } from '../../../bench/queues/peers/program.mjs';

// https://docs.bullmq.io/guide/parallelism-and-concurrency: "between 100 and 300 is a quite
// standard setting"; 300 are no faster here, 20 slower. What is done is removed at once,
// https://docs.bullmq.io/guide/workers/auto-removal-of-jobs: the fastest of what it offers (keeping
// 1,000 or all takes Redis a fifth more). ioredis is its default; node-redis costs as much. A
// blocking call waits for the next job: the same settings serve latency.
const SETTINGS = { concurrency: 100, removeOnComplete: { count: 0 } };
const BULK = 1000; // https://docs.bullmq.io/guide/queues/adding-bulks; 100 and 10,000 cost as much

const connection = { url, maxRetriesPerRequest: null }; // null as workers need it
const DAY = 24 * 3600 * 1000;

async function drive() {
  const queue = new Queue('bench', { connection });
  queue.on('error', (error) => console.error(error));

  async function add(payloads, opts) {
    for (const part of parts(payloads, BULK))
      await queue.addBulk(part.map((data) => ({ name: 'nothing', data, opts })));
  }

  await serve({
    enqueue: async (name, payload) => { await queue.add(name, payload); },
    enqueueBulk: (payloads) => add(payloads),
    async isDrained() {
      const { failed, ...left } = await queue.getJobCounts('wait', 'active', 'failed');
      if (failed) throw new Error(`${failed} jobs failed`);
      return Object.values(left).every((number) => number === 0);
    },
    addLater: (number) =>
      add(Array.from({ length: number }, (_, n) => ({ n })), { delay: DAY, priority: 1 }),
  });
  await queue.close();
}

const start = async () => {
  const worker = new Worker(
    'bench', async ({ name, data }) => handlers[name](data), { connection, ...SETTINGS },
  );
  worker.on('error', (error) => console.error(error));
  return () => worker.close();
};

await { install() {}, drive, work: () => work(start) }[process.argv[2]]();
