-- queue.list_queues: every queue in use, or some of them, with how much waits in it
--
-- ready: due; scheduled: due later; retrying: due later, after a failure; running; failed. Each count stops one after
-- counted_to: count_to (0 to 10,000) or, when that is null, 1,000, less with more than 100 queues, so that 100,000 jobs
-- are counted of each label; that of failed jobs at the last 10,001 to fail of all queues together: how long this takes
-- is how much it counts. Where a multitude is retrying, ten times counted_to and 10,000 at most, scheduled are those
-- among the first twice counted_to that wait. oldest_ready_age is how long the first job of the line has been due.
-- queues narrows to these; of more than max_queues (from 1) those are returned whose first job has waited longest. In
-- the order of their names. RL400 when a number is out of range.
create or replace function queue.list_queues(
  count_to integer default null,
  queues text[] default null,
  max_queues integer default null
)
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
  paused_until timestamptz,
  counted_to integer
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
  if list_queues.count_to is not null then
    perform queue._check_number('count_to', list_queues.count_to, 0, 10000);
  end if;
  if list_queues.max_queues is not null then
    perform queue._check_number('max_queues', list_queues.max_queues, 1, 1000000);
  end if;

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
    ),
    line as materialized (
      select level.queue, array_agg(level.priority) as priorities, min(level.first_at) as first_at
      from queue._levels() as level
      group by level.queue
    ),
    chosen as materialized (
      select named.queue, line.priorities, case when line.first_at <= v_now then line.first_at end as first_at
      from named
        left join line on line.queue = named.queue
      where list_queues.queues is null
        or named.queue = any (list_queues.queues)
      order by 3, 1
      limit list_queues.max_queues
    ),
    cap as (
      select given.count_to, given.count_to + 1 as most, least(10 * (given.count_to + 1), 10001) as multitude
      from (
          select
            coalesce(list_queues.count_to, least(1000, 100000 / greatest(count(*), 1))::integer) as count_to
          from chosen
        ) as given
    )
    select
      chosen.queue,
      due.ready,
      later.scheduled,
      least(failed_before.retrying, cap.most),
      held.running,
      least(coalesce(dead.failed, 0), cap.most),
      v_now - chosen.first_at,
      policy.queue is not null,
      policy.paused_by,
      policy.pause_reason,
      policy.paused_until,
      cap.count_to
    from chosen
      cross join cap
      cross join lateral (
        select count(*)::integer as ready
        from (
            select
            from unnest(chosen.priorities) as level (priority)
              cross join lateral (
                select
                from queue.jobs as job
                where job.status = 'queued'
                  and job.queue = chosen.queue
                  and job.priority = level.priority
                  and job.available_at <= v_now
                limit cap.most
              ) as counted
            limit cap.most
          ) as counted
      ) as due
      cross join lateral (
        select count(*)::integer as retrying
        from (
            select
            from queue.jobs as job
            where job.status = 'queued'
              and job.error_type is not null
              and job.queue = chosen.queue
              and job.available_at > v_now
            limit cap.multitude
          ) as counted
      ) as failed_before
      cross join lateral (
        select
          case
            when failed_before.retrying < cap.multitude
              then (
                select count(*)::integer - failed_before.retrying
                from (
                    select
                    from unnest(chosen.priorities) as level (priority)
                      cross join lateral (
                        select
                        from queue.jobs as job
                        where job.status = 'queued'
                          and job.queue = chosen.queue
                          and job.priority = level.priority
                          and job.available_at > v_now
                        limit cap.most + failed_before.retrying
                      ) as waiting
                    limit cap.most + failed_before.retrying
                  ) as waiting
              )
            -- Too many wait for another attempt to tell them from the others by their number: the rows say it.
            else (
              select least(count(*), cap.most)::integer
              from (
                  select waiting.error_type
                  from unnest(chosen.priorities) as level (priority)
                    cross join lateral (
                      select job.error_type
                      from queue.jobs as job
                      where job.status = 'queued'
                        and job.queue = chosen.queue
                        and job.priority = level.priority
                        and job.available_at > v_now
                      limit 2 * cap.most
                    ) as waiting
                  limit 2 * cap.most
                ) as waiting
              where waiting.error_type is null
            )
          end as scheduled
      ) as later
      cross join lateral (
        select count(*)::integer as running
        from (
            select
            from queue.jobs as job
            where job.status = 'running'
              and job.queue = chosen.queue
            limit cap.most
          ) as counted
      ) as held
      left join dead on dead.queue = chosen.queue
      left join queue.policies as policy
        on policy.queue = chosen.queue
        and policy.paused_at is not null
        and coalesce(policy.paused_until > v_now, true)
    order by chosen.queue;
end;
$$;

comment on function queue.list_queues is 'Every queue in use, with capped counts';
grant execute on function queue.list_queues to queue_viewer;
