-- queue.retry: failed or cancelled -> queued
--
-- Grants extra_attempts (1 to 100,000) on top of those the job had and clears a requested cancel; attempt and fence go
-- on counting. Due now, or after delay (up to 10 years). RL409 when the job is neither failed nor cancelled, RL404 when
-- it is gone.
create or replace function queue.retry(
  job_id bigint,
  extra_attempts integer default 1,
  delay interval default null,
  reason text default null
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_job(retry.job_id, 'retry', '{failed,cancelled}');
  v_extra integer := coalesce(retry.extra_attempts, 1);
  v_now timestamptz := queue._transition_time();
begin
  perform queue._check_number('extra_attempts', v_extra, 1, 100000);
  perform queue._check_number(
    'max_attempts with extra_attempts', v_job.max_attempts::bigint + v_extra, 1, 100000
  );
  perform queue._check_span('delay', retry.delay, interval '-10 years', interval '10 years');

  v_job.max_attempts := v_job.max_attempts + v_extra;

  v_job := queue._requeue(
    v_job,
    'retried',
    v_now,
    v_now + coalesce(retry.delay, interval '0'),
    null,
    jsonb_build_object(
      'max_attempts', v_job.max_attempts,
      'reason', queue._cut(retry.reason, 1000)
    )
  );
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.retry is 'failed or cancelled -> queued, with more attempts';
grant execute on function queue.retry to queue_operator;
