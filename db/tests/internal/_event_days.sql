begin;
select no_plan();

create temp table days as
select * from queue._event_days();
select results_eq(
  $$ select count(*) from days $$,
  $$
    select count(*) - 1 from pg_inherits where inhparent = 'queue.job_events'::regclass
  $$,
  'Every partition but the default one is a day'
);
set local timezone = 'Pacific/Kiritimati';
select results_eq(
  $$ select name, ends_at from queue._event_days() order by name $$,
  $$ select name, ends_at from days order by name $$,
  'When a day ends does not depend on the session''s zone'
);
set local timezone = 'UTC';
select is_empty(
  $$
    select from days where name <> 'job_events_' || to_char(ends_at - interval '1 day', 'YYYYMMDD')
  $$,
  'A day is named by its date in UTC'
);
create table queue.job_events_20200101 ();
create table queue.job_events_2020 partition of queue.job_events
for values from ('2020-01-01 00:00:00+00') to ('2020-01-02 00:00:00+00');
select results_eq(
  $$ select name, ends_at from queue._event_days() order by name $$,
  $$ select name, ends_at from days order by name $$,
  'A table that only has such a name, or is no day, is none'
);

select * from finish();
rollback;
