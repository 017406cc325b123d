-- queue.run_now: queued -> queued, due at once
--
-- A job that is due already keeps its place and nothing is recorded. RL409 when the job is not queued, RL404 when it is
-- gone.
create or replace function queue.run_now(job_id bigint, reason text default null)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_job(run_now.job_id, 'run_now', '{queued}');
  v_now timestamptz := queue._transition_time();
begin
  if v_job.available_at > v_now then
    v_job := queue._requeue(
      v_job,
      'made_due',
      v_now,
      v_now,
      null,
      jsonb_build_object('reason', queue._cut(run_now.reason, 1000))
    );
  end if;

  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.run_now is 'queued -> queued, due at once';
grant execute on function queue.run_now to queue_operator;
