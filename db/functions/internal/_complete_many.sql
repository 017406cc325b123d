-- queue._complete_many: running -> succeeded, set by set, for claims that the caller has locked
--
-- p_ctids, p_ids and p_workers are _lock_claims' answer; p_job_ids, p_fences and p_results are what was asked. The pins make
-- the plan one ctid scan, hashed with the arrays: a nested loop over them would be quadratic.
create or replace function queue._complete_many(
  p_ctids tid[],
  p_ids bigint[],
  p_workers text[],
  p_job_ids bigint[],
  p_fences integer[],
  p_results jsonb[]
)
returns void
language plpgsql
set enable_seqscan = off
set enable_nestloop = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := queue._transition_time();
begin
  with settled as (
    update queue.jobs as job
    set status = 'succeeded',
        finished_at = v_now,
        worker = null,
        lease_expires_at = null,
        deadline_at = null,
        error_type = null,
        error_message = null,
        error_group = null,
        result = outcome.result,
        settled_fence = job.fence,
        settled_as = 'complete'
    from unnest(p_job_ids, p_fences, p_results) as outcome (id, fence, result)
      join unnest(p_ids, p_workers) as held (id, worker) on held.id = outcome.id
    where job.ctid = any (p_ctids)
      and job.id = outcome.id
      and job.fence = outcome.fence
    returning job.id, job.attempt, job.fence, job.started_at, job.queue, job.kind, held.worker
  )
  insert into queue.job_events (
    at, job_id, attempt, fence, elapsed, event, from_status, to_status, queue, kind, worker
  )
  select
    v_now, settled.id, settled.attempt, settled.fence, v_now - settled.started_at, 'succeeded',
    'running', 'succeeded', settled.queue, settled.kind, settled.worker
  from settled;
end;
$$;

comment on function queue._complete_many is 'running -> succeeded for claims already locked';
