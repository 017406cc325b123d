-- queue.metrics: what Prometheus scrapes, one row a sample, in the order of the text format
--
-- type is counter, gauge or histogram; a histogram's rows are its _bucket, _sum and _count samples, name says which.
-- labels is a JSON object of strings. Counters and histograms are exact as of the last roll_up and never go back;
-- scrape one place, they are the database's. rowlock_queue_jobs stops where list_queues does, one after 1,000, sooner
-- with more than 100 queues.
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
        rollup.queue, rollup.kind, rollup.event, rollup.from_status, rollup.to_status,
        rollup.events::double precision as events
      from queue.rollups as rollup
      where rollup.grain = 'ever'
    ),
    listed as materialized (
      select item.* from queue.list_queues() as item
    ),
    -- By kind; extra is the label that only some families have.
    counter as (
      select
        counted.place, total.queue, total.kind, counted.extra, counted.extra_value, sum(total.events) as value
      from total
        cross join lateral (
          values
            (20, total.event = 'enqueued', null, null),
            (
              21,
              total.to_status in ('succeeded', 'failed', 'cancelled')
              and total.from_status in ('queued', 'running'),
              'outcome', total.to_status
            ),
            (
              22, total.from_status = 'running' and total.to_status <> 'running', 'result',
              case total.event
                when 'succeeded' then 'success'
                when 'retry_scheduled' then 'error'
                when 'failed' then 'error'
                when 'timed_out' then 'timeout'
                else total.event
              end
            ),
            (23, total.event = 'retry_scheduled', null, null),
            (24, total.event = 'retried', null, null),
            (25, total.event in ('lease_expired', 'timed_out'), null, null)
        ) as counted (place, counts, extra, extra_value)
      where counted.counts
      group by 1, 2, 3, 4, 5
    ),
    sample as (
      select
        9 as place, 'rowlock_jobs' as family, 'gauge' as type, 'Jobs by queue and status' as help,
        'rowlock_jobs' as name, total.queue, null as kind, 'status' as extra, moved.status as extra_value,
        null as le, sum(moved.jobs) as value, null::integer as bucket
      from total
        cross join lateral (
          values (total.to_status, total.events), (total.from_status, -total.events)
        ) as moved (status, jobs)
      where total.to_status <> total.from_status
        and moved.status not in ('', 'gone')
      group by total.queue, moved.status
      having sum(moved.jobs) > 0
      union all
      select
        10, 'rowlock_queue_jobs', 'gauge', 'Jobs by queue and label; a count stops at ' || listed.counted_to + 1,
        'rowlock_queue_jobs', listed.queue, null, 'label', counted.label, null, counted.jobs, null
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
        listed.queue, null, null, null, null,
        coalesce(extract(epoch from listed.oldest_ready_age), 0)::double precision, null
      from listed
      union all
      select
        12, 'rowlock_queue_paused', 'gauge', 'Whether the queue is paused', 'rowlock_queue_paused',
        listed.queue, null, null, null, null, listed.paused::integer, null
      from listed
      union all
      select
        counter.place, told.family, 'counter', told.help, told.family, counter.queue, counter.kind, counter.extra,
        counter.extra_value, null, counter.value, null
      from counter
        join (
          values
            (20, 'rowlock_jobs_enqueued_total', 'Jobs created'),
            (21, 'rowlock_jobs_finished_total', 'Jobs ended, by how'),
            (22, 'rowlock_attempts_total', 'Claims ended, by how'),
            (23, 'rowlock_retries_total', 'Failures queued again'),
            (24, 'rowlock_manual_retries_total', 'Jobs that an operator queued again'),
            (25, 'rowlock_leases_expired_total', 'Claims taken away by the reaper')
        ) as told (place, family, help) on told.place = counter.place
      union all
      select timed.*
      from queue._histogram_samples() as timed
      union all
      select
        50, 'rowlock_maintenance_last_success_timestamp_seconds', 'gauge',
        'When the step last succeeded', 'rowlock_maintenance_last_success_timestamp_seconds',
        null, null, 'step', step.step, null,
        coalesce(extract(epoch from step.finished_at), 0)::double precision, null
      from queue.steps as step
      union all
      select
        51, 'rowlock_workers', 'gauge', 'Workers by state', 'rowlock_workers', null, null, 'state', state.name, null,
        count(worker.state), null
      from (values ('live'), ('gone')) as state (name)
        left join queue.list_workers() as worker on worker.state = state.name
      group by state.name
      union all
      select
        60, 'rowlock_table_bytes', 'gauge', 'Size with indexes', 'rowlock_table_bytes', null, null,
        'table', 'jobs', null, pg_total_relation_size('queue.jobs'::regclass)::double precision, null
      union all
      select
        61, 'rowlock_table_dead_rows', 'gauge', 'Dead rows that vacuum has not removed',
        'rowlock_table_dead_rows', null, null, 'table', 'jobs', null,
        coalesce(pg_stat_get_dead_tuples('queue.jobs'::regclass), 0)::double precision, null
      union all
      select
        62, 'rowlock_oldest_xmin_age_transactions', 'gauge',
        'Transactions since the oldest snapshot that any session holds',
        'rowlock_oldest_xmin_age_transactions', null, null, null, null, null,
        coalesce((select max(age(session.backend_xmin)) from pg_stat_activity as session), 0), null
    )
    select
      sample.family, sample.type, sample.help, sample.name,
      jsonb_strip_nulls(
        jsonb_object(
          array[
            'queue', sample.queue, 'kind', sample.kind, coalesce(sample.extra, 'outcome'), sample.extra_value,
            'le', sample.le
          ]
        )
      ),
      sample.value
    from sample
    order by
      sample.place, sample.queue collate "C", sample.kind collate "C", sample.extra_value collate "C",
      sample.name collate "C", sample.bucket;
end;
$$;

comment on function queue.metrics is 'What Prometheus scrapes, one row a sample';
grant execute on function queue.metrics to queue_viewer;
