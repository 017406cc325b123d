-- queue.reprioritize: queued -> queued, at another priority
--
-- The job joins the end of its new priority's line: one that was due is due from now. Asking for the priority it has
-- changes nothing. RL409 when the job is not queued, RL404 when it is gone.
create or replace function queue.reprioritize(
  job_id bigint,
  priority integer,
  reason text default null
)
returns table (id bigint, status text, attempt integer, available_at timestamptz)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_job queue.jobs := queue._lock_job(reprioritize.job_id, 'reprioritize', '{queued}');
begin
  perform queue._check_number('priority', reprioritize.priority, 0, 9);

  if v_job.priority <> reprioritize.priority then
    v_job.priority := reprioritize.priority::smallint;
    v_job := queue._requeue(
      v_job,
      'reprioritized',
      queue._transition_time(),
      v_job.available_at,
      null,
      jsonb_build_object(
        'priority', v_job.priority,
        'reason', queue._cut(reprioritize.reason, 1000)
      )
    );
  end if;

  return query select v_job.id, v_job.status, v_job.attempt, v_job.available_at;
end;
$$;

comment on function queue.reprioritize is 'queued -> queued, at another priority';
grant execute on function queue.reprioritize to queue_operator;
