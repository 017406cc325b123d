begin;
select no_plan();

create function pg_temp.requeue(
  kind text, event text, at timestamptz, due timestamptz, verb text default null
)
returns queue.jobs
language sql
as $$
  select queue._requeue(job, event, at, due, verb, '{"reason": "r"}')
  from queue.jobs as job where job.id = queue_tests.job_id(requeue.kind);
$$;

select queue_tests.run_one('held', timeout => '1 h');
select results_eq(
  $$
    select (
      pg_temp.requeue('held', 'released', now(), now() + interval '1 h', 'release')
    ).available_at
  $$,
  $$ values (now() + interval '1 h') $$,
  'It returns the row as it has become'
);
select results_eq(
  $$
    select status, attempt, fence, settled_fence, settled_as,
      num_nulls(worker, lease_expires_at, deadline_at, finished_at, cancel_requested_at)
    from queue_tests.jobs where kind = 'held'
  $$,
  $$ values ('queued', 1, 1, 1, 'release', 5) $$,
  'A queued job belongs to nobody'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker, detail ->> 'reason',
      (detail ->> 'available_at')::timestamptz
    from queue_tests.events(queue_tests.job_id('held')) offset 2
  $$,
  $$ values ('released', 'running', 'queued', 1, 1, 'tester', 'r', now() + interval '1 h') $$,
  'The event tells when it is due'
);

select pg_temp.requeue('held', 'made_due', now() + interval '1 min', now());
select is(
  (select available_at from queue_tests.jobs where kind = 'held'),
  now() + interval '1 min',
  'No job becomes claimable before the instant of its transition: floors rely on it'
);
select results_eq(
  $$ select settled_fence, settled_as from queue_tests.jobs where kind = 'held' $$,
  $$ values (1, 'release') $$,
  'What the last holder answered stays remembered'
);

select queue_tests.run_one('dead', max_attempts => 1);
select queue.cancel(queue_tests.job_id('dead'));
select queue.accept_cancel(queue_tests.job_id('dead'), 1);
select (
  queue._requeue(
    jsonb_populate_record(job, '{"max_attempts": 3, "priority": 8}'), 'retried', clock_timestamp(),
    now()
  )
).status
from queue.jobs as job where job.kind = 'dead';
select results_eq(
  $$
    select
      status, attempt, max_attempts, priority::integer, num_nulls(finished_at, cancel_requested_at)
    from queue_tests.jobs where kind = 'dead'
  $$,
  $$ values ('queued', 1, 3, 8, 2) $$,
  'Attempts and priority are taken from the row given; finish and cancel request are gone'
);

select * from finish();
rollback;
