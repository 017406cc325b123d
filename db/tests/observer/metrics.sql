begin;
select no_plan();

insert into queue.rollups (
  grain, at, queue, kind, event, from_status, to_status, events, elapsed_seconds, buckets
)
values
  ('ever', 'epoch', 'q', 'k', 'enqueued', '', 'queued', 10, 0, null),
  (
    'ever', 'epoch', 'q', 'k', 'claimed', 'queued', 'running', 4, 4000.02,
    '{0,3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}'
  ),
  (
    'ever', 'epoch', 'q', 'k', 'succeeded', 'running', 'succeeded', 2, 0.001,
    '{2,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'
  ),
  (
    'ever', 'epoch', 'q', 'k', 'timed_out', 'running', 'failed', 1, 20,
    '{0,0,0,0,0,0,0,0,0,0,0,1,0,0,0,0,0}'
  );
select queue_tests.enqueue_one('k', 'q');
create temp table sample as select row_number() over () as place, * from queue.metrics();
prepare value as select value from sample where name = $1 and labels @> $2::jsonb;

select results_eq(
  $$ execute value('rowlock_jobs_enqueued_total', '{"queue": "q", "kind": "k"}') $$,
  'values (10::double precision)', 'Jobs created are counted'
);
select results_eq(
  $$ execute value('rowlock_jobs_finished_total', '{"outcome": "succeeded"}') $$,
  'values (2::double precision)', 'Jobs ended are counted by outcome'
);
select results_eq(
  $$ execute value('rowlock_attempts_total', '{"result": "timeout"}') $$,
  'values (1::double precision)', 'Attempts are counted by result'
);
select results_eq(
  $$ execute value('rowlock_leases_expired_total', '{}') $$, 'values (1::double precision)',
  'Lost leases are counted'
);
select results_eq(
  $$ execute value('rowlock_queue_jobs', '{"queue": "q", "label": "ready"}') $$,
  'values (1::double precision)', 'What waits now is a gauge from the rows'
);
select results_eq(
  $$ select labels ->> 'status', value from sample where name = 'rowlock_jobs' order by place $$,
  $$ values ('failed', 1::double precision), ('queued', 6), ('running', 1), ('succeeded', 2) $$,
  'All there are, by status, is what came less what left'
);
select results_eq(
  $$
    select labels ->> 'le', value from sample
    where name = 'rowlock_job_wait_seconds_bucket'
      and labels ->> 'le' in ('0.005', '0.01', '3600', '+Inf')
    order by place
  $$,
  $$ values ('0.005', 0::double precision), ('0.01', 3), ('3600', 3), ('+Inf', 4) $$,
  'A histogram is cumulative and ends with all'
);
select results_eq(
  $$ execute value('rowlock_job_wait_seconds_count', '{}') $$, 'values (4::double precision)',
  'Its count is all of them'
);
select results_eq(
  $$ execute value('rowlock_job_wait_seconds_sum', '{}') $$, 'values (4000.02::double precision)',
  'Its sum is their seconds'
);
select is(
  (
    select count(*)::integer
    from (select family, lag(family) over (order by place) as before, place from sample) as line
    where family is distinct from before
  ),
  (select count(distinct family)::integer from sample),
  'The samples of a family stand together'
);
select is(
  (
    select count(*)::integer
    from (select name, labels from sample group by 1, 2 having count(*) > 1) as twice
  ),
  0,
  'No sample comes twice'
);
select is_empty(
  $$ select * from sample where value is null or family is null or help is null $$,
  'Every sample has a value and a help'
);
select is_empty(
  $$ select * from sample where type = 'counter' and name not like '%\_total' $$,
  'Counters end in _total'
);
select is(
  (
    select count(*)::integer
    from sample
    where name = 'rowlock_maintenance_last_success_timestamp_seconds'
  ),
  (select count(*)::integer from queue.steps),
  'Every maintenance step says when it last succeeded'
);

-- With very many queues.
create function pg_temp.count_more(first integer, last integer) returns void language sql as $$
  insert into queue.rollups (
    grain, at, queue, kind, event, from_status, to_status, events, elapsed_seconds, buckets
  )
  select
    'ever', 'epoch', 'q' || more.n % 100, 'k' || more.n, 'claimed', 'queued', 'running', 1, 0.01,
    '{0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'
  from generate_series(first, last) as more (n);
$$;
create function pg_temp.labels() returns table (
  of_kinds boolean, of_queues boolean, series bigint, jobs double precision
)
language sql as $$
  select
    bool_and(sample.labels ? 'kind'), bool_and(sample.labels ? 'queue'), count(*), sum(sample.value)
  from queue.metrics() as sample
  where sample.name = 'rowlock_job_wait_seconds_count';
$$;
select pg_temp.count_more(1, 199);
select results_eq(
  'select * from pg_temp.labels()', 'values (true, true, 200::bigint, 203::double precision)',
  'There are histograms of 200 pairs of queue and kind'
);
select pg_temp.count_more(200, 200);
select results_eq(
  'select * from pg_temp.labels()', 'values (false, true, 101::bigint, 204::double precision)',
  'With more, of queues'
);
insert into queue.rollups
select
  'ever', 'epoch', 'r' || n, 'k', 'claimed', 'queued', 'running', 1, 0.01,
  '{0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}'
from generate_series(1, 100) as n;
insert into queue.rollups
values (
  'ever_of_all', 'epoch', '', '', 'claimed', 'queued', 'running', 304, 4003.02,
  '{0,303,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}'
);
select results_eq(
  'select * from pg_temp.labels()', 'values (false, false, 1::bigint, 304::double precision)',
  'With more than 200 queues, of all together'
);

insert into queue.jobs (created_at, available_at, status, max_attempts, kind, queue)
select now(), now(), 'queued', 5, 'k', 'r' || n % 199 from generate_series(1, 199 + 199 * 5) as n;
insert into queue.jobs (created_at, available_at, status, max_attempts, kind, queue)
select now(), now(), 'queued', 5, 'k', 'r0' from generate_series(1, 1000) as n;
select results_eq(
  $$ select max(value), max(help) from queue.metrics() where name = 'rowlock_queue_jobs' $$,
  $$ values (501::double precision, 'Jobs by queue and label; a count stops at 501') $$,
  'The more queues, the sooner a count of jobs stops, and says so'
);

select * from finish();
rollback;
