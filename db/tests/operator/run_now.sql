begin;
select no_plan();

create temp table jobs as select * from queue_tests.one_of_each();

select throws_ok(
  format('select queue.run_now(%s)', job_id), 'RL409', null,
  'A ' || status || ' job is not made due'
)
from jobs where status <> 'queued';

select queue_tests.enqueue_one('later', 'later', delay => '1 year');
select is(queue_tests.claim_one('later'), null, 'A job due later is not claimed');
create temp table answers as
select * from queue.run_now(queue_tests.job_id('later'), 'the customer waits');
select results_eq(
  $$ select * from answers $$,
  $$ select id, 'queued', 0, available_at from queue_tests.jobs where kind = 'later' $$,
  'The answer is the row'
);
select results_eq(
  $$
    select
      status, attempt, fence, max_attempts, priority,
      available_at between now() and clock_timestamp()
    from queue_tests.jobs where kind = 'later'
  $$,
  $$ values ('queued', 0, 0, 5, 5::smallint, true) $$,
  'The job is due now, and nothing else about it has changed'
);
select results_eq(
  $$
    select item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker,
      item.detail ->> 'reason', (item.detail ->> 'available_at')::timestamptz = job.available_at
    from queue_tests.jobs as job, queue_tests.events(job.id) as item
    where job.kind = 'later' offset 1
  $$,
  $$ values ('made_due', 'queued', 'queued', 0, 0, null::text, 'the customer waits', true) $$,
  'The event says since when it is due, and why'
);
select is(queue_tests.claim_one('later'), queue_tests.job_id('later'), 'It can be claimed');

-- A job between two attempts keeps what it knows.
select queue.fail(queue_tests.job_id('later'), 1, 'E', 'broken', retry_in => '1 hour');
select queue.run_now(queue_tests.job_id('later'));
select results_eq(
  $$
    select attempt, fence, error_type, error_message, settled_fence, settled_as
    from queue_tests.jobs where kind = 'later'
  $$,
  $$ values (1, 1, 'E', 'broken', 1, 'fail') $$,
  'A retry that is hurried keeps its error, and what its worker was told'
);
select results_eq(
  $$ select status from queue.fail(queue_tests.job_id('later'), 1, 'E') $$,
  $$ values ('queued') $$,
  'so that the worker that asks again gets its first answer'
);

-- One that is due already.
create temp table due as
select queue_tests.everything(job_id) as all from jobs where status = 'queued';
select results_eq(
  $$
    select answer.* from jobs, queue.run_now(jobs.job_id) as answer where jobs.status = 'queued'
  $$,
  $$ select id, 'queued', 0, available_at from queue_tests.jobs where kind = 'queued' $$,
  'A job that is due already is answered as it is'
);
select is(
  queue_tests.everything(queue_tests.job_id('queued')), (select due.all from due),
  'It keeps its place in the line, and nothing is recorded'
);

-- The line is by the instant a job became due.
select queue_tests.enqueue_one('line', 'line', delay => '1 day');
select queue_tests.enqueue_one('line', 'line');
select queue.run_now((select min(id) from queue_tests.jobs where kind = 'line'));
select is(
  queue_tests.claim_one('line'), queue_tests.job_id('line'),
  'A job made due joins the end of the line of its priority'
);

select throws_ok($$ select queue.run_now(-1) $$, 'RL404', null, 'An unknown job is RL404');
select throws_ok($$ select queue.run_now(null) $$, 'RL404', null, 'No job is RL404');

set local role queue_producer;
select throws_ok($$ select queue.run_now(1) $$, '42501', null, 'A producer may not');
set local role queue_operator;
select throws_ok($$ select queue.run_now(-1) $$, 'RL404', null, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.run_now(1) $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
