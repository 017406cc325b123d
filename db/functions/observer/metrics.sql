-- queue.metrics: what Prometheus scrapes, one row a sample, in the order of the text format
--
-- type is counter, gauge or histogram; a histogram's rows are its _bucket, _sum and _count samples, name says which. labels is a JSON object of
-- strings. Counters and histograms are exact as of the last roll_up and never go back; scrape one place, they are the database's.
create or replace function queue.metrics()
returns table (family text, type text, help text, name text, labels jsonb, value double precision)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    with total as materialized (
      select
        rollup.queue, rollup.kind, rollup.event, rollup.from_status, rollup.to_status, rollup.bucket,
        rollup.events, rollup.elapsed_seconds
      from queue.rollups as rollup
      where rollup.grain = 'ever'
    ),
    labelled as (
      select total.*, jsonb_build_object('queue', total.queue, 'kind', total.kind) as label
      from total
    ),
    listed as materialized (
      select item.* from queue.list_queues() as item
    ),
    sample as (
      select
        10 as place, 'rowlock_queue_jobs' as family, 'gauge' as type,
        'Jobs by queue and label; a count stops at 10001' as help, 'rowlock_queue_jobs' as name,
        jsonb_build_object('queue', listed.queue, 'label', counted.label) as labels,
        counted.jobs::double precision as value, null::integer as bucket
      from listed
        cross join lateral (
          values
            ('ready', listed.ready),
            ('scheduled', listed.scheduled),
            ('retrying', listed.retrying),
            ('running', listed.running),
            ('dead', listed.failed)
        ) as counted (label, jobs)
      union all
      select
        11, 'rowlock_queue_oldest_ready_age_seconds', 'gauge',
        'How long the first ready job has been due', 'rowlock_queue_oldest_ready_age_seconds',
        jsonb_build_object('queue', listed.queue),
        coalesce(extract(epoch from listed.oldest_ready_age), 0)::double precision, null
      from listed
      union all
      select
        12, 'rowlock_queue_paused', 'gauge', 'Whether the queue is paused', 'rowlock_queue_paused',
        jsonb_build_object('queue', listed.queue), listed.paused::integer, null
      from listed
      union all
      select
        20, 'rowlock_jobs_enqueued_total', 'counter', 'Jobs created', 'rowlock_jobs_enqueued_total',
        labelled.label, sum(labelled.events)::double precision, null
      from labelled
      where labelled.event = 'enqueued'
      group by labelled.label
      union all
      select
        21, 'rowlock_jobs_finished_total', 'counter', 'Jobs ended, by how', 'rowlock_jobs_finished_total',
        labelled.label || jsonb_build_object('outcome', labelled.to_status),
        sum(labelled.events)::double precision, null
      from labelled
      where labelled.to_status in ('succeeded', 'failed', 'cancelled')
        and labelled.from_status in ('queued', 'running')
      group by labelled.label, labelled.to_status
      union all
      select
        22, 'rowlock_attempts_total', 'counter', 'Claims ended, by how', 'rowlock_attempts_total',
        labelled.label || jsonb_build_object(
          'result',
          case labelled.event
            when 'succeeded' then 'success'
            when 'retry_scheduled' then 'error'
            when 'failed' then 'error'
            when 'timed_out' then 'timeout'
            else labelled.event
          end
        ),
        sum(labelled.events)::double precision, null
      from labelled
      where labelled.from_status = 'running'
        and labelled.to_status <> 'running'
      group by labelled.label, 6
      union all
      select
        23, 'rowlock_retries_total', 'counter', 'Failures queued again', 'rowlock_retries_total',
        labelled.label, sum(labelled.events)::double precision, null
      from labelled
      where labelled.event = 'retry_scheduled'
      group by labelled.label
      union all
      select
        24, 'rowlock_manual_retries_total', 'counter', 'Jobs that an operator queued again',
        'rowlock_manual_retries_total', labelled.label, sum(labelled.events)::double precision, null
      from labelled
      where labelled.event = 'retried'
      group by labelled.label
      union all
      select
        25, 'rowlock_leases_expired_total', 'counter', 'Claims taken away by the reaper',
        'rowlock_leases_expired_total', labelled.label, sum(labelled.events)::double precision, null
      from labelled
      where labelled.event in ('lease_expired', 'timed_out')
      group by labelled.label
      union all
      select timed.*
      from queue._histogram_samples() as timed
      union all
      select
        50, 'rowlock_maintenance_last_success_timestamp_seconds', 'gauge',
        'When the step last succeeded', 'rowlock_maintenance_last_success_timestamp_seconds',
        jsonb_build_object('step', step.step),
        coalesce(extract(epoch from step.finished_at), 0)::double precision, null
      from queue.steps as step
      union all
      select
        51, 'rowlock_workers', 'gauge', 'Workers by state', 'rowlock_workers',
        jsonb_build_object('state', state.name),
        (select count(*) from queue.list_workers() as worker where worker.state = state.name), null
      from (values ('live'), ('gone')) as state (name)
      union all
      select
        60, 'rowlock_table_bytes', 'gauge', 'Size with indexes', 'rowlock_table_bytes',
        jsonb_build_object('table', 'jobs'),
        pg_total_relation_size('queue.jobs'::regclass)::double precision, null
      union all
      select
        61, 'rowlock_table_dead_rows', 'gauge', 'Dead rows that vacuum has not removed',
        'rowlock_table_dead_rows', jsonb_build_object('table', 'jobs'),
        coalesce(pg_stat_get_dead_tuples('queue.jobs'::regclass), 0)::double precision, null
      union all
      select
        62, 'rowlock_oldest_xmin_age_transactions', 'gauge',
        'Transactions since the oldest snapshot that any session holds',
        'rowlock_oldest_xmin_age_transactions', '{}',
        coalesce((select max(age(session.backend_xmin)) from pg_stat_activity as session), 0), null
    )
    select sample.family, sample.type, sample.help, sample.name, sample.labels, sample.value
    from sample
    order by
      sample.place, sample.labels ->> 'queue', sample.labels ->> 'kind', sample.labels ->> 'outcome',
      sample.name, sample.bucket, sample.labels::text;
end;
$$;

comment on function queue.metrics is 'What Prometheus scrapes, one row a sample';
grant execute on function queue.metrics to queue_viewer;
