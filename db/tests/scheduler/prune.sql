begin;
select no_plan();

select results_eq(
  $$ select * from queue.prune() $$, $$ values (0, false) $$, 'An empty table has an end'
);

-- The answers of some calls, one after the other.
create function pg_temp.prunes(calls integer, max_jobs integer)
returns table (deleted integer, more boolean) language plpgsql as $$
begin
  for i in 1..calls loop
    return query select * from queue.prune(max_jobs);
  end loop;
end $$;

-- A finished job of every status, and how long ago it finished.
create function pg_temp.finished(status text, ago interval, queue text default 'default')
returns bigint language plpgsql as $$
declare v_id bigint := queue_tests.one_in(status);
begin
  perform queue_tests.age(v_id, ago);
  update queue.jobs as job
  set queue = finished.queue, kind = format(
    '%s.%s', finished.status, extract(epoch from ago)::bigint
  )
  where job.id = v_id;
  return v_id;
end $$;

select pg_temp.finished(status, ago::interval)
from unnest('{succeeded,cancelled,failed}'::text[]) as status,
  unnest('{6 days 23:59:00,7 days 00:00:01,29 days 23:59:00,30 days 00:00:01}'::text[]) as ago;
select queue_tests.age(queue_tests.one_in(status), '9 years')
from unnest('{queued,running}'::text[]) as status;
create temp table before as select id from queue_tests.jobs;
create temp table history as select * from queue_tests.job_events;

select results_eq(
  $$ select * from queue.prune() $$, $$ values (7, false) $$, 'It counts what it deleted'
);
select results_eq(
  $$ select kind from queue_tests.jobs order by kind $$,
  $$
    values ('cancelled.604740'), ('failed.2591940'), ('failed.604740'), ('failed.604801'),
      ('queued'),
      ('running'), ('succeeded.604740')
  $$,
  'What succeeded or was cancelled stays 7 days, what failed 30, what is not finished for ever'
);
select results_eq(
  $$ select * from queue_tests.job_events order by id $$, $$ select * from history order by id $$,
  'Events stay: they have a retention of their own'
);
select results_eq(
  $$ select grain, to_status, from_status, kind like from_status || '.%', sum(events)::integer
     from queue.rollups where event = 'pruned' group by 1, 2, 3, 4 order by 1, 3 $$,
  $$
    values
      ('ever', 'gone', 'cancelled', true, 3), ('ever', 'gone', 'failed', true, 1),
      ('ever', 'gone', 'succeeded', true, 3),
      ('ever_of_all', 'gone', 'cancelled', false, 3), ('ever_of_all', 'gone', 'failed', false, 1),
      ('ever_of_all', 'gone', 'succeeded', false, 3)
  $$,
  'The counters know what is gone, of each kind and of all together'
);

-- Retention by queue and by settings.
select queue.set_policy('short', finished_retention => '1 min', failed_retention => '2 min');
select pg_temp.finished('succeeded', '61 s', 'short');
select pg_temp.finished('failed', '61 s', 'short');
select pg_temp.finished('failed', '121 s', 'short');
select pg_temp.finished('succeeded', '59 s', 'short');
select results_eq(
  $$ select deleted from queue.prune() $$, $$ values (2) $$, 'A queue has a retention of its own'
);
select results_eq(
  $$ select kind from queue_tests.jobs where queue = 'short' order by kind $$,
  $$ values ('failed.61'), ('succeeded.59') $$,
  'for failed and for other jobs'
);
select queue.set_policy('short', unset => '{finished_retention}');
select queue.set_settings('{"finished_retention": "2 min", "failed_retention": "1 min"}');
select results_eq(
  $$ select deleted from queue.prune() $$, $$ values (5) $$,
  'Without a policy the settings hold'
);
select results_eq(
  $$ select kind from queue_tests.jobs order by kind $$,
  $$ values ('failed.61'), ('queued'), ('running'), ('succeeded.59') $$,
  'and a policy stands before them'
);
delete from queue.jobs;

-- A key is free when its job is gone.
select queue.enqueue('keyed', queue => 'keyed', idempotency_key => 'k');
select queue_tests.claim_one('keyed');
select queue.complete(queue_tests.job_id('keyed'), 1);
select results_eq(
  $$ select created from queue.enqueue('keyed', queue => 'keyed', idempotency_key => 'k') $$,
  $$ values (false) $$, 'A finished job keeps its key'
);
select queue_tests.age(queue_tests.job_id('keyed'), '1 hour');
select queue.prune();
select results_eq(
  $$ select created from queue.enqueue('keyed', queue => 'keyed', idempotency_key => 'k') $$,
  $$ values (true) $$, 'until it is gone'
);
delete from queue.jobs;

-- The walk.
create function pg_temp.rows(n integer, age interval, status text default 'succeeded')
returns void language sql as $$
  insert into queue.jobs (
    created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind, worker,
    started_at, lease_expires_at
  )
  select
    now() - age, now() - age, case when status = 'succeeded' then now() - age end, status, 5, 1, 1,
    'walk', case when status = 'running' then 'w' end, now() - age,
    case when status = 'running' then now() end
  from generate_series(1, n);
$$;
select pg_temp.rows(25, '1 hour', 'running');
select pg_temp.rows(12, '1 hour');
select pg_temp.rows(40, '1 hour', 'running');
create temp table ids as select id, row_number() over (order by id) as place from queue_tests.jobs;
select results_eq(
  $$ select * from queue.prune(1) $$, $$ values (0, true) $$, 'A call walks ten times max_jobs rows'
);
select is(
  (select place from ids join queue.steps on position = id where step = 'prune'), 10::bigint,
  'and the next goes on where it stopped'
);
select results_eq(
  $$ select * from queue.prune(3) $$, $$ values (3, true) $$,
  'It stops where it has deleted max_jobs'
);
select is(
  (select place from ids join queue.steps on position = id where step = 'prune'), 28::bigint,
  'behind the last that it deleted'
);
select results_eq(
  $$ select * from pg_temp.prunes(5, 3) $$,
  $$ values (3, true), (3, true), (3, true), (0, true), (0, false) $$,
  'It goes on to the end'
);
select is((select position from queue.steps where step = 'prune'), 0::bigint, 'and begins anew');
delete from queue.jobs;

select queue.set_settings('{"finished_retention": "1 hour", "failed_retention": "1 day"}');
select queue.set_policy('short', unset => '{failed_retention}');
select pg_temp.rows(5, '2 hours');
select pg_temp.rows(100, '5 min');
select results_eq(
  $$ select * from queue.prune(2) $$, $$ values (2, true) $$, 'It begins with the oldest'
);
select results_eq(
  $$ select * from pg_temp.prunes(3, 2) $$,
  $$ values (2, true), (1, true), (0, false) $$,
  'It ends where jobs are too young for any retention, however many they are'
);
update queue.jobs set created_at = clock_timestamp() + interval '1 year';
select pg_temp.rows(3, '2 hours');
select results_eq(
  $$ select sum(deleted) from pg_temp.prunes(8, 2) $$,
  $$ values (3::bigint) $$,
  'Rows dated by a clock that ran ahead do not end it'
);
delete from queue.jobs;

-- Its cost.
select pg_temp.rows(200, '2 hours');
select pg_temp.rows(3000, '5 min');
create temp table reads as select queue_tests.rows_read() as rows;
select results_eq(
  $$ select * from queue.prune(100) $$, $$ values (100, true) $$, 'A batch among many'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 1300::bigint,
  'It reads the rows it walks and looks up those it deletes, nothing else'
);
analyze queue.jobs;
truncate reads;
insert into reads select queue_tests.rows_read();
select results_eq(
  $$ select * from queue.prune(10) $$, $$ values (10, true) $$, 'whatever the statistics'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 150::bigint, 'A small batch is cheap'
);

select throws_ok(format('select queue.prune(%s)', max_jobs), 'RL400', null, rule)
from (
  values ('0', 'max_jobs is at least 1'), ('10001', 'max_jobs is at most 10,000'),
    ('null', 'max_jobs is a number')
) as wrong (max_jobs, rule);

set local role queue_operator;
select throws_ok(
  $$ select queue.prune() $$, '42501', null, 'An operator ticks, and does not prune by hand'
);
set local role queue_admin;
select lives_ok($$ select queue.prune() $$, 'An admin may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.prune() $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
