-- queue._lock_claim: the one place that fences a stale worker
--
-- Locks the job while (job, fence) is its current claim; RL409 when the claim was lost, RL404 when the job is
-- gone. A claim that this very verb has settled before comes back as the job's row with settled_fence = p_fence:
-- the caller then gives its first answer again (_first_answer).
create or replace function queue._lock_claim(p_job_id bigint, p_fence integer, p_verb text)
returns queue.jobs
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_job queue.jobs;
begin
  perform queue._require_writable();

  select job.* into v_job
  from queue.jobs as job
  where job.id = p_job_id
  for no key update;

  if not found then
    raise exception 'there is no job %', coalesce(p_job_id::text, 'null')
      using errcode = 'RL404', hint = 'Finished jobs are removed after their retention.';
  end if;

  if v_job.status = 'running' and v_job.fence = p_fence
    or v_job.settled_fence = p_fence and v_job.settled_as = p_verb
  then
    return v_job;
  end if;

  raise exception 'job % is not held under fence %', p_job_id, coalesce(p_fence::text, 'null')
    using errcode = 'RL409',
      detail = case
        when v_job.settled_fence = p_fence then format('It was settled by %s.', v_job.settled_as)
        else format('It is %s, its fence is %s.', v_job.status, v_job.fence)
      end,
      hint = 'The claim was lost or has been answered: drop the result and claim again.';
end;
$$;

comment on function queue._lock_claim is 'Locks a job for the holder of its claim; RL409 for anybody else';
