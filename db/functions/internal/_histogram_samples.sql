-- queue._histogram_samples: waiting and running times as Prometheus' cumulative histograms, for metrics
create or replace function queue._histogram_samples()
returns table (
  place integer,
  family text,
  type text,
  help text,
  name text,
  labels jsonb,
  value double precision,
  bucket integer
)
language sql
stable
as $$
  with timed as (
    select
      rollup.queue, rollup.kind,
      case rollup.event when 'claimed' then '' when 'succeeded' then 'succeeded' else 'failed' end as outcome,
      rollup.bucket,
      sum(rollup.events) as events,
      sum(rollup.elapsed_seconds) as seconds
    from queue.rollups as rollup
    where rollup.grain = 'ever'
      and rollup.event in ('claimed', 'succeeded', 'failed', 'retry_scheduled')
      and rollup.bucket > 0
    group by 1, 2, 3, 4
  ),
  series as (
    select timed.queue, timed.kind, timed.outcome, sum(timed.events) as events, sum(timed.seconds) as seconds
    from timed
    group by 1, 2, 3
  ),
  sample as (
    select
      series.queue, series.kind, series.outcome, '_bucket' as suffix,
      coalesce((queue._bucket_bounds())[bound.bucket + 1]::text, '+Inf') as le,
      sum(coalesce(timed.events, 0)) over (
        partition by series.queue, series.kind, series.outcome order by bound.bucket
      )::double precision as value,
      bound.bucket
    from series
      cross join generate_series(1, 17) as bound (bucket)
      left join timed
        on timed.queue = series.queue
        and timed.kind = series.kind
        and timed.outcome = series.outcome
        and timed.bucket = bound.bucket
    union all
    select series.queue, series.kind, series.outcome, whole.suffix, null, whole.value, whole.place
    from series
      cross join lateral (
        values ('_count', series.events::double precision, 18), ('_sum', series.seconds, 19)
      ) as whole (suffix, value, place)
  )
  select
    said.place, said.family, 'histogram', said.help, said.family || sample.suffix,
    jsonb_strip_nulls(
      jsonb_build_object(
        'queue', sample.queue, 'kind', sample.kind, 'outcome', nullif(sample.outcome, ''), 'le', sample.le
      )
    ),
    sample.value, sample.bucket
  from sample
    join (
      values
        (30, 'rowlock_job_wait_seconds', 'From due to claimed', true),
        (31, 'rowlock_job_run_seconds', 'From claimed to its end, by outcome', false)
    ) as said (place, family, help, is_wait) on said.is_wait = (sample.outcome = '');
$$;

comment on function queue._histogram_samples is 'Waiting and running times as cumulative histograms';
