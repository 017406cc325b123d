-- What happened to jobs seed.first to seed.last, in the order of time; fifteen events a transaction, on the average.
insert into queue.job_events (
  at, xid, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind, worker, actor, detail
)
select
  written.at,
  (current_setting('seed.xid')::bigint + written.job_id / 5)::text::xid8,
  written.job_id, written.attempt, written.attempt, written.elapsed, written.event, written.from_status,
  written.to_status, written.queue, written.kind, written.worker, written.actor, written.detail
from (
    select
      least(event.at, now()) as at,
      job.id as job_id, event.attempt, event.elapsed, event.event, event.from_status, event.to_status,
      job.queue, job.kind,
      case when event.from_status = 'running' or event.event = 'claimed' then 'host-' || job.id % 12 || ':' || job.id % 12 * 7 end
        as worker,
      case when event.event = 'enqueued' then 'shop' when event.event = 'cancelled' then 'alice' else 'worker' end as actor,
      case
        when event.event in ('failed', 'retry_scheduled') then jsonb_build_object(
          'error_type', job.error_type, 'error_message', job.error_message, 'error_group', job.error_group,
          'error_detail', jsonb_build_object('traceback', repeat('File "shop/orders.py", line 42, in handle; ', 10))
        )
        when event.event = 'progressed' then '{"percent": 50}'
      end as detail
    from queue.jobs as job
      cross join lateral (
        select
          job.created_at as at, 0 as attempt, null::interval as elapsed, 'enqueued' as event,
          null as from_status, 'queued' as to_status, 0 as step
        union all
        select
          job.started_at + (number - job.attempt) * interval '40 seconds', number, job.started_at - job.created_at,
          'claimed', 'queued', 'running', number * 3
        from generate_series(1, job.attempt) as number
        union all
        select
          job.started_at + (number - job.attempt) * interval '40 seconds' + interval '20 seconds', number,
          interval '20 seconds', 'retry_scheduled', 'running', 'queued', number * 3 + 1
        from generate_series(1, job.attempt) as number
        where job.error_type is not null and (job.status = 'queued' or number < job.attempt)
        union all
        select
          job.started_at + (job.finished_at - job.started_at) / 2, job.attempt, null, 'progressed', 'running', 'running',
          job.attempt * 3 + 1
        where job.status = 'succeeded' and job.id % 2 = 0
        union all
        select
          job.finished_at, job.attempt, job.finished_at - job.started_at, job.status,
          case when job.attempt = 0 then 'queued' else 'running' end, job.status, 1000
        where job.finished_at is not null
      ) as event
    where job.id between current_setting('seed.first')::bigint and current_setting('seed.last')::bigint
    order by 1, job.id, event.step
  ) as written;
