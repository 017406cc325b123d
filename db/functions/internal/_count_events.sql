-- queue._count_events: adds to the counters what a later snapshot sees of the events and an earlier one does not
--
-- Of events with an id above p_after_id. Returns how many.
create or replace function queue._count_events(
  p_old pg_snapshot,
  p_new pg_snapshot,
  p_after_id bigint
)
returns bigint
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_open xid8[] := array(select pg_snapshot_xip(p_old));
  v_counted bigint;
begin
  with counted as materialized (
    select
      date_trunc('minute', event.at, 'UTC') as at,
      event.queue,
      event.kind,
      event.event,
      coalesce(event.from_status, '') as from_status,
      event.to_status,
      case
        when event.elapsed is not null
          then width_bucket(
            greatest(extract(epoch from event.elapsed)::double precision, 0), queue._bucket_bounds()
          )
      end as bucket,
      count(*) as events,
      -- A clock that stepped back may have made it negative.
      coalesce(sum(greatest(extract(epoch from event.elapsed)::double precision, 0)), 0) as elapsed_seconds
    from (
        select late.*
        from queue.job_events as late
        where late.xid = any (v_open)
        union all
        select later.*
        from queue.job_events as later
        where later.xid >= pg_snapshot_xmax(p_old)
          and later.xid < pg_snapshot_xmax(p_new)
      ) as event
    where event.id > p_after_id
      and pg_visible_in_snapshot(event.xid, p_new)
    group by 1, 2, 3, 4, 5, 6, 7
  ),
  binned as (
    select
      grain.name as grain,
      coalesce(date_bin(grain.width, counted.at, timestamptz 'epoch'), timestamptz 'epoch') as at,
      case when grain.of_all then '' else counted.queue end as queue,
      case when grain.of_all then '' else counted.kind end as kind,
      counted.event,
      counted.from_status,
      counted.to_status,
      counted.bucket,
      sum(counted.events)::bigint as events,
      sum(counted.elapsed_seconds) as elapsed_seconds
    from counted
      cross join (
        values
          ('minute', interval '1 minute', false),
          ('five_minutes', '5 minutes', false),
          ('hour', '1 hour', false),
          ('ever', null, false),
          ('minute_of_all', '1 minute', true),
          ('five_minutes_of_all', '5 minutes', true),
          ('hour_of_all', '1 hour', true),
          ('ever_of_all', null, true)
      ) as grain (name, width, of_all)
    group by 1, 2, 3, 4, 5, 6, 7, 8
  ),
  summed as (
    select
      binned.grain, binned.at, binned.queue, binned.kind, binned.event, binned.from_status, binned.to_status,
      sum(binned.events)::bigint as events,
      sum(binned.elapsed_seconds) as elapsed_seconds,
      count(binned.bucket) > 0 as are_timed,
      array_agg(binned.bucket) as buckets,
      array_agg(binned.events) as of_buckets
    from binned
    group by 1, 2, 3, 4, 5, 6, 7
  ),
  written as (
    insert into queue.rollups as rollup (
      grain, at, queue, kind, event, from_status, to_status, events, elapsed_seconds, buckets
    )
    select
      summed.grain, summed.at, summed.queue, summed.kind, summed.event, summed.from_status, summed.to_status,
      summed.events,
      summed.elapsed_seconds,
      case
        when summed.are_timed
          then array(
            select coalesce(summed.of_buckets[array_position(summed.buckets, every.bucket)], 0)
            from generate_series(1, 17) as every (bucket)
          )
      end
    from summed
    on conflict (grain, at, queue, kind, event, from_status, to_status) do update
    set events = rollup.events + excluded.events,
        elapsed_seconds = rollup.elapsed_seconds + excluded.elapsed_seconds,
        buckets = nullif(
          array(
            select coalesce(pair.old, 0) + coalesce(pair.new, 0)
            from unnest(rollup.buckets, excluded.buckets) with ordinality as pair (old, new, bucket)
            order by pair.bucket
          ),
          '{}'
        )
  )
  select coalesce(sum(counted.events), 0)::bigint into v_counted from counted;

  return v_counted;
end;
$$;

comment on function queue._count_events is 'Counts the events between two snapshots';
