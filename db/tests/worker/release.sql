begin;
select no_plan();

select queue_tests.run_one('given-back', max_attempts => 1, timeout => '1 h');
create temp table answers as
select * from queue.release(queue_tests.job_id('given-back'), 1, 'shutdown');

select results_eq(
  $$ select * from answers $$,
  $$ select id, 'queued', 0, available_at from queue_tests.jobs where kind = 'given-back' $$,
  'A released job is queued with its attempt given back'
);
select results_eq(
  $$
    select status, attempt, max_attempts, fence, settled_fence, settled_as, error_type,
      num_nulls(worker, lease_expires_at, deadline_at, finished_at),
      available_at <= clock_timestamp()
    from queue_tests.jobs where kind = 'given-back'
  $$,
  $$ values ('queued', 0, 1, 1, 1, 'release', null::text, 4, true) $$,
  'It is due at once, has no error, and its fence is not given back'
);
select results_eq(
  $$
    select item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker,
      item.detail ->> 'reason', (item.detail ->> 'available_at')::timestamptz = job.available_at
    from queue_tests.jobs as job, queue_tests.events(job.id) as item
    where job.kind = 'given-back' offset 2
  $$,
  $$ values ('released', 'running', 'queued', 0, 1, 'tester', 'shutdown', true) $$,
  'The event says why'
);

select results_eq(
  $$ select * from queue.release(queue_tests.job_id('given-back'), 1) $$,
  $$ select * from answers $$,
  'Asked again with the same token, the first answer comes back'
);
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('given-back'), 1) $$, 'RL409', null,
  'The late answer of a thread that ran on is refused'
);
select queue_tests.claim_one('given-back', 'w-2');
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('given-back'), 1) $$, 'RL409', null,
  'So it is when another worker has the job'
);
select results_eq(
  $$ select * from queue.release(queue_tests.job_id('given-back'), 1) $$,
  $$ select * from answers $$,
  'And the first answer still is'
);
select results_eq(
  $$ select status, worker, attempt, fence from queue_tests.jobs where kind = 'given-back' $$,
  $$ values ('running', 'w-2', 1, 2) $$,
  'The new claim is not touched'
);
select throws_ok(
  $$ select queue.release(queue_tests.job_id('given-back'), 3) $$, 'RL409', null,
  'A fence never given is lost'
);

select queue.cancel(queue_tests.job_id('given-back'));
select results_eq(
  $$ select status, attempt from queue.release(queue_tests.job_id('given-back'), 2) $$,
  $$ values ('cancelled', 1) $$,
  'Once a cancel was requested a release cancels the job'
);
select is(
  queue_tests.last_event(queue_tests.job_id('given-back')),
  'cancelled running -> cancelled, attempt 1, fence 2',
  'The event is cancelled'
);
select throws_ok($$ select queue.release(-1, 1) $$, 'RL404', null, 'An unknown job is RL404');

select queue_tests.run_one('overdue');
select queue_tests.expire_lease(queue_tests.job_id('overdue'));
select lives_ok(
  $$ select queue.release(queue_tests.job_id('overdue'), 1) $$,
  'A claim past its lease can still be released, until the reaper takes it'
);

select queue_tests.run_one('read-only');
set transaction read only;
select throws_ok(
  $$ select queue.release(queue_tests.job_id('read-only'), 1) $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
