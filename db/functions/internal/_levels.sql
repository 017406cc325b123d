-- queue._levels: each queue and priority that has a queued job, and when the first of them is due
--
-- By skipping along the index: as many probes as there are levels in use, however many jobs wait.
create or replace function queue._levels()
returns table (queue text, priority smallint, first_at timestamptz)
language sql
stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
  with recursive level as (
    (
      select job.queue, job.priority, job.available_at
      from queue.jobs as job
      where job.status = 'queued'
      order by job.queue, job.priority, job.available_at
      limit 1
    )
    union all
    select following.queue, following.priority, following.available_at
    from level
      cross join lateral (
        select job.queue, job.priority, job.available_at
        from queue.jobs as job
        where job.status = 'queued'
          and (job.queue, job.priority) > (level.queue, level.priority)
        order by job.queue, job.priority, job.available_at
        limit 1
      ) as following
  )
  select level.queue, level.priority, level.available_at from level;
$$;

comment on function queue._levels is 'Each queue and priority in use, and when its first job is due';
