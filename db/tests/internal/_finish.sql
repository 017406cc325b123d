begin;
select no_plan();

create function pg_temp.finish(
  kind text, status text, event text, at timestamptz, verb text default null
)
returns text
language sql
as $$
  select (queue._finish(job, finish.status, event, at, verb, '{"reason": "r"}')).status
  from queue.jobs as job where job.id = queue_tests.job_id(finish.kind);
$$;

select queue_tests.run_one('held', timeout => '1 h');
select queue.progress(queue_tests.job_id('held'), 1, 30, 'a third');
select is(
  pg_temp.finish('held', 'failed', 'timed_out', now() + interval '1 min', 'fail'),
  'failed', 'It returns the row as it has become'
);
select results_eq(
  $$
    select
      status, finished_at, attempt, fence, settled_fence, settled_as, progress::integer,
      progress_message,
      num_nulls(worker, lease_expires_at, deadline_at)
    from queue_tests.jobs where kind = 'held'
  $$,
  $$ values ('failed', now() + interval '1 min', 1, 1, 1, 'fail', 30, 'a third', 3) $$,
  'A finished job has its instant and no worker, lease or deadline; the progress stays as it was'
);
select results_eq(
  $$ select * from queue_tests.events(queue_tests.job_id('held')) offset 3 $$,
  $$ values ('timed_out', 'running', 'failed', 1, 1, 'tester', '{"reason": "r"}'::jsonb) $$,
  'The event is the one given, with the worker that was'
);
select results_eq(
  $$
    select item.at, item.elapsed = item.at - job.started_at
    from queue_tests.jobs as job join queue_tests.job_events as item on item.job_id = job.id
    where job.kind = 'held' and item.event = 'timed_out'
  $$,
  $$ values (now() + interval '1 min', true) $$,
  'It tells how long the attempt ran'
);

select queue_tests.enqueue_one('waiting', 'waiting');
select pg_temp.finish('waiting', 'cancelled', 'cancelled', now());
select results_eq(
  $$
    select status, attempt, settled_fence, settled_as, finished_at
    from queue_tests.jobs
    where kind = 'waiting'
  $$,
  $$ values ('cancelled', 0, null::integer, null::text, now()) $$,
  'A job that nobody held has no answer to remember'
);
select is(
  (select elapsed from queue_tests.job_events where kind = 'waiting' and event = 'cancelled'),
  null,
  'And did not run'
);

select * from finish();
rollback;
