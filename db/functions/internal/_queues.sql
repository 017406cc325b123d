-- queue._queues: the names in use: of queued and running jobs, found by skipping along the indexes, and of policies
--
-- A policy that says nothing, of a queue once paused or once looked at, is none.
create or replace function queue._queues()
returns table (queue text)
language sql
stable
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
  with recursive queued as (
    (
      select job.queue
      from queue.jobs as job
      where job.status = 'queued'
      order by job.queue
      limit 1
    )
    union all
    select (
      select job.queue
      from queue.jobs as job
      where job.status = 'queued'
        and job.queue > queued.queue
      order by job.queue
      limit 1
    )
    from queued
    where queued.queue is not null
  ),
  running as (
    (
      select job.queue
      from queue.jobs as job
      where job.status = 'running'
      order by job.queue
      limit 1
    )
    union all
    select (
      select job.queue
      from queue.jobs as job
      where job.status = 'running'
        and job.queue > running.queue
      order by job.queue
      limit 1
    )
    from running
    where running.queue is not null
  )
  select queued.queue from queued where queued.queue is not null
  union
  select running.queue from running where running.queue is not null
  union
  select policy.queue
  from queue.policies as policy
  where num_nonnulls(
      policy.paused_at, policy.lease, policy.timeout, policy.max_attempts, policy.backoff_base,
      policy.backoff_cap, policy.finished_retention, policy.failed_retention
    ) > 0;
$$;

comment on function queue._queues is 'The names of queues in use';
