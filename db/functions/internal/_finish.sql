-- queue._finish: a job ends and keeps the row as its record
--
-- p_verb is what the holder of the claim asked for, null when nobody held it or the reaper took it away.
create or replace function queue._finish(
  p_job queue.jobs,
  p_status text,
  p_event text,
  p_now timestamptz,
  p_verb text default null,
  p_detail jsonb default null
)
returns queue.jobs
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_job queue.jobs;
begin
  update queue.jobs as job
  set status = p_status,
      finished_at = p_now,
      worker = null,
      lease_expires_at = null,
      deadline_at = null,
      error_type = p_job.error_type,
      error_message = p_job.error_message,
      error_group = p_job.error_group,
      result = p_job.result,
      settled_fence = case when p_verb is null then job.settled_fence else job.fence end,
      settled_as = coalesce(p_verb, job.settled_as)
  where job.id = p_job.id
  returning job.* into v_job;

  perform queue._record_event(v_job, p_event, p_job.status, p_now, p_job.worker, p_detail);
  return v_job;
end;
$$;

comment on function queue._finish is 'Ends a job: succeeded, failed or cancelled';
