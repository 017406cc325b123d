-- queue._event_days: the partitions of the events that hold a day, and until when
create or replace function queue._event_days()
returns table (name text, ends_at timestamptz)
language sql
stable
as $$
  select
    part.relname::text,
    (to_date(right(part.relname, 8), 'YYYYMMDD') + 1)::timestamp at time zone 'utc'
  from pg_inherits as inherits
    join pg_class as part on part.oid = inherits.inhrelid
  where inherits.inhparent = 'queue.job_events'::regclass
    and part.relname ~ '^job_events_[0-9]{8}$';
$$;

comment on function queue._event_days is 'The daily partitions of the events and when their day ends';
