-- queue.latency: how long jobs waited once due, and how long attempts ran, per span of time
--
-- Percentiles in seconds, from histograms: exact to the width of a bucket, null where nothing was claimed or ended.
-- Arguments as in throughput. wait ends at the claim; run is of attempts that succeeded or failed.
create or replace function queue.latency(
  since timestamptz default null,
  until timestamptz default null,
  resolution interval default '1 minute',
  queue text default null,
  kind text default null
)
returns table (
  at timestamptz,
  wait_p50 double precision,
  wait_p95 double precision,
  wait_p99 double precision,
  run_p50 double precision,
  run_p95 double precision,
  run_p99 double precision
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
  from queue._span(latency.since, latency.until, latency.resolution) as span;

  return query
    with counted as (
      select
        date_bin(v_span.resolution, rollup.at, v_span.since) as at,
        rollup.event = 'claimed' as is_wait,
        array[
          sum(rollup.buckets[1]), sum(rollup.buckets[2]), sum(rollup.buckets[3]), sum(rollup.buckets[4]),
          sum(rollup.buckets[5]), sum(rollup.buckets[6]), sum(rollup.buckets[7]), sum(rollup.buckets[8]),
          sum(rollup.buckets[9]), sum(rollup.buckets[10]), sum(rollup.buckets[11]), sum(rollup.buckets[12]),
          sum(rollup.buckets[13]), sum(rollup.buckets[14]), sum(rollup.buckets[15]), sum(rollup.buckets[16]),
          sum(rollup.buckets[17])
        ]::double precision[] as buckets
      from queue._counters(
          v_span.grain, v_span.since, v_span.until, latency.queue, latency.kind
        ) as rollup
      where rollup.event in ('claimed', 'succeeded', 'failed', 'retry_scheduled')
        and rollup.buckets is not null
      group by 1, 2
    ),
    summed as (
      select
        counted.at,
        counted.is_wait,
        part.bucket,
        part.events,
        sum(part.events) over (
          partition by counted.at, counted.is_wait order by part.bucket
        ) as up_to,
        sum(part.events) over (partition by counted.at, counted.is_wait) as total
      from counted
        cross join lateral unnest(counted.buckets) with ordinality as part (events, bucket)
      where part.events > 0
    ),
    found as (
      select
        summed.at,
        summed.is_wait,
        fraction.value as fraction,
        -- Within its bucket a value is taken to lie evenly.
        bounds.of[summed.bucket]
          + (coalesce(bounds.of[summed.bucket + 1], 7200) - bounds.of[summed.bucket])
          * (fraction.value * summed.total - (summed.up_to - summed.events)) / summed.events
          as seconds
      from summed
        cross join (values (0.5::double precision), (0.95), (0.99)) as fraction (value)
        cross join (select queue._bucket_bounds()) as bounds (of)
      where summed.up_to >= fraction.value * summed.total
        and summed.up_to - summed.events < fraction.value * summed.total
    )
    select
      slot.at,
      max(found.seconds) filter (where found.is_wait and found.fraction = 0.5),
      max(found.seconds) filter (where found.is_wait and found.fraction = 0.95),
      max(found.seconds) filter (where found.is_wait and found.fraction = 0.99),
      max(found.seconds) filter (where not found.is_wait and found.fraction = 0.5),
      max(found.seconds) filter (where not found.is_wait and found.fraction = 0.95),
      max(found.seconds) filter (where not found.is_wait and found.fraction = 0.99)
    from generate_series(
        v_span.since, v_span.until - interval '1 microsecond', v_span.resolution
      ) as slot (at)
      left join found on found.at = slot.at
    group by slot.at
    order by slot.at;
end;
$$;

comment on function queue.latency is 'How long jobs waited and ran, per span of time';
grant execute on function queue.latency to queue_viewer;
