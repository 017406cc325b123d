-- queue.stats: the whole in a few numbers
--
-- name: ready, scheduled, retrying, running, failed (of all queues together; capped says that the count stopped at 10,001, so there may be
-- more), paused_queues, oldest_ready_seconds; the last also for each priority that has a ready job, since strict
-- priority starves the lower ones.
create or replace function queue.stats()
returns table (name text, priority integer, value numeric, capped boolean)
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
    with level as materialized (
      select item.* from queue._levels() as item
    ),
    failed_before as materialized (
      select count(*) as jobs
      from (
          select
          from (select distinct level.queue from level) as named
            cross join lateral (
              select
              from queue.jobs as job
              where job.status = 'queued'
                and job.error_type is not null
                and job.queue = named.queue
                and job.available_at > v_now
              limit 10001
            ) as waiting
          limit 10001
        ) as counted
    )
    select counted.name, null::integer, counted.jobs::numeric, counted.jobs >= 10001 and counted.name <> 'paused_queues'
    from (
        select 'ready' as name, count(*) as jobs
        from (
            select
            from level
              cross join lateral (
                select
                from queue.jobs as job
                where job.status = 'queued'
                  and job.queue = level.queue
                  and job.priority = level.priority
                  and job.available_at <= v_now
                limit 10001
              ) as due
            limit 10001
          ) as due
        union all
        select 'scheduled', count(*) - (select failed_before.jobs from failed_before)
        from (
            select
            from level
              cross join lateral (
                select
                from queue.jobs as job
                where job.status = 'queued'
                  and job.queue = level.queue
                  and job.priority = level.priority
                  and job.available_at > v_now
                limit 20002
              ) as later
            limit 10001 + (select failed_before.jobs from failed_before)
          ) as later
        union all
        select 'retrying', failed_before.jobs from failed_before
        union all
        select 'running', count(*)
        from (select from queue.jobs as job where job.status = 'running' limit 10001) as held
        union all
        select 'failed', count(*)
        from (select from queue.jobs as job where job.status = 'failed' limit 10001) as dead
        union all
        select 'paused_queues', count(*)
        from queue.policies as policy
        where policy.paused_at is not null
          and coalesce(policy.paused_until > v_now, true)
      ) as counted;

  return query
    with oldest as (
      select level.priority::integer, min(level.first_at) as available_at
      from queue._levels() as level
      where level.first_at <= v_now
      group by grouping sets ((), (level.priority::integer))
    )
    select
      'oldest_ready_seconds',
      oldest.priority,
      coalesce(extract(epoch from v_now - oldest.available_at), 0)::numeric,
      false
    from oldest
    order by oldest.priority nulls first;
end;
$$;

comment on function queue.stats is 'The whole queue in a few numbers';
grant execute on function queue.stats to queue_viewer;
