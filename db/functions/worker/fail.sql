-- queue.fail: running -> queued, or failed when no attempt is left or the failure is fatal
--
-- Texts may hold anything: error_type is cut at 200 bytes, message at 16 kB, detail (say, a traceback) at 64 kB, so
-- that the job always ends. retry_in (up to 10 years) stands before the backoff. Once a cancel was requested the job is
-- cancelled instead. RL409 when the claim was lost; asked again with the same token, the first answer comes back.
create or replace function queue.fail(
  job_id bigint,
  fence integer,
  error_type text,
  message text default null,
  detail json default null,
  retry_in interval default null,
  fatal boolean default false
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_job queue.jobs := queue._lock_claim(fail.job_id, fail.fence, 'fail');
begin
  if v_job.settled_fence = fail.fence then
    return query select answer.* from queue._first_answer(v_job, fail.fence) as answer;
    return;
  end if;

  perform queue._check_span('retry_in', fail.retry_in, interval '0', interval '10 years');

  v_job := queue._retry_or_fail(
    v_job,
    'failed',
    fail.error_type,
    fail.message,
    queue._cut_detail(fail.detail),
    fail.retry_in,
    coalesce(fail.fatal, false),
    'fail'
  );
  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.fail is 'running -> queued, or failed for good, by the holder of the claim';
grant execute on function queue.fail to queue_worker;
