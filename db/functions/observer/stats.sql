-- queue.stats: the whole in a few numbers
--
-- name: ready, scheduled, retrying, running, failed (of all queues; capped says that a count stopped at 10,001, so the number is at
-- least that), paused_queues, oldest_ready_seconds; the last also for each priority that has a ready job, since strict
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
    with listed as materialized (
      select item.* from queue.list_queues() as item
    )
    select
      counted.name,
      null::integer,
      coalesce(sum(counted.value), 0)::numeric,
      coalesce(
        case counted.name
          when 'failed' then sum(counted.value) >= 10001
          else bool_or(counted.value >= 10001)
        end,
        false
      )
    from (select) as once
      left join listed on true
      cross join lateral (
        values
          ('ready', listed.ready),
          ('scheduled', listed.scheduled),
          ('retrying', listed.retrying),
          ('running', listed.running),
          ('failed', listed.failed),
          ('paused_queues', listed.paused::integer)
      ) as counted (name, value)
    group by counted.name;

  return query
    with oldest as (
      select level.priority, min(head.available_at) as available_at
      from queue._queues() as named
        cross join generate_series(0, 9) as level (priority)
        cross join lateral (
          select job.available_at
          from queue.jobs as job
          where job.status = 'queued'
            and job.queue = named.queue
            and job.priority = level.priority::smallint
            and job.available_at <= v_now
          order by job.available_at
          limit 1
        ) as head
      group by grouping sets ((), (level.priority))
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
