-- queue.cancel: queued -> cancelled; running -> running, stop asked
--
-- A running job is asked to stop: its worker learns of it at the next renewal or progress and settles it as cancelled,
-- or completes it. Asking again changes nothing. RL409 when the job is finished, RL404 when it is gone.
create or replace function queue.cancel(job_id bigint, reason text default null)
returns table (
  id bigint,
  status text,
  attempt integer,
  available_at timestamptz,
  cancel_requested boolean
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_job queue.jobs := queue._lock_job(cancel.job_id, 'cancel', '{queued,running}');
  v_now timestamptz := queue._transition_time();
  v_detail jsonb := jsonb_build_object('reason', queue._cut(cancel.reason, 1000));
begin
  if v_job.status = 'queued' then
    v_job := queue._finish(v_job, 'cancelled', 'cancelled', v_now, null, v_detail);
  elsif v_job.cancel_requested_at is null then
    update queue.jobs as job
    set cancel_requested_at = v_now
    where job.id = cancel.job_id
    returning job.* into v_job;

    perform queue._record_event(
      v_job, 'cancel_requested', 'running', v_now, v_job.worker, v_detail
    );
  end if;

  return query
    select
      v_job.id, v_job.status, v_job.attempt, v_job.available_at,
      v_job.cancel_requested_at is not null;
end;
$$;

comment on function queue.cancel is 'queued -> cancelled; a running job is asked to stop';
grant execute on function queue.cancel to queue_operator;
