-- queue._requeue: a job becomes claimable again
--
-- p_now comes from _transition_time, and p_available_at is never before it: floors rely on both.
create or replace function queue._requeue(
  p_job queue.jobs,
  p_event text,
  p_now timestamptz,
  p_available_at timestamptz,
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
  set status = 'queued',
      attempt = p_job.attempt,
      max_attempts = p_job.max_attempts,
      priority = p_job.priority,
      available_at = greatest(p_available_at, p_now),
      worker = null,
      lease_expires_at = null,
      deadline_at = null,
      finished_at = null,
      cancel_requested_at = null,
      error_type = p_job.error_type,
      error_message = p_job.error_message,
      error_group = p_job.error_group,
      settled_fence = case when p_verb is null then job.settled_fence else job.fence end,
      settled_as = coalesce(p_verb, job.settled_as)
  where job.id = p_job.id
  returning job.* into v_job;

  perform queue._record_event(
    v_job,
    p_event,
    p_job.status,
    p_now,
    p_job.worker,
    coalesce(p_detail, '{}') || jsonb_build_object('available_at', v_job.available_at)
  );
  perform queue._wake(v_job.queue, v_job.available_at, p_now);
  return v_job;
end;
$$;

comment on function queue._requeue is 'Makes a job claimable again';
