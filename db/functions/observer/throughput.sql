-- queue.throughput: how many jobs came, started and ended, per span of time
--
-- From since (an hour ago when null) until until (now), a row each resolution (a minute to a day, taken up to whole
-- minutes or hours; at most 1,001 rows, else RL400), those with nothing included, of one queue or kind or of all. From
-- minutes or five of them for the last day, from hours beyond. expired counts lost leases and timeouts, retried what
-- failed and was queued again.
create or replace function queue.throughput(
  since timestamptz default null,
  until timestamptz default null,
  resolution interval default '1 minute',
  queue text default null,
  kind text default null
)
returns table (
  at timestamptz,
  enqueued bigint,
  started bigint,
  succeeded bigint,
  failed bigint,
  retried bigint,
  expired bigint,
  cancelled bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_span record;
begin
  select span.* into v_span
  from queue._span(throughput.since, throughput.until, throughput.resolution) as span;

  return query
    with counted as (
      select
        date_bin(v_span.resolution, rollup.at, v_span.since) as at,
        rollup.event,
        rollup.from_status,
        rollup.to_status,
        sum(rollup.events) as events
      from queue._counters(
          v_span.grain, v_span.since, v_span.until, throughput.queue, throughput.kind
        ) as rollup
      group by 1, 2, 3, 4
    )
    select
      slot.at,
      coalesce(sum(counted.events) filter (where counted.event = 'enqueued'), 0)::bigint,
      coalesce(sum(counted.events) filter (where counted.event = 'claimed'), 0)::bigint,
      coalesce(sum(counted.events) filter (where counted.event = 'succeeded'), 0)::bigint,
      coalesce(
        sum(counted.events)
          filter (where counted.to_status = 'failed' and counted.from_status = 'running'),
        0
      )::bigint,
      coalesce(sum(counted.events) filter (where counted.event = 'retry_scheduled'), 0)::bigint,
      coalesce(
        sum(counted.events) filter (where counted.event in ('lease_expired', 'timed_out')), 0
      )::bigint,
      coalesce(sum(counted.events) filter (where counted.event = 'cancelled'), 0)::bigint
    from generate_series(
        v_span.since, v_span.until - interval '1 microsecond', v_span.resolution
      ) as slot (at)
      left join counted on counted.at = slot.at
    group by slot.at
    order by slot.at;
end;
$$;

comment on function queue.throughput is 'How many jobs came, started and ended, per span of time';
grant execute on function queue.throughput to queue_viewer;
