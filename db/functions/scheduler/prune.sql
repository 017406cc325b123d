-- queue.prune: finished -> gone, after its retention
--
-- Walks the table in id order, from where the last call stopped, over at most ten times max_jobs (1 to 10,000) rows, and deletes the
-- finished ones past their queue's retention, max_jobs at most. Jobs that another session holds are passed by. more: call
-- again, the walk has not reached its end.
create or replace function queue.prune(max_jobs integer default 1000)
returns table (deleted integer, more boolean)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_from bigint;
  v_to bigint;
  v_seen integer;
begin
  perform queue._check_number('max_jobs', prune.max_jobs, 1, 10000);

  select step.position into v_from from queue.steps as step where step.step = 'prune';

  with walked as materialized (
    select job.id, job.queue, job.status, job.finished_at
    from queue.jobs as job
    where job.id > v_from
    order by job.id
    limit prune.max_jobs * 10
  ),
  retention as materialized (
    select named.queue, policy.finished_retention, policy.failed_retention
    from (select distinct walked.queue from walked) as named
      cross join lateral queue._policy(named.queue, v_now) as policy
  ),
  due as (
    select walked.id
    from walked
      join retention on retention.queue = walked.queue
    where walked.finished_at <= v_now - case
        when walked.status = 'failed' then retention.failed_retention
        else retention.finished_retention
      end
    order by walked.id
    limit prune.max_jobs
  ),
  locked as materialized (
    select held.id
    from due
      cross join lateral (
        select job.id
        from queue.jobs as job
        where job.id = due.id
          and job.status in ('succeeded', 'failed', 'cancelled')
          and job.finished_at <= v_now - interval '1 minute'
        for update skip locked
      ) as held
  ),
  gone as (
    delete from queue.jobs as job
    using locked
    where job.id = locked.id
    returning job.queue, job.kind, job.status
  ),
  counted as (
    insert into queue.rollups as rollup (
      grain, at, queue, kind, event, from_status, to_status, bucket, events, elapsed_seconds
    )
    select 'ever', timestamptz 'epoch', gone.queue, gone.kind, 'pruned', gone.status, 'gone', 0, count(*), 0
    from gone
    group by gone.queue, gone.kind, gone.status
    on conflict (grain, at, queue, kind, event, from_status, to_status, bucket) do update
    set events = rollup.events + excluded.events
  )
  select
    (select count(*)::integer from gone),
    case
      when (select count(*) from due) = prune.max_jobs then (select max(due.id) from due)
      else (select max(walked.id) from walked)
    end,
    (select count(*)::integer from walked)
  into deleted, v_to, v_seen;

  more := v_seen = prune.max_jobs * 10 or deleted = prune.max_jobs;

  update queue.steps as step
  set position = case when more then v_to else 0 end
  where step.step = 'prune';

  return next;
end;
$$;

comment on function queue.prune is 'finished -> gone: deletes what is past its retention';
grant execute on function queue.prune to queue_admin;
