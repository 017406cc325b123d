begin;
select no_plan();

select results_eq(
  $$ select * from queue.reap() $$, $$ values (0, 0, 0, 0) $$,
  'With nothing to take it takes nothing'
);

create temp table jobs as select * from queue_tests.one_of_each();
create temp table before as
select jobs.status, queue_tests.everything(jobs.job_id) as all from jobs;
select results_eq(
  $$ select * from queue.reap() $$, $$ values (0, 0, 0, 0) $$,
  'A claim within its lease is left alone'
);

-- running -> queued
select queue_tests.run_one('lost');
select queue_tests.run_one('renewed');
select queue_tests.expire_lease(queue_tests.job_id('renewed'));
select results_eq(
  $$ select verdict from queue.renew(array[queue_tests.job_id('renewed')], '{1}') $$,
  $$ values ('held') $$,
  'Past its lease a claim still stands until the reaper takes it'
);
select queue_tests.expire_lease(queue_tests.job_id('lost'));
select results_eq(
  $$ select * from queue.reap() $$, $$ values (1, 0, 0, 0) $$,
  'A claim whose lease ran out is taken away'
);
select results_eq(
  $$
    select
      status, attempt, max_attempts, fence,
      num_nulls(worker, lease_expires_at, deadline_at, finished_at),
      error_type, error_message, error_group is not null, settled_fence,
      available_at - clock_timestamp() between interval '1 s' and interval '2.5 s'
    from queue_tests.jobs where kind = 'lost'
  $$,
  $$
    values ('queued', 1, 5, 1, 4, 'LeaseExpired', 'worker tester stopped renewing its lease', true,
      null::integer, true)
  $$,
  'The job waits for its backoff, the attempt used up, and says what happened'
);
select results_eq(
  $$
    select event, from_status, to_status, attempt, fence, worker, detail ->> 'error_type'
    from queue_tests.events(queue_tests.job_id('lost')) offset 2
  $$,
  $$ values ('lease_expired', 'running', 'queued', 1, 1, 'tester', 'LeaseExpired') $$,
  'The event names the worker that lost it'
);
select results_eq(
  $$ select status, queue_tests.everything(job_id) from jobs order by status $$,
  $$ select * from before order by status $$,
  'Jobs in every status, and claims within their lease, are as they were'
);
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('lost'), 1) $$, 'RL409', null,
  'The worker that comes back too late is refused'
);

-- running -> failed, cancelled
select queue_tests.run_one('last', max_attempts => 1);
select queue_tests.run_one('asked');
select queue.cancel(queue_tests.job_id('asked'));
select queue_tests.run_one('overran', timeout => '2 s');
update queue.jobs
set started_at = started_at - interval '1 min', deadline_at = deadline_at - interval '1 min'
where kind = 'overran';
select queue_tests.expire_lease(id)
from queue_tests.jobs
where kind in ('last', 'asked', 'overran');
select results_eq(
  $$ select * from queue.reap() $$, $$ values (1, 1, 1, 0) $$,
  'It counts what became of them: queued, failed, cancelled'
);
select results_eq(
  $$
    select status, attempt, error_type, finished_at between now() and clock_timestamp(), worker
    from queue_tests.jobs where kind = 'last'
  $$,
  $$ values ('failed', 1, 'LeaseExpired', true, null::text) $$,
  'Without an attempt left the job is failed'
);
select is(
  queue_tests.last_event(queue_tests.job_id('last')),
  'lease_expired running -> failed, attempt 1, fence 1', 'by the event lease_expired'
);
select is(
  queue_tests.last_event(queue_tests.job_id('asked')),
  'cancelled running -> cancelled, attempt 1, fence 1', 'A job asked to stop is cancelled'
);
select results_eq(
  $$ select status, error_type, error_message from queue_tests.jobs where kind = 'overran' $$,
  $$ values ('queued', 'TimedOut', 'the job ran past its timeout') $$,
  'A job past its timeout says so'
);
select is(
  queue_tests.last_event(queue_tests.job_id('overran')),
  'timed_out running -> queued, attempt 1, fence 1', 'by the event timed_out'
);

-- A job that kills its worker each time.
create function pg_temp.kill_workers() returns integer language plpgsql as $$
declare v_claims integer := 0;
begin
  perform queue_tests.enqueue_one('killer', 'killer', max_attempts => 3);
  while queue_tests.claim_one('killer') is not null loop
    v_claims := v_claims + 1;
    perform queue_tests.expire_lease(queue_tests.job_id('killer'));
    perform queue.reap();
    perform queue_tests.age(queue_tests.job_id('killer'), '1 hour');
  end loop;
  return v_claims;
end $$;
select is(
  pg_temp.kill_workers(), 3, 'A job that kills its worker each time is claimed max_attempts times'
);
select results_eq(
  $$ select status, attempt, fence from queue_tests.jobs where kind = 'killer' $$,
  $$ values ('failed', 3, 3) $$,
  'and ends failed'
);

-- Bounds, and long leases ahead of expired ones.
select queue_tests.enqueue_one('many', 'many', lease => '1 hour') from generate_series(1, 30);
select count(*) from queue.claim('tester', '{many}', 30);
select queue_tests.expire_lease(id)
from (select id from queue_tests.jobs where kind = 'many' order by id desc limit 5) as last;
select results_eq(
  $$ select * from queue.reap(3) $$, $$ values (3, 0, 0, 0) $$,
  'At most max_jobs are taken, and long leases do not stand in the way of those behind them'
);
select results_eq(
  $$ select * from queue.reap(3) $$, $$ values (2, 0, 0, 0) $$, 'The next call goes on'
);
select throws_ok(format('select queue.reap(%s)', max_jobs), 'RL400', null, rule)
from (
  values ('0', 'max_jobs is at least 1'), ('10001', 'max_jobs is at most 10,000'),
    ('null', 'max_jobs is a number')
) as wrong (max_jobs, rule);

-- Rows that cannot be updated.
create function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'this row is broken';
end $$;
select queue_tests.expire_lease(id)
from (
  select id from queue_tests.jobs where kind = 'many' and status = 'running' order by id limit 8
) as first;
create temp table expired as
select id
from queue_tests.jobs
where status = 'running'
  and lease_expires_at < clock_timestamp()
order by id;
do $$
begin
  execute format(
    'create trigger broken before update on queue.jobs for each row when (old.id in (%s))'
    ' execute function pg_temp.refuse()',
    (select string_agg(id::text, ',') from (select id from expired limit 4) as first)
  );
end $$;
set local client_min_messages = error;
select results_eq(
  $$ select * from queue.reap() $$, $$ values (4, 0, 0, 4) $$,
  'A row that cannot be taken is set aside and counted, the others proceed'
);
select results_eq(
  $$
    select id from queue_tests.jobs
    where status = 'running' and lease_expires_at < clock_timestamp() order by id
  $$,
  $$ select id from expired limit 4 $$,
  'It stays as it is'
);
select queue_tests.expire_lease(max(id))
from queue_tests.jobs
where kind = 'many'
  and status = 'running';
select results_eq(
  $$ select * from queue.reap(2) $$, $$ values (1, 0, 0, 4) $$,
  'More broken rows than a call may take do not hide the one behind them'
);
select is_empty(
  $$
    select from queue_tests.job_events as item join expired on expired.id = item.job_id
    where item.event = 'lease_expired'
      and item.job_id <= (select max(id) from (select id from expired limit 4) as f)
  $$,
  'What was set aside has no event'
);

-- A conflict between transactions is no broken row: who asked is told, and asks again.
create or replace function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'conflict' using errcode = '40001';
end $$;
select throws_ok($$ select queue.reap() $$, '40001', null, 'A serialization failure is raised');
create or replace function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'conflict' using errcode = case
    when old.id = current_setting('rowlock_test.first')::bigint then 'P0001' else '40P01'
  end;
end $$;
select set_config('rowlock_test.first', min(id)::text, true) from expired;
select throws_ok(
  $$ select queue.reap() $$, '40P01', null, 'A deadlock too, when rows are taken one by one'
);
drop trigger broken on queue.jobs;
set local client_min_messages = notice;

-- The work is by what runs, not by what is kept.
insert into queue.jobs (
  created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind
)
select now(), now(), now(), 'succeeded', 5, 1, 1, 'kept' from generate_series(1, 3000);
create temp table reads as select queue_tests.rows_read() as rows;
select * from queue.reap();
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 300::bigint,
  'It reads running jobs, not finished ones'
);

set local role queue_operator;
select throws_ok(
  $$ select queue.reap() $$, '42501', null, 'An operator ticks, and does not reap by hand'
);
set local role queue_admin;
select lives_ok($$ select queue.reap(1) $$, 'An admin may');
reset role;

set local transaction read only;
select throws_ok($$ select queue.reap() $$, 'RL503', null, 'A read-only transaction is told RL503');

select * from finish();
rollback;
