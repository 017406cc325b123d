begin;
select no_plan();

-- The partition of a day, as of today in UTC.
create function pg_temp.day(ahead integer)
returns text language sql as $$
  select 'job_events_' || to_char((clock_timestamp() at time zone 'utc')::date + ahead, 'YYYYMMDD');
$$;
create function pg_temp.days()
returns setof text language sql as $$
  select name collate "default" from queue._event_days() order by 1;
$$;
create function pg_temp.write_event(at timestamptz, job_id bigint)
returns text language sql as $$
  insert into queue.job_events (at, job_id, attempt, fence, event, to_status, queue, kind)
  values (at, job_id, 0, 0, 'enqueued', 'queued', 'default', 'rotated')
  returning tableoid::regclass::text;
$$;

select queue.rotate_events();
select results_eq(
  $$ select * from queue.rotate_events() $$, $$ values (0, 0, null::text) $$,
  'With all days there is nothing to do'
);
select results_eq(
  $$ select name from pg_temp.days() as name where name >= pg_temp.day(0) $$,
  $$ select pg_temp.day(ahead) from generate_series(0, 14) as ahead $$,
  'Today and the next 14 days have a partition each'
);

-- Made anew.
do $$
begin
  for ahead in 12..14 loop
    execute format('drop table queue.%I', pg_temp.day(ahead));
  end loop;
end $$;
create temp table before as select current_setting('lock_timeout') as lock_timeout;
set local timezone = 'Australia/Lord_Howe';
select results_eq(
  $$ select * from queue.rotate_events() $$, $$ values (3, 0, null::text) $$,
  'Missing days are made'
);
select is(
  current_setting('lock_timeout'), (select before.lock_timeout from before),
  'The caller''s lock_timeout is its own again'
);
set local timezone = 'UTC';
select results_eq(
  $$
    select pg_get_expr(part.relpartbound, part.oid) collate "default"
    from generate_series(11, 14) as ahead
      join pg_class as part on part.oid = ('queue.' || pg_temp.day(ahead))::regclass
    order by ahead
  $$,
  $$
    select format(
      'FOR VALUES FROM (''%s 00:00:00+00'') TO (''%s 00:00:00+00'')',
      to_char(today + ahead, 'YYYY-MM-DD'), to_char(today + ahead + 1, 'YYYY-MM-DD')
    )
    from generate_series(11, 14) as ahead, (
      select (clock_timestamp() at time zone 'utc')::date
    ) as now (today)
    order by ahead
  $$,
  'A partition is a day of UTC, whatever the zone of who makes it'
);
select results_eq(
  $$
    select attname::text collate "default", format_type(atttypid, atttypmod), attnotnull
    from pg_attribute
    where attrelid = ('queue.' || pg_temp.day(14))::regclass and attnum > 0 order by attname
  $$,
  $$
    select attname::text collate "default", format_type(atttypid, atttypmod), attnotnull
    from pg_attribute
    where attrelid = ('queue.' || pg_temp.day(1))::regclass and attnum > 0 order by attname
  $$,
  'It has the columns of the others'
);
select results_eq(
  $$
    select regexp_replace(pg_get_indexdef(indexrelid), 'INDEX .* USING', '') from pg_index
    where indrelid = ('queue.' || pg_temp.day(14))::regclass order by 1
  $$,
  $$
    select regexp_replace(pg_get_indexdef(indexrelid), 'INDEX .* USING', '') from pg_index
    where indrelid = 'queue.job_events'::regclass order by 1
  $$,
  'and the indexes of the whole'
);
set local timezone = 'America/Sao_Paulo';
select is(
  pg_temp.write_event(
    ((clock_timestamp() at time zone 'utc')::date + 14 + time '23:59:59.999999') at time zone 'utc',
    1
  ),
  'queue.' || pg_temp.day(14), 'An event finds its day to the last microsecond'
);
select is(
  pg_temp.write_event(
    ((clock_timestamp() at time zone 'utc')::date + 14)::timestamp at time zone 'utc', 2
  ),
  'queue.' || pg_temp.day(14), 'from the first'
);
select results_eq(
  $$ select ends_at - ((clock_timestamp() at time zone 'utc')::date::timestamp at time zone 'utc')
     from queue._event_days() where name = pg_temp.day(0) $$,
  $$ values (interval '24 hours') $$,
  'Where a day ends is said in UTC'
);
set local timezone = 'UTC';

-- A day that was missing when events came.
do $$
begin
  execute format('drop table queue.%I', pg_temp.day(3));
  execute format('drop table queue.%I', pg_temp.day(4));
end $$;
select is(
  pg_temp.write_event(clock_timestamp() + interval '3 days', 3), 'queue.job_events_default',
  'An event without a day goes to the default partition'
);
select results_eq(
  $$ select created, dropped, note = (current_date + 3) || ' stays in the default partition'
     from queue.rotate_events() $$,
  $$ values (1, 0, true) $$,
  'Its day stays there, and the note says so; the other is made'
);
select results_eq(
  $$ select job_id from queue.job_events where kind = 'rotated' order by job_id $$,
  $$ values (1::bigint), (2), (3) $$,
  'No event is lost'
);

-- Retention.
do $$
begin
  for ahead in -33..-29 loop
    execute format(
      'create table queue.%I partition of queue.job_events for values from (%L) to (%L)',
      pg_temp.day(ahead), (current_date + ahead) || ' 00:00:00+00',
      (current_date + ahead + 1) || ' 00:00:00+00'
    );
    execute format('alter table queue.%I owner to queue_owner', pg_temp.day(ahead));
    perform pg_temp.write_event(current_date + ahead + interval '23:59:59.999999', ahead);
  end loop;
end $$;
select results_eq(
  $$ select created, dropped from queue.rotate_events() $$, $$ values (0, 3) $$,
  'Days that lie behind the retention with their last microsecond are dropped'
);
select results_eq(
  $$ select job_id from queue.job_events where kind = 'rotated' and job_id < 0 order by job_id $$,
  $$ values (-30::bigint), (-29) $$,
  'Younger events stay'
);
select pg_temp.write_event(clock_timestamp() - ago::interval, -100)
from unnest('{35 days,40 days,60 days}'::text[]) as ago;
select pg_temp.write_event(clock_timestamp() + interval '20 days', 100);
select results_eq(
  $$ select created, dropped from queue.rotate_events() $$, $$ values (0, 0) $$,
  'The default partition has its retention too'
);
select results_eq(
  $$ select job_id from queue.job_events_default order by job_id $$,
  $$ values (3::bigint), (100) $$,
  'event by event'
);
select queue.set_settings('{"events_retention": "1 minute"}');
select results_eq(
  $$ select dropped >= 2, note is not null from queue.rotate_events() $$, $$ values (true, true) $$,
  'A shorter retention drops more'
);
select results_eq(
  $$ select min(name) = pg_temp.day(0) from pg_temp.days() as name $$, $$ values (true) $$,
  'and never today'
);

-- Something in the way.
do $$
begin
  execute format('drop table queue.%I', pg_temp.day(13));
  execute format('drop table queue.%I', pg_temp.day(14));
  execute format('create table queue.%I ()', pg_temp.day(13)); -- not a partition
end $$;
select results_eq(
  $$
    select
      created, dropped,
      note like '%' || pg_temp.day(13) || ' could not be made: a table of that name is there'
    from queue.rotate_events()
  $$,
  $$ values (1, 0, true) $$,
  'A stranger''s table is left alone, and the other days are made'
);

set local role queue_operator;
select throws_ok(
  $$ select queue.rotate_events() $$, '42501', null,
  'An operator ticks, and does not rotate by hand'
);
set local role queue_admin;
select lives_ok($$ select queue.rotate_events() $$, 'An admin may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.rotate_events() $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
