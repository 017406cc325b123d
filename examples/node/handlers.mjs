// Handlers by kind: (payload, { signal, progress }) -> result. What they throw fails the job.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export const handlers = {
  'text.digest': async ({ text }) => ({
    sha256: createHash('sha256').update(text).digest('hex'),
  }),

  // Stops where it waits, when `signal` says so.
  'text.slowly': async ({ seconds }, { signal, progress }) => {
    for (let step = 1; step <= 4; step += 1) {
      await sleep((seconds * 1000) / 4, undefined, { signal });
      await progress(step * 25);
    }
  },

  'text.refuse': async ({ why }) => {
    throw new RangeError(why);
  },
};
