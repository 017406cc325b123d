begin;
select no_plan();

create temp table jobs as select * from queue_tests.one_of_each();

select throws_ok(
  format('select queue.cancel(%s)', job_id), 'RL409', null,
  'A ' || status || ' job is not cancelled'
)
from jobs where status in ('succeeded', 'failed', 'cancelled');

-- queued -> cancelled
create temp table answers as
select answer.*
from jobs, queue.cancel(jobs.job_id, 'ordered twice') as answer
where jobs.status = 'queued';
select results_eq(
  $$ select * from answers $$,
  $$ select id, 'cancelled', 0, available_at, false from queue_tests.jobs where kind = 'queued' $$,
  'A queued job is cancelled at once'
);
select results_eq(
  $$
    select status, attempt, fence, finished_at between now() and clock_timestamp(),
      num_nulls(worker, lease_expires_at, deadline_at, started_at, error_type), settled_as
    from queue_tests.jobs where kind = 'queued'
  $$,
  $$ values ('cancelled', 0, 0, true, 5, null::text) $$,
  'It is finished, was never claimed and has no error'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker, detail
    from queue_tests.events(queue_tests.job_id('queued')) offset 1
  $$,
  $$
    values (
      'cancelled', 'queued', 'cancelled', 0, 0, null::text, '{"reason": "ordered twice"}'::jsonb
    )
  $$,
  'The event says why'
);
select is(queue_tests.claim_one('queued'), null, 'It is not claimed any more');

-- running -> running
create temp table running as
select answer.*
from jobs, queue.cancel(jobs.job_id, 'too slow') as answer
where jobs.status = 'running';
select results_eq(
  $$ select * from running $$,
  $$ select id, 'running', 1, available_at, true from queue_tests.jobs where kind = 'running' $$,
  'A running job goes on; it has been asked to stop'
);
select results_eq(
  $$
    select status, fence, worker, cancel_requested_at between now() and clock_timestamp(),
      lease_expires_at > clock_timestamp(), finished_at is null
    from queue_tests.jobs where kind = 'running'
  $$,
  $$ values ('running', 1, 'tester', true, true, true) $$,
  'Its worker and its lease stay'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker, detail
    from queue_tests.events(queue_tests.job_id('running')) offset 2
  $$,
  $$
    values (
      'cancel_requested', 'running', 'running', 1, 1, 'tester', '{"reason": "too slow"}'::jsonb
    )
  $$,
  'The event names the worker that is asked'
);
select is(
  (select verdict from queue.renew(array[queue_tests.job_id('running')], '{1}')), 'stop',
  'The worker learns of it at its next renewal'
);
create temp table asked as select queue_tests.everything(queue_tests.job_id('running')) as all;
select results_eq(
  $$ select * from queue.cancel(queue_tests.job_id('running'), 'really') $$,
  $$ select * from running $$,
  'Asking again gets the same answer'
);
select is(
  queue_tests.everything(queue_tests.job_id('running')), (select asked.all from asked),
  'and changes and records nothing'
);

-- What becomes of it.
select results_eq(
  $$ select status, attempt from queue.fail(queue_tests.job_id('running'), 1, 'Stopped') $$,
  $$ values ('cancelled', 1) $$,
  'A failure after the request cancels the job'
);
select queue_tests.run_one('kept');
select queue.cancel(queue_tests.job_id('kept'));
select results_eq(
  $$ select status, attempt from queue.complete(queue_tests.job_id('kept'), 1) $$,
  $$ values ('succeeded', 1) $$,
  'Work that was done all the same is a success'
);
select queue_tests.run_one('silent');
select queue.cancel(queue_tests.job_id('silent'));
select queue_tests.expire_lease(queue_tests.job_id('silent'));
select results_eq(
  $$ select * from queue.reap() $$, $$ values (0, 0, 1, 0) $$,
  'A worker that never answers is cancelled by the reaper'
);

-- A job between two attempts.
select queue_tests.run_one('between');
select queue.fail(queue_tests.job_id('between'), 1, 'E', retry_in => '1 hour');
select results_eq(
  $$ select status, attempt from queue.cancel(queue_tests.job_id('between')) $$,
  $$ values ('cancelled', 1) $$,
  'A job that waits for its retry is cancelled at once'
);
select is(
  (select error_type from queue_tests.jobs where kind = 'between'), 'E',
  'and keeps the error it had'
);

select throws_ok($$ select queue.cancel(-1) $$, 'RL404', null, 'An unknown job is RL404');
select throws_ok($$ select queue.cancel(null) $$, 'RL404', null, 'No job is RL404');

select queue_tests.enqueue_one('acted');
set local rowlock.actor = 'alice@example.com';
select queue.cancel(queue_tests.job_id('acted'));
select results_eq(
  $$
    select item.actor, item.detail
    from queue_tests.job_events as item
    where item.job_id = queue_tests.job_id('acted') and item.event = 'cancelled'
  $$,
  $$ select 'alice@example.com', jsonb_build_object('session_user', session_user) $$,
  'The event says who claims to act, and who is signed in; no reason leaves no trace'
);
set local rowlock.actor = '';

set local role queue_worker;
select throws_ok($$ select queue.cancel(1) $$, '42501', null, 'A worker may not cancel');
set local role queue_operator;
select throws_ok($$ select queue.cancel(-1) $$, 'RL404', null, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.cancel(1) $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
