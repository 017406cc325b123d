begin;
select no_plan();

-- Some old database has it so; then 'null' in a literal is a word.
set local array_nulls = off;

-- What commits is seen by its transaction id: here events get the id of one long ended, `back`
-- before the present.
create function pg_temp.xid(back integer) returns xid8 language sql as $$
  select (pg_snapshot_xmin(pg_current_snapshot())::text::bigint - back)::text::xid8;
$$;
create function pg_temp.commit_as(kind text, back integer) returns void language sql as $$
  update queue.job_events as item set xid = pg_temp.xid(back) where item.kind = commit_as.kind;
$$;
create function pg_temp.put_cursor(snapshot text) returns void language sql as $$
  update queue.steps as step set cursor = snapshot where step.step = 'roll_up';
$$;
create function pg_temp.before(back integer) returns text language sql as $$
  select format('%1$s:%1$s:', pg_temp.xid(back));
$$;
create function pg_temp.ever(kind text) returns bigint language sql as $$
  select coalesce(sum(rollup.events), 0)::bigint
  from queue.rollups as rollup where rollup.kind = ever.kind and rollup.grain = 'ever';
$$;

-- Exactly once ------------------------------------------------------------------------------------

select pg_temp.put_cursor(pg_current_snapshot()::text);
select queue_tests.run_one('a');
select queue.complete(queue_tests.job_id('a'), 1);
select results_eq(
  $$ select * from queue.roll_up() $$, $$ values (0::bigint, false) $$,
  'What the caller''s own transaction wrote has not committed and is not counted'
);

select pg_temp.commit_as('a', 9);
select pg_temp.put_cursor(pg_temp.before(9));
select results_eq(
  $$ select * from queue.roll_up() $$, $$ values (3::bigint, false) $$,
  'What has committed since the cursor is counted'
);
select results_eq(
  $$
    select grain, queue, event, from_status, to_status, events from queue.rollups
    where kind = 'a' order by grain, event
  $$,
  $$
    values
      ('ever', 'a', 'claimed', 'queued', 'running', 1::bigint),
      ('ever', 'a', 'enqueued', '', 'queued', 1),
      ('ever', 'a', 'succeeded', 'running', 'succeeded', 1),
      ('five_minutes', 'a', 'claimed', 'queued', 'running', 1),
      ('five_minutes', 'a', 'enqueued', '', 'queued', 1),
      ('five_minutes', 'a', 'succeeded', 'running', 'succeeded', 1),
      ('hour', 'a', 'claimed', 'queued', 'running', 1), ('hour', 'a', 'enqueued', '', 'queued', 1),
      ('hour', 'a', 'succeeded', 'running', 'succeeded', 1),
      ('minute', 'a', 'claimed', 'queued', 'running', 1),
      ('minute', 'a', 'enqueued', '', 'queued', 1),
      ('minute', 'a', 'succeeded', 'running', 'succeeded', 1)
  $$,
  'Each transition is counted by the minute, by five, by the hour and for ever'
);
select results_eq(
  $$ select grain, at from queue.rollups where kind = 'a' and event = 'enqueued' order by grain $$,
  $$
    select
      grain,
      case grain
        when 'ever' then timestamptz 'epoch'
        when 'five_minutes' then date_bin('5 min', item.at, '2000-01-01 00:00Z')
        else date_trunc(grain, item.at, 'UTC')
      end
    from unnest('{ever,five_minutes,hour,minute}'::text[]) as grain,
      (select at from queue.job_events where kind = 'a' and event = 'enqueued') as item
    order by grain
  $$,
  'Under the minutes and the hour that the event is dated'
);
select results_eq(
  $$
    select grain, queue, kind, event, events from queue.rollups
    where grain like '%of_all' and event = 'claimed' order by grain
  $$,
  $$
    values
      ('ever_of_all', '', '', 'claimed', 1::bigint), ('five_minutes_of_all', '', '', 'claimed', 1),
      ('hour_of_all', '', '', 'claimed', 1),
      ('minute_of_all', '', '', 'claimed', 1)
  $$,
  'And once more for all queues and kinds together'
);
select results_eq(
  $$ select *, pg_temp.ever('a') from queue.roll_up() $$,
  $$ values (0::bigint, false, 3::bigint) $$,
  'Once more counts nothing twice'
);

select queue_tests.run_one('late');
select pg_temp.commit_as('late', 8);
select pg_temp.put_cursor(format('%s:%s:%1$s', pg_temp.xid(8), pg_temp.xid(5)));
select results_eq(
  $$ select counted from queue.roll_up() $$, $$ values (2::bigint) $$,
  'A transaction that was open when the cursor was taken is counted once it has committed'
);
select is(pg_temp.ever('late'), 2::bigint, 'Under what it did');

select queue_tests.enqueue_one('first', 'q');
select queue_tests.enqueue_one('second', 'q');
select pg_temp.commit_as('first', 9);
select pg_temp.commit_as('second', 4);
delete from queue.job_events where kind in ('a', 'late');
select pg_temp.put_cursor(pg_temp.before(9));
select results_eq(
  $$ select * from queue.roll_up(2) $$, $$ values (1::bigint, true) $$,
  'A long way is gone in steps, and more says that the end is not reached'
);
select results_eq(
  $$ select counted, more from queue.roll_up() $$, $$ values (1::bigint, false) $$,
  'The next step counts what is left'
);
select results_eq(
  $$ select pg_temp.ever('first'), pg_temp.ever('second') $$, $$ values (1::bigint, 1::bigint) $$,
  'Nothing is missed between them and nothing counted twice'
);

select pg_temp.put_cursor(pg_temp.before(9));
update queue.settings
set adopted_event_id = (select min(id) from queue.job_events where kind = 'first');
select results_eq(
  $$ select counted from queue.roll_up() $$, $$ values (1::bigint) $$,
  'Events that came with a restored dump are not counted: their transaction ids say nothing here'
);

-- How long ----------------------------------------------------------------------------------------

set local array_nulls = on;
delete from queue.job_events;
insert into queue.job_events (
  at, xid, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind
)
select now(), pg_temp.xid(9), 1, 1, 1, elapsed, 'claimed', 'queued', 'running', 'q', 'timed'
from unnest('{-1 s,0,4 ms,5 ms,1 s,2 s,59 s,1 h,9 days,null}'::interval[]) as elapsed;
update queue.settings set adopted_event_id = 0;
select pg_temp.put_cursor(pg_temp.before(9));
select results_eq(
  $$ select counted from queue.roll_up() $$, $$ values (10::bigint) $$, 'Ten claims are counted'
);
select results_eq(
  $$
    select events, round(elapsed_seconds::numeric, 3), buckets from queue.rollups
    where kind = 'timed' and grain = 'minute'
  $$,
  $$ values (10::bigint, 781262.009, '{3,1,0,0,0,0,0,0,2,0,0,0,1,0,0,0,2}'::bigint[]) $$,
  'By how long they took: each under the last bound reached, none where it is not known'
);
update queue.job_events as item
set elapsed = case when item.elapsed < '4 ms' then '2 s' else item.elapsed end
where item.elapsed <= '4 ms';
insert into queue.job_events (
  at, xid, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind
)
select now(), pg_temp.xid(9), 1, 1, 1, null, 'released', 'running', 'queued', 'q', 'timed';
select pg_temp.put_cursor(pg_temp.before(9));
select queue.roll_up();
select results_eq(
  $$
    select grain, event, events, round(elapsed_seconds::numeric, 3), buckets from queue.rollups
    where kind = 'timed' and grain in ('minute', 'ever') order by grain, event
  $$,
  $$
    select grain.name, counted.*
    from unnest('{ever,minute}'::text[]) as grain (name)
      cross join (
        values
          ('claimed', 20::bigint, 1562528.018, '{4,2,0,0,0,0,0,0,6,0,0,0,2,0,0,0,4}'::bigint[]),
          ('released', 1, 0.000, null)
      ) as counted
  $$,
  'What comes later is added to what is there, bucket by bucket'
);

-- Retention, bounds -------------------------------------------------------------------------------

insert into queue.rollups
select grain, now() - age, 'q', 'old', 'claimed', 'queued', 'running', 1
from (
  values
    ('minute', interval '24 h'), ('minute', '26 h'), ('hour', '91 days'), ('hour', '93 days'),
    ('ever', '9 years'),
    ('minute_of_all', '24 h'), ('minute_of_all', '26 h'), ('five_minutes', '24 h'),
    ('five_minutes', '26 h'),
    ('five_minutes_of_all', '24 h'), ('five_minutes_of_all', '26 h'), ('hour_of_all', '91 days'),
    ('hour_of_all', '93 days')
) as old (grain, age);
select queue.roll_up();
select results_eq(
  $$
    select grain, now() - at from queue.rollups where kind = 'old' order by grain
  $$,
  $$
    values
      ('ever', now() - (now() - interval '9 years')), ('five_minutes', interval '1 day'),
      ('five_minutes_of_all', interval '1 day'), ('hour', now() - (now() - interval '91 days')),
      ('hour_of_all', now() - (now() - interval '91 days')), ('minute', interval '1 day'),
      ('minute_of_all', interval '1 day')
  $$,
  'Minutes are kept for 25 hours, hours for 92 days, the rest for ever'
);

select throws_ok(format('select queue.roll_up(%s)', most), 'RL400', null, rule)
from (
  values ('0', 'At least one transaction'), ('1000001', 'A million at most'),
    ('null', 'And not null')
) as wrong (most, rule);

update queue.steps set step = 'gone' where step = 'roll_up';
select results_eq(
  $$ select * from queue.roll_up() $$, $$ values (0::bigint, false) $$,
  'Who does not get the cursor, since another caller has it, passes by'
);

set transaction read only;
select throws_ok(
  $$ select queue.roll_up() $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
