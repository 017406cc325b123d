begin;
select no_plan();

select queue_tests.run_one('asked', timeout => '1 h');
select queue.cancel(queue_tests.job_id('asked'), 'no longer needed');
create temp table answers as
select * from queue.accept_cancel(queue_tests.job_id('asked'), 1, 'stopped at page 3');

select results_eq(
  $$ select * from answers $$,
  $$ select id, 'cancelled', 1, available_at from queue_tests.jobs where kind = 'asked' $$,
  'The holder of the claim ends the job as cancelled, its attempt used up'
);
select results_eq(
  $$
    select
      status, settled_fence, settled_as, finished_at is not null, cancel_requested_at is not null,
      error_type, num_nulls(worker, lease_expires_at, deadline_at)
    from queue_tests.jobs where kind = 'asked'
  $$,
  $$ values ('cancelled', 1, 'accept_cancel', true, true, null::text, 3) $$,
  'The row has a finish time, no lease, and still says that a cancel was requested'
);
select results_eq(
  $$ select * from queue_tests.events(queue_tests.job_id('asked')) offset 2 $$,
  $$
    values
      (
        'cancel_requested', 'running', 'running', 1, 1, 'tester',
        '{"reason": "no longer needed"}'::jsonb
      ),
      ('cancelled', 'running', 'cancelled', 1, 1, 'tester', '{"reason": "stopped at page 3"}')
  $$,
  'The history tells the request and the end, each with its reason'
);

select queue_tests.run_one('pointless');
select results_eq(
  $$ select status from queue.accept_cancel(queue_tests.job_id('pointless'), 1) $$,
  $$ values ('cancelled') $$,
  'A handler may stop of its own accord'
);
select is(
  queue_tests.last_event(queue_tests.job_id('pointless')),
  'cancelled running -> cancelled, attempt 1, fence 1',
  'The event is cancelled as well'
);

select results_eq(
  $$ select * from queue.accept_cancel(queue_tests.job_id('asked'), 1, 'again') $$,
  $$ select * from answers $$,
  'Asked again with the same token, the first answer comes back'
);
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('asked'), 1) $$, 'RL409', null,
  'A cancelled job cannot be completed'
);
select throws_ok(
  $$ select queue.fail(queue_tests.job_id('asked'), 1, 'E') $$, 'RL409', null,
  'Nor failed'
);
select is(
  (select count(*)::integer from queue_tests.events(queue_tests.job_id('asked'))),
  4,
  'A repeated or a stale answer writes no event'
);

select queue_tests.enqueue_one('waiting', 'waiting');
select queue.cancel(queue_tests.job_id('waiting'));
select throws_ok(
  $$ select queue.accept_cancel(queue_tests.job_id('waiting'), 0) $$, 'RL409', null,
  'What was cancelled while it waited was nobody''s claim'
);
select queue.retry(queue_tests.job_id('asked'));
select results_eq(
  $$ select id, status, attempt from queue.accept_cancel(queue_tests.job_id('asked'), 1) $$,
  $$ select id, status, attempt from answers $$,
  'The first answer comes back even when the job was retried'
);
select queue_tests.claim_one('asked');
select results_eq(
  $$
    select cancel_requested_at, fence, attempt, max_attempts
    from queue_tests.jobs
    where kind = 'asked'
  $$,
  $$ values (null::timestamptz, 2, 2, 6) $$,
  'A retried job is not asked to stop again'
);
select throws_ok($$ select queue.accept_cancel(-1, 1) $$, 'RL404', null, 'An unknown job is RL404');

select queue_tests.run_one('read-only');
set transaction read only;
select throws_ok(
  $$ select queue.accept_cancel(queue_tests.job_id('read-only'), 1) $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
