-- queue._complete_many: running -> succeeded, set by set, for claims that the caller has locked
--
-- p_ctids and p_workers are _lock_claims' answer, p_results goes with them. The pins leave one plan: a ctid look-up a
-- claim.
create or replace function queue._complete_many(
  p_ctids tid[],
  p_workers text[],
  p_results jsonb[]
)
returns void
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
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
        result = held.result,
        settled_fence = job.fence,
        settled_as = 'complete'
    from unnest(p_ctids, p_workers, p_results) as held (ctid, worker, result)
    where job.ctid = held.ctid
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
