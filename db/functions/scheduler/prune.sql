-- queue.prune: finished -> gone, after its retention
--
-- Walks the table in id order, from where the last call stopped, over at most ten times max_jobs (1 to 10,000) rows,
-- and deletes the finished ones past their queue's retention, max_jobs at most. Jobs that another session holds are
-- passed by. The walk ends where jobs are too young for any retention: ids follow time of creation. more: call again,
-- it has not ended.
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
  v_young_at timestamptz;
  v_from bigint;
  v_ids bigint[];
  v_ctids tid[];
  v_seen integer;
  v_last bigint;
  v_all_young boolean;
begin
  perform queue._check_number('max_jobs', prune.max_jobs, 1, 10000);

  select step.position into v_from from queue.steps as step where step.step = 'prune';

  select
    v_now - least(
      settings.finished_retention, settings.failed_retention,
      (select least(min(policy.finished_retention), min(policy.failed_retention))
       from queue.policies as policy)
    )
  into v_young_at
  from queue.settings as settings;

  with walked as materialized (
    select job.id, job.queue, job.status, job.created_at, job.finished_at
    from queue.jobs as job
    where job.id > v_from
    order by job.id
    limit prune.max_jobs * 10
  ),
  retention as materialized (
    select named.queue, policy.finished_retention, policy.failed_retention
    from (select distinct walked.queue from walked) as named
      cross join lateral queue._policy(named.queue, v_now) as policy
  )
  select
    array(
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
    count(*)::integer,
    max(walked.id),
    -- A clock that once ran ahead left dates that tell nothing.
    bool_and(walked.created_at > v_young_at and walked.created_at <= v_now)
  into v_ids, v_seen, v_last, v_all_young
  from walked;

  more := v_seen = prune.max_jobs * 10 and not v_all_young;
  if cardinality(v_ids) = prune.max_jobs then
    more := true;
    v_last := v_ids[prune.max_jobs];
  end if;

  v_ctids := array(
    select held.ctid
    from unnest(v_ids) as due (id)
      cross join lateral (
        select job.ctid
        from queue.jobs as job
        where job.id = due.id
          and job.status in ('succeeded', 'failed', 'cancelled')
          and job.finished_at <= v_now - interval '1 minute'
        for update skip locked
      ) as held
  );

  with gone as (
    delete from queue.jobs as job
    where job.ctid = any (v_ctids)
    returning job.queue, job.kind, job.status
  ),
  counted as (
    insert into queue.rollups as rollup (
      grain, at, queue, kind, event, from_status, to_status, events
    )
    select 'ever', timestamptz 'epoch', gone.queue, gone.kind, 'pruned', gone.status, 'gone', count(*)
    from gone
    group by gone.queue, gone.kind, gone.status
    union all
    select 'ever_of_all', timestamptz 'epoch', '', '', 'pruned', gone.status, 'gone', count(*)
    from gone
    group by gone.status
    order by 1, 3, 4, 6
    on conflict (grain, at, queue, kind, event, from_status, to_status) do update
    set events = rollup.events + excluded.events
  )
  select count(*)::integer into deleted from gone;

  -- Without waiting: a session that hangs in its tick may have the row.
  perform from queue.steps as step where step.step = 'prune' for no key update skip locked;
  if found then
    update queue.steps as step
    set position = case when more then v_last else 0 end
    where step.step = 'prune';
  end if;

  return next;
end;
$$;

comment on function queue.prune is 'finished -> gone: deletes what is past its retention';
grant execute on function queue.prune to queue_admin;
