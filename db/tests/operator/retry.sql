begin;
select no_plan();

create temp table jobs as select * from queue_tests.one_of_each();

select throws_ok(
  format('select queue.retry(%s)', job_id), 'RL409', null, 'A ' || status || ' job is not retried'
)
from jobs where status in ('queued', 'running', 'succeeded');

create temp table before as
select job.*
from queue_tests.jobs as job
  join jobs on jobs.job_id = job.id
  and jobs.status = 'failed';

create temp table answers as
select answer.*
from jobs, queue.retry(jobs.job_id, reason => 'the printer has paper') as answer
where jobs.status = 'failed';

select results_eq(
  $$ select * from answers $$,
  $$ select id, 'queued', 1, available_at from queue_tests.jobs where kind = 'failed' $$,
  'A retried job is queued, its attempt counts on, and the answer is its row'
);
select results_eq(
  $$
    select job.status, job.attempt, job.fence, job.max_attempts - before.max_attempts,
      job.created_at = before.created_at, job.available_at between now() and clock_timestamp(),
      num_nulls(job.worker, job.lease_expires_at, job.deadline_at, job.finished_at,
        job.cancel_requested_at),
      job.error_type, job.settled_as
    from queue_tests.jobs as job join before using (id)
  $$,
  $$ values ('queued', 1, 1, 1, true, true, 5, 'Broken', 'fail') $$,
  'It has one more attempt, is due now, keeps its last error, its age and its fence'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker, detail - 'available_at'
    from queue_tests.events((select id from before)) offset 3
  $$,
  $$
    values ('retried', 'failed', 'queued', 1, 1, null::text,
      '{"max_attempts": 6, "reason": "the printer has paper"}'::jsonb)
  $$,
  'The event says how many attempts it has now, and why'
);

select is(queue_tests.claim_one('failed'), (select id from before), 'It can be claimed again');
select results_eq(
  $$ select attempt, max_attempts, fence from queue_tests.jobs where kind = 'failed' $$,
  $$ values (2, 6, 2) $$,
  'Its next claim is the next attempt under the next fence'
);
select throws_ok(
  $$ select queue.complete(id, 1) from before $$, 'RL409', null,
  'The token of the attempt that failed is worth nothing any more'
);

-- A cancelled job that was asked to stop while it ran.
select queue_tests.run_one('stopped', max_attempts => 1);
select queue.cancel(queue_tests.job_id('stopped'));
select queue.accept_cancel(queue_tests.job_id('stopped'), 1);
select queue.retry(queue_tests.job_id('stopped'), 2, '5 min');
select results_eq(
  $$
    select status, attempt, max_attempts, cancel_requested_at is null, error_type is null,
      available_at between now() + interval '5 min' and clock_timestamp() + interval '5 min'
    from queue_tests.jobs where kind = 'stopped'
  $$,
  $$ values ('queued', 1, 3, true, true, true) $$,
  'A cancelled job forgets the cancel request, gets the attempts asked for, and waits for its delay'
);
select is(
  queue_tests.last_event(queue_tests.job_id('stopped')),
  'retried cancelled -> queued, attempt 1, fence 1',
  'The event names the status it came from'
);
select is(queue_tests.claim_one('stopped'), null, 'A delayed retry is not due yet');

select lives_ok(
  $$ select queue.retry(job_id, delay => '-1 day') from jobs where status = 'cancelled' $$,
  'A delay in the past is taken'
);
select results_eq(
  $$
    select available_at between now() and clock_timestamp()
    from queue_tests.jobs
    where kind = 'cancelled'
  $$,
  $$ values (true) $$,
  'and means now'
);
select queue.cancel(queue_tests.job_id('cancelled'));
select lives_ok(
  $$ select queue.retry(queue_tests.job_id('cancelled'), null) $$, 'Null attempts are the default'
);

select queue_tests.run_one('wrong', max_attempts => 10);
select queue.fail(queue_tests.job_id('wrong'), 1, 'E', fatal => true);
create temp table untouched as select queue_tests.everything(queue_tests.job_id('wrong')) as all;
select throws_ok(
  format('select queue.retry(queue_tests.job_id(%L), %s)', 'wrong', arguments), 'RL400', null, rule
)
from (
  values
    ('0', 'At least one attempt is granted'),
    ('100001', 'At most 100,000 attempts are granted'),
    ('99991', 'With those it had, a job has at most 100,000 attempts'),
    ('2147483647', 'A number that would overflow is told apart in good time'),
    ($$1, '11 years'$$, 'A delay is at most 10 years'),
    ($$1, '-11 years'$$, 'A delay is at least 10 years ago')
) as wrong (arguments, rule);
select is(
  queue_tests.everything(queue_tests.job_id('wrong')), (select untouched.all from untouched),
  'A refused retry changes nothing and records nothing'
);
select throws_ok($$ select queue.retry(-1) $$, 'RL404', null, 'An unknown job is RL404');
select throws_ok($$ select queue.retry(null) $$, 'RL404', null, 'No job is RL404');

set local rowlock.actor = 'alice@example.com';
select queue.retry(queue_tests.job_id('wrong'), reason => repeat('x', 5000));
select results_eq(
  $$
    select item.actor, item.detail ->> 'session_user' = session_user,
      length(item.detail ->> 'reason')
    from queue_tests.job_events as item
    where item.job_id = queue_tests.job_id('wrong') and item.event = 'retried'
  $$,
  $$ values ('alice@example.com', true, 1000) $$,
  'The event says who claims to act and who is signed in; a long reason is cut'
);
set local rowlock.actor = '';

set local role queue_viewer;
select throws_ok(
  $$ select queue.retry(1) $$, '42501', null, 'Who may only look may not retry'
);
set local role queue_operator;
select throws_ok($$ select queue.retry(-1) $$, 'RL404', null, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.retry(1) $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
