-- queue.stats: the whole in a few numbers
--
-- name: ready, scheduled, retrying, running, failed (of all queues together; capped says that the count stopped at
-- 10,001, so there may be more; where so many are retrying, scheduled are those among the first 2,000 that wait),
-- paused_queues, oldest_ready_seconds; the last also for each priority that has a ready job, since strict priority
-- starves the lower ones.
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
    select counted.name, null::integer, counted.jobs::numeric,
      counted.name <> 'paused_queues' and counted.jobs >= 10001
      or counted.name = 'scheduled' and (select failed_before.jobs from failed_before) >= 10001
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
        select
          'scheduled',
          case
            when failed_before.jobs < 10001
              then (
                select count(*) - failed_before.jobs
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
                      ) as waiting
                    limit 10001 + failed_before.jobs
                  ) as waiting
              )
            -- Too many wait for another attempt to tell them from the others by their number: the rows say it.
            else (
              select count(*)
              from (
                  select waiting.error_type
                  from level
                    cross join lateral (
                      select job.error_type
                      from queue.jobs as job
                      where job.status = 'queued'
                        and job.queue = level.queue
                        and job.priority = level.priority
                        and job.available_at > v_now
                      limit 2000
                    ) as waiting
                  limit 2000
                ) as waiting
              where waiting.error_type is null
            )
          end
        from failed_before
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
      ) as counted
    union all
    (
      select
        'oldest_ready_seconds',
        oldest.priority,
        coalesce(extract(epoch from v_now - oldest.available_at), 0)::numeric,
        false
      from (
          select level.priority::integer as priority, min(level.first_at) as available_at
          from level
          where level.first_at <= v_now
          group by grouping sets ((), (level.priority::integer))
        ) as oldest
      order by oldest.priority nulls first
    );
end;
$$;

comment on function queue.stats is 'The whole queue in a few numbers';
grant execute on function queue.stats to queue_viewer;
