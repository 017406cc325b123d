-- Counters out of the event stream: how many of each transition, and how long jobs waited or ran, by the minute, by five, by the hour
-- and in all. Only the roll_up step writes them, and prune for what it removes: no enqueue or claim ever touches a counter.

create table queue.rollups (
  grain text not null,
  at timestamptz not null,
  queue text not null,
  kind text not null,
  event text not null,
  from_status text not null,
  to_status text not null,
  events bigint not null,
  elapsed_seconds double precision not null default 0,
  buckets bigint[],

  primary key (grain, at, queue, kind, event, from_status, to_status),
  constraint grain_is_known
    check (
      grain in (
        'minute', 'five_minutes', 'hour', 'ever',
        'minute_of_all', 'five_minutes_of_all', 'hour_of_all', 'ever_of_all'
      )
    ),
  constraint buckets_are_17 check (cardinality(buckets) = 17)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

comment on table queue.rollups is 'Transitions counted by minute, by five, by hour and in all';
comment on column queue.rollups.grain is
  'Of all: every queue and kind in one, whose names are empty';
comment on column queue.rollups.at is 'Start of the minutes or hour; of ever, 1970';
comment on column queue.rollups.from_status is 'Status before; empty for enqueued';
comment on column queue.rollups.elapsed_seconds is 'How long they took together';
comment on column queue.rollups.buckets is
  'How many of the events took how long, by _bucket_bounds(); null where they take no time';

insert into queue.steps (step, every, cursor)
values ('roll_up', '5 seconds', pg_current_snapshot()::text);
