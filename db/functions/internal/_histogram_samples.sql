-- queue._histogram_samples: waiting and running times as Prometheus' cumulative histograms, for metrics
--
-- By queue and kind while there are no more than 200 pairs of them; else by queue, and with more than 200 queues of all together. Of a
-- queue or kind that was there once the counters stay, so this changes once and never back. Sorting by bytes is much the cheaper.
create or replace function queue._histogram_samples()
returns table (
  place integer,
  family text,
  type text,
  help text,
  name text,
  queue text,
  kind text,
  extra text,
  outcome text,
  le text,
  value double precision,
  bucket integer
)
language sql
stable
as $$
  with ended as (
    select
      rollup.queue collate "C" as queue, rollup.kind collate "C" as kind,
      case rollup.event when 'claimed' then '' when 'succeeded' then 'succeeded' else 'failed' end collate "C" as outcome,
      rollup.bucket,
      sum(rollup.events)::double precision as events,
      sum(rollup.elapsed_seconds) as seconds
    from queue.rollups as rollup
    where rollup.grain = 'ever'
      and rollup.event in ('claimed', 'succeeded', 'failed', 'retry_scheduled')
      and rollup.bucket > 0
    group by 1, 2, 3, 4
  ),
  pairs as (
    select count(*) <= 200 as are_few, count(distinct pair.queue) <= 200 as have_few_queues
    from (select distinct ended.queue, ended.kind from ended) as pair
  ),
  timed as materialized (
    select
      case when pairs.have_few_queues then ended.queue else '' end as queue,
      case when pairs.are_few then ended.kind else '' end as kind,
      ended.outcome,
      ended.bucket,
      sum(ended.events) as events,
      sum(ended.seconds) as seconds
    from ended
      cross join pairs
    group by 1, 2, 3, 4
  ),
  series as (
    select timed.queue, timed.kind, timed.outcome, sum(timed.events) as events, sum(timed.seconds) as seconds
    from timed
    group by 1, 2, 3
  ),
  sample as (
    select
      series.queue, series.kind, series.outcome, '_bucket' as suffix, bound.le,
      sum(coalesce(timed.events, 0)) over (
        partition by series.queue, series.kind, series.outcome order by bound.bucket
      ) as value,
      bound.bucket
    from series
      cross join (
        select below.bucket, coalesce((queue._bucket_bounds())[below.bucket + 1]::text, '+Inf') as le
        from generate_series(1, 17) as below (bucket)
      ) as bound
      left join timed
        on timed.queue = series.queue
        and timed.kind = series.kind
        and timed.outcome = series.outcome
        and timed.bucket = bound.bucket
    union all
    select series.queue, series.kind, series.outcome, whole.suffix, null, whole.value, null
    from series
      cross join lateral (
        values ('_count', series.events), ('_sum', series.seconds)
      ) as whole (suffix, value)
  )
  select
    said.place, said.family, 'histogram', said.help, said.family || sample.suffix,
    nullif(sample.queue, ''), nullif(sample.kind, ''), 'outcome', nullif(sample.outcome, ''), sample.le,
    sample.value, sample.bucket
  from sample
    join (
      values
        (30, 'rowlock_job_wait_seconds', 'From due to claimed', true),
        (31, 'rowlock_job_run_seconds', 'From claimed to its end, by outcome', false)
    ) as said (place, family, help, is_wait) on said.is_wait = (sample.outcome = '');
$$;

comment on function queue._histogram_samples is 'Waiting and running times as cumulative histograms';
