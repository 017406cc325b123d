-- queue.progress: running -> running
--
-- Records how far a job is: percent from 0 to 100 and a message (cut at 1,000 bytes), null leaves either as it was.
-- Returns a verdict as renew does; a lost claim changes nothing and writes no event. Does not renew the lease.
create or replace function queue.progress(
  job_id bigint,
  fence integer,
  percent integer default null,
  message text default null
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_job queue.jobs;
  v_now timestamptz;
  v_verdict text;
begin
  perform queue._require_writable();
  if progress.percent is not null then
    perform queue._check_number('percent', progress.percent, 0, 100);
  end if;

  select job.* into v_job
  from queue.jobs as job
  where job.id = progress.job_id
  for no key update;

  v_now := clock_timestamp();
  v_verdict := queue._verdict(v_job, progress.fence, v_now);

  if v_verdict <> 'lost' then
    update queue.jobs as job
    set progress = coalesce(progress.percent, job.progress),
        progress_message = coalesce(queue._cut(progress.message, 1000), job.progress_message)
    where job.id = progress.job_id
    returning job.* into v_job;

    perform queue._record_event(
      v_job,
      'progressed',
      'running',
      v_now,
      v_job.worker,
      jsonb_build_object('progress', v_job.progress, 'progress_message', v_job.progress_message)
    );
  end if;

  return v_verdict;
end;
$$;

comment on function queue.progress is 'running -> running: records progress, tells held, stop or lost';
grant execute on function queue.progress to queue_worker;
