-- queue._queues: the names in use: of queued and running jobs and of policies, found by skipping along the indexes
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
  select policy.queue from queue.policies as policy;
$$;

comment on function queue._queues is 'The names of queues in use';
