-- queue._histogram_samples: waiting and running times as Prometheus' cumulative histograms, for metrics
--
-- By queue and kind while there are no more than 200 pairs of them; else by queue, and with more than 200 queues of all
-- together. Of a queue or kind that was there once the counters stay, so this changes once and never back. Sorting by
-- bytes is much the cheaper.
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
      case rollup.event
        when 'claimed' then ''
        when 'succeeded' then 'succeeded'
        else 'failed'
      end collate "C" as outcome,
      rollup.grain, rollup.buckets, rollup.elapsed_seconds
    from queue.rollups as rollup
    where rollup.grain in ('ever', 'ever_of_all')
      and rollup.event in ('claimed', 'succeeded', 'failed', 'retry_scheduled')
      and rollup.buckets is not null
  ),
  pairs as materialized (
    select count(*) <= 200 as are_few, count(distinct pair.queue) <= 200 as have_few_queues
    from (select distinct ended.queue, ended.kind from ended where ended.grain = 'ever') as pair
  ),
  told as materialized (
    select
      ended.queue, case when pairs.are_few then ended.kind else '' end as kind, ended.outcome, ended.buckets,
      ended.elapsed_seconds
    from ended
      join pairs on ended.grain = case when pairs.have_few_queues then 'ever' else 'ever_of_all' end
  ),
  counted as (
    select told.queue, told.kind, told.outcome, part.bucket, sum(part.events)::double precision as events
    from told
      cross join lateral unnest(told.buckets) with ordinality as part (events, bucket)
    group by 1, 2, 3, 4
  ),
  sample as (
    select
      counted.queue, counted.kind, counted.outcome, '_bucket' as suffix,
      coalesce((queue._bucket_bounds())[counted.bucket + 1]::text, '+Inf') as le,
      sum(counted.events) over (
        partition by counted.queue, counted.kind, counted.outcome order by counted.bucket
      ) as value,
      counted.bucket::integer as bucket
    from counted
    union all
    select counted.queue, counted.kind, counted.outcome, '_count', null, sum(counted.events), null
    from counted
    group by 1, 2, 3
    union all
    select told.queue, told.kind, told.outcome, '_sum', null, sum(told.elapsed_seconds), null
    from told
    group by 1, 2, 3
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
