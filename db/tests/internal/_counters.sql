begin;
select no_plan();

-- Two queues in each of two hours, by the minute and by the hour, and what stands for all of them.
insert into queue.rollups (grain, at, queue, kind, event, from_status, to_status, events)
select
  counted.grain, hour.at + counted.past, counted.queue, counted.kind, 'enqueued', '', 'queued',
  counted.events
from (values (timestamptz '2026-01-02 10:00Z'), ('2026-01-02 11:00Z')) as hour (at)
  cross join (
    values
      ('minute', 'a', 'k', 1, interval '30 min'), ('minute', 'b', 'k', 2, '30 min'),
      ('minute', 'b', 'l', 4, '30 min'),
      ('minute', 'b', 'l', 4, '59 min'), ('five_minutes', 'b', 'l', 4, '55 min'),
      ('minute_of_all', '', '', 7, '30 min'), ('minute_of_all', '', '', 4, '59 min'),
      ('hour', 'a', 'k', 1, '0'), ('hour', 'b', 'k', 2, '0'), ('hour', 'b', 'l', 8, '0'),
      ('hour_of_all', '', '', 11, '0')
  ) as counted (grain, queue, kind, events, past);
insert into queue.rollups
select 'ever', 'epoch', ever.queue, 'k', 'enqueued', '', 'queued', 1
from unnest('{a,b}'::text[]) as ever (queue);

prepare counted as
select string_agg(
  concat_ws(' ', to_char(at at time zone 'UTC', 'HH24:MI'), queue || kind || events),
  ', ' order by at, queue, kind
)
from queue._counters($1, $2, $3, $4, $5);

select results_eq(
  $$ execute counted('hour', '2026-01-02 10:00Z', '2026-01-02 12:00Z', null, null) $$,
  $$ values ('10:00 11, 11:00 11') $$, 'Of all queues and kinds there is one row an hour'
);
select results_eq(
  $$ execute counted('hour', '2026-01-02 10:00Z', '2026-01-02 11:00Z', null, null) $$,
  $$ values ('10:00 11') $$, 'What begins at the end is not of it'
);
select results_eq(
  $$ execute counted('hour', '2026-01-02 10:40Z', '2026-01-02 11:00:01Z', 'b', null) $$,
  $$ values ('10:00 bk2, 10:00 bl8, 11:00 bk2, 11:00 bl8') $$,
  'A queue has its kinds, from the hour that the start lies in'
);
select results_eq(
  $$ execute counted('minute', '2026-01-02 10:30:30Z', '2026-01-02 10:59:01Z', 'b', 'l') $$,
  $$ values ('10:30 bl4, 10:59 bl4') $$, 'Minutes are read by the minute'
);
select results_eq(
  $$ execute counted('five_minutes', '2026-01-02 10:57Z', '2026-01-02 11:58Z', 'b', null) $$,
  $$ values ('10:55 bl4, 11:55 bl4') $$, 'Or by five'
);
select results_eq(
  $$ execute counted('hour', '2026-01-02 11:00Z', '2026-01-02 12:00Z', null, 'k') $$,
  $$ values ('11:00 ak1, 11:00 bk2') $$, 'A kind is read in every queue that ever had it'
);
select results_eq(
  $$ execute counted('hour', '2026-01-02 11:00Z', '2026-01-02 12:00Z', 'c', null) $$,
  $$ values (null::text) $$, 'A queue without a count has no row'
);

select * from finish();
rollback;
