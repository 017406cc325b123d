-- queue.discard: finished -> gone, before its retention
--
-- The job is deleted, its key freed; its events stay until their own retention, the last one says who discarded it and
-- why. Returns the status it had. RL409 when the job is not finished, RL404 when it is gone.
create or replace function queue.discard(job_id bigint, reason text default null)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_job queue.jobs := queue._lock_job(discard.job_id, 'discard', '{succeeded,failed,cancelled}');
  v_status text := v_job.status;
begin
  delete from queue.jobs as job
  where job.id = discard.job_id;

  v_job.status := 'gone';
  perform queue._record_event(
    v_job,
    'discarded',
    v_status,
    queue._transition_time(),
    null,
    jsonb_build_object('reason', queue._cut(discard.reason, 1000))
  );
  return v_status;
end;
$$;

comment on function queue.discard is 'finished -> gone, by an operator';
grant execute on function queue.discard to queue_operator;
