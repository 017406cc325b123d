begin;
select no_plan();

-- Counters are laid down by hand: an hour ago, two jobs came and one succeeded; three hours ago one
-- failed.
insert into queue.rollups (grain, at, queue, kind, event, from_status, to_status, events)
select
  grain.unit || grain.of, date_trunc(grain.unit, now() - past.ago, 'UTC'),
  case grain.of when '' then 'email' else '' end,
  case grain.of when '' then past.kind else '' end, past.event, past.from_status, past.to_status,
  sum(past.events)
from (
  values ('minute', ''), ('hour', ''), ('minute', '_of_all'), ('hour', '_of_all')
) as grain (unit, of)
  cross join (
    values
      (interval '1 hour', 'send', 'enqueued', '', 'queued', 2),
      (interval '1 hour', 'send', 'claimed', 'queued', 'running', 1),
      (interval '1 hour', 'send', 'succeeded', 'running', 'succeeded', 1),
      (interval '3 hours', 'sync', 'failed', 'running', 'failed', 1),
      (interval '3 hours', 'sync', 'lease_expired', 'running', 'failed', 2),
      (interval '3 hours', 'sync', 'lease_expired', 'running', 'queued', 4),
      (interval '3 hours', 'sync', 'retry_scheduled', 'running', 'queued', 8),
      (interval '3 hours', 'sync', 'cancelled', 'queued', 'cancelled', 16)
  ) as past (ago, kind, event, from_status, to_status, events)
group by 1, 2, 3, 4, 5, 6, 7;
insert into queue.rollups
values ('ever', 'epoch', 'email', 'sync', 'failed', 'running', 'failed', 1);

select results_eq(
  $$
    select
      sum(enqueued), sum(started), sum(succeeded), sum(failed), sum(retried), sum(expired),
      sum(cancelled)
    from queue.throughput(now() - interval '4 hours')
  $$,
  $$
    values (2::numeric, 1::numeric, 1::numeric, 3::numeric, 8::numeric, 6::numeric, 16::numeric)
  $$,
  'Each transition is counted under what people call it; a lost lease that failed its job is both'
);
select results_eq(
  $$
    select count(*)::integer, count(distinct at)::integer, max(at) - min(at)
    from queue.throughput(now() - interval '10 minutes')
  $$,
  $$ select 11, 11, interval '10 minutes' $$,
  'There is a row a slot, with or without events, from the whole minute before since'
);
select is(
  (
    select sum(enqueued)
    from queue.throughput(now() - interval '4 hours', queue => 'email', kind => 'sync')
  ),
  0::numeric,
  'A kind is counted by itself'
);
select results_eq(
  $$
    select sum(enqueued), sum(started), sum(retried)
    from queue.throughput(now() - interval '4 hours', queue => 'email')
  $$,
  $$ values (2::numeric, 1::numeric, 8::numeric) $$,
  'All kinds of a queue are counted together'
);
select results_eq(
  $$
    select sum(enqueued), sum(failed)
    from queue.throughput(now() - interval '4 hours', kind => 'sync')
  $$,
  $$ values (0::numeric, 3::numeric) $$,
  'A kind is counted in whatever queue it ran'
);
select is(
  (select sum(enqueued) from queue.throughput(now() - interval '4 hours', queue => 'none')),
  0::numeric,
  'A queue is counted by itself'
);
insert into queue.rollups
select
  'five_minutes_of_all', date_bin('5 min', now() - interval '1 hour', 'epoch'), '', '', 'enqueued',
  '', 'queued', 32;
select results_eq(
  $$
    select
      resolution,
      (
        select sum(enqueued)
        from queue.throughput(now() - interval '4 hours', resolution => resolution)
      )
    from unnest('{1 min,5 min,7 min,20 min,1 h}'::interval[]) as resolution
  $$,
  $$
    values (interval '1 min', 2::numeric), ('5 min', 32), ('7 min', 2), ('20 min', 32), ('1 h', 2)
  $$,
  'Slots of so many times five minutes are read from what was counted by five'
);
select results_eq(
  $$
    select resolution, min(step.width), max(step.width)
    from unnest('{61 s,90 s,90 min,1 day}'::interval[]) as resolution
      cross join lateral (
        select lead(slot.at) over (order by slot.at) - slot.at as width
        from queue.throughput(now() - 10 * resolution, resolution => resolution) as slot
      ) as step
    group by 1
    order by 1
  $$,
  $$
    values (interval '61 s', interval '2 min', interval '2 min'), ('90 s', '2 min', '2 min'),
      ('90 min', '2 h', '2 h'),
      ('1 day', '1 day', '1 day')
  $$,
  'A slot is of whole minutes or hours, as they are counted'
);
select is(
  (select sum(failed) from queue.throughput(now() - interval '7 days', resolution => '1 hour')),
  3::numeric,
  'Hours are read beyond a day'
);
select is(
  (
    select count(*)::integer
    from queue.throughput(now() - interval '30 hours', resolution => '10 minutes') as slot
    where slot.at <> date_trunc('hour', slot.at)
  ),
  0,
  'Before the last 25 hours no slot is shorter than an hour'
);
select is(
  (select sum(enqueued) from queue.throughput(now() - interval '10 minutes', now())), 0::numeric,
  'What lies before since is not counted'
);
select throws_ok(
  $$ select queue.throughput(now() - interval '2 days', resolution => '1 minute') $$, 'RL400', null,
  'More than 1,000 slots are refused'
);
select throws_ok(
  $$ select queue.throughput(now(), now() - interval '1 hour') $$, 'RL400', null,
  'since must be before until'
);
select throws_ok(
  format(
    'select queue.%s(since => %L, until => %L)', name, bound::timestamptz - interval '1 hour', bound
  ),
  'RL400', null, name || ' reaches from year 1 to 10 years ahead'
)
from unnest('{throughput,latency}'::text[]) as name,
  unnest('{0001-01-01 00:30:00+00,294276-12-31 23:59:59+00}'::text[]) as bound;
select throws_ok(
  $$ select queue.throughput('-infinity') $$, 'RL400', null, 'Infinity is no instant'
);
select throws_ok(
  $$ select queue.throughput(resolution => '1 s') $$, 'RL400', null, 'A slot is a minute at least'
);
select throws_ok(
  $$ select queue.throughput(resolution => '2 days') $$, 'RL400', null, 'A slot is a day at most'
);

select * from finish();
rollback;
