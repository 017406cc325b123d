-- queue._retry_or_fail: running -> queued, failed or cancelled, after a failure or a lost lease
--
-- The one place that decides. A requested cancel comes first; then, unless fatal, the job is queued again while it has
-- attempts left, p_retry_in or its backoff from now; else it is failed for good.
-- p_event is failed (fail's own word, which becomes retry_scheduled when queued), lease_expired or timed_out.
create or replace function queue._retry_or_fail(
  p_job queue.jobs,
  p_event text,
  p_error_type text,
  p_error_message text,
  p_detail jsonb default null,
  p_retry_in interval default null,
  p_fatal boolean default false,
  p_verb text default null
)
returns queue.jobs
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_job queue.jobs := p_job;
  v_detail jsonb;
  v_delay interval;
begin
  v_job.error_type := queue._cut(coalesce(nullif(p_error_type, ''), 'Error'), 200);
  v_job.error_message := queue._cut(coalesce(p_error_message, ''), 16384);
  v_job.error_group := queue._error_group(v_job.kind, v_job.error_type, v_job.error_message);

  v_detail := jsonb_build_object(
    'error_type', v_job.error_type,
    'error_message', v_job.error_message,
    'error_group', v_job.error_group,
    'error_detail', p_detail
  );

  if v_job.cancel_requested_at is not null then
    return queue._finish(v_job, 'cancelled', 'cancelled', v_now, p_verb, v_detail);
  end if;

  if p_fatal or v_job.attempt >= v_job.max_attempts then
    return queue._finish(v_job, 'failed', p_event, v_now, p_verb, v_detail);
  end if;

  select coalesce(
    p_retry_in,
    queue._backoff(v_job.id, v_job.attempt, policy.backoff_base, policy.backoff_cap)
  )
  into v_delay
  from queue._policy(v_job.queue, v_now) as policy;

  return queue._requeue(
    v_job,
    case p_event when 'failed' then 'retry_scheduled' else p_event end,
    v_now,
    v_now + v_delay,
    p_verb,
    v_detail
  );
end;
$$;

comment on function queue._retry_or_fail is 'Decides what becomes of a job after a failure or a lost lease';
