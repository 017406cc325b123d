begin;
select no_plan();

-- 90 waits of 10 to 25 ms and 10 of 1 to 2.5 s; 4 runs of 100 to 250 ms, one longer than an hour.
insert into queue.rollups (
  grain, at, queue, kind, event, from_status, to_status, events, elapsed_seconds, buckets
)
values
  (
    'minute', date_trunc('minute', now()), 'q', 'k', 'claimed', 'queued', 'running', 100, 16,
    '{0,0,90,0,0,0,0,0,10,0,0,0,0,0,0,0,0}'
  ),
  (
    'minute', date_trunc('minute', now()), 'q', 'k', 'succeeded', 'running', 'succeeded', 4, 1,
    '{0,0,0,0,0,4,0,0,0,0,0,0,0,0,0,0,0}'
  ),
  (
    'minute', date_trunc('minute', now()), 'q', 'k', 'failed', 'running', 'failed', 1, 4000,
    '{0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1}'
  );
insert into queue.rollups
select
  'minute_of_all', one.at, '', '', one.event, one.from_status, one.to_status, one.events,
  one.elapsed_seconds,
  one.buckets
from queue.rollups as one;

create temp table latency as
select * from queue.latency(now() - interval '5 minutes') order by at desc limit 2;

select ok(
  (select wait_p50 between 0.01 and 0.025 from latency order by at desc limit 1),
  'The median lies in its bucket'
);
select is(
  (select round(wait_p50::numeric, 6) from latency order by at desc limit 1), 0.018333,
  'Within a bucket values are taken to lie evenly'
);
select ok(
  (select wait_p95 between 1 and 2.5 from latency order by at desc limit 1),
  'p95 is of the slow tenth'
);
select is(
  (select wait_p95 from latency order by at desc limit 1), 1.75::double precision,
  'Half of the slow tenth is half its bucket'
);
select ok(
  (select run_p50 between 0.1 and 0.25 from latency order by at desc limit 1),
  'Running is apart from waiting'
);
select ok(
  (select run_p99 between 3600 and 7200 from latency order by at desc limit 1),
  'The last bucket is open, taken to end at two hours'
);
select results_eq(
  'select wait_p50, run_p99 from latency order by at limit 1',
  'values (null::double precision, null::double precision)',
  'Where nothing happened there is no latency'
);
select is(
  (
    select round(max(wait_p50)::numeric, 6)
    from queue.latency(now() - interval '5 minutes', queue => 'q', kind => 'k')
  ),
  0.018333, 'A queue is measured by itself'
);
select is(
  (
    select max(wait_p50)
    from queue.latency(now() - interval '5 minutes', queue => 'q', kind => 'other')
  ),
  null,
  'A kind is measured by itself'
);
select throws_ok(
  $$ select queue.latency(now(), now() - interval '1 hour') $$, 'RL400', null,
  'since must be before until'
);

select * from finish();
rollback;
