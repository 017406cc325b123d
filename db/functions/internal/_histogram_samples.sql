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
      case when rollup.event = 'claimed' then 30 else 31 end as place,
      case when rollup.event = 'claimed' then 'rowlock_job_wait_seconds' else 'rowlock_job_run_seconds' end
        as family,
      case
        when rollup.event = 'claimed' then 'From due to claimed'
        else 'From claimed to its end, by outcome'
      end as help,
      jsonb_build_object('queue', rollup.queue, 'kind', rollup.kind)
        || case
          when rollup.event = 'claimed' then '{}'
          when rollup.event = 'succeeded' then '{"outcome": "succeeded"}'
          else '{"outcome": "failed"}'
        end::jsonb as labels,
      rollup.bucket,
      sum(rollup.events)::double precision as events,
      sum(rollup.elapsed_seconds) as seconds
    from queue.rollups as rollup
    where rollup.grain = 'ever'
      and rollup.event in ('claimed', 'succeeded', 'failed', 'retry_scheduled')
      and rollup.bucket > 0
    group by 1, 2, 3, 4, 5
  ),
  series as (
    select
      timed.place, timed.family, timed.help, timed.labels, sum(timed.events) as events,
      sum(timed.seconds) as seconds
    from timed
    group by 1, 2, 3, 4
  )
  select
    series.place, series.family, 'histogram', series.help, series.family || '_bucket',
    series.labels || jsonb_build_object(
      'le', coalesce((queue._bucket_bounds())[bound.bucket + 1]::text, '+Inf')
    ),
    (
      select coalesce(sum(timed.events), 0)
      from timed
      where timed.family = series.family
        and timed.labels = series.labels
        and timed.bucket <= bound.bucket
    ),
    bound.bucket
  from series
    cross join generate_series(1, 17) as bound (bucket)
  union all
  select
    series.place, series.family, 'histogram', series.help, series.family || '_count', series.labels,
    series.events, 18
  from series
  union all
  select
    series.place, series.family, 'histogram', series.help, series.family || '_sum', series.labels,
    series.seconds, 19
  from series;
$$;

comment on function queue._histogram_samples is 'Waiting and running times as cumulative histograms';
