-- queue.list_queues: every queue in use, with how much waits in it
--
-- ready: due; scheduled: due later; retrying: due later, after a failure; running; failed. Each count stops at 10,001; that of failed jobs does so
-- for all queues together, the last to fail. oldest_ready_age is how long the first job of the line has been due.
create or replace function queue.list_queues()
returns table (
  queue text,
  ready integer,
  scheduled integer,
  retrying integer,
  running integer,
  failed integer,
  oldest_ready_age interval,
  paused boolean,
  paused_by text,
  pause_reason text,
  paused_until timestamptz
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  return query
    with dead as materialized (
      select recent.queue, count(*)::integer as failed
      from (
          select job.queue
          from queue.jobs as job
          where job.status = 'failed'
          order by job.finished_at desc
          limit 10001
        ) as recent
      group by recent.queue
    ),
    named as (
      select in_use.queue from queue._queues() as in_use
      union
      select dead.queue from dead
    )
    select
      named.queue,
      due.ready,
      later.scheduled,
      later.retrying,
      held.running,
      coalesce(dead.failed, 0),
      v_now - head.oldest,
      policy.queue is not null,
      policy.paused_by,
      policy.pause_reason,
      policy.paused_until
    from named
      cross join lateral (
        select count(*)::integer as ready
        from (
            select
            from generate_series(0, 9) as level (priority)
              cross join lateral (
                select
                from queue.jobs as job
                where job.status = 'queued'
                  and job.queue = named.queue
                  and job.priority = level.priority::smallint
                  and job.available_at <= v_now
                limit 10001
              ) as counted
            limit 10001
          ) as counted
      ) as due
      cross join lateral (
        select
          count(*) filter (where counted.error_type is null)::integer as scheduled,
          count(*) filter (where counted.error_type is not null)::integer as retrying
        from (
            select waiting.error_type
            from generate_series(0, 9) as level (priority)
              cross join lateral (
                select job.error_type
                from queue.jobs as job
                where job.status = 'queued'
                  and job.queue = named.queue
                  and job.priority = level.priority::smallint
                  and job.available_at > v_now
                limit 10001
              ) as waiting
            limit 10001
          ) as counted
      ) as later
      cross join lateral (
        select count(*)::integer as running
        from (
            select
            from queue.jobs as job
            where job.status = 'running'
              and job.queue = named.queue
            limit 10001
          ) as counted
      ) as held
      cross join lateral (
        select min(first.available_at) as oldest
        from generate_series(0, 9) as level (priority)
          cross join lateral (
            select job.available_at
            from queue.jobs as job
            where job.status = 'queued'
              and job.queue = named.queue
              and job.priority = level.priority::smallint
              and job.available_at <= v_now
            order by job.available_at
            limit 1
          ) as first
      ) as head
      left join dead on dead.queue = named.queue
      left join queue.policies as policy
        on policy.queue = named.queue
        and policy.paused_at is not null
        and coalesce(policy.paused_until > v_now, true)
    order by named.queue;
end;
$$;

comment on function queue.list_queues is 'Every queue in use, with capped counts';
grant execute on function queue.list_queues to queue_viewer;
