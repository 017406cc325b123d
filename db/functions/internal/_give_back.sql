-- queue._give_back: running -> queued with the attempt given back, or cancelled once a cancel was requested
create or replace function queue._give_back(
  p_job queue.jobs,
  p_event text,
  p_delay interval,
  p_verb text,
  p_reason text
)
returns queue.jobs
language plpgsql
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_job queue.jobs := p_job;
  v_detail jsonb := jsonb_build_object('reason', queue._cut(p_reason, 1000));
begin
  if v_job.cancel_requested_at is not null then
    return queue._finish(v_job, 'cancelled', 'cancelled', v_now, p_verb, v_detail);
  end if;

  v_job.attempt := v_job.attempt - 1;
  return queue._requeue(v_job, p_event, v_now, v_now + p_delay, p_verb, v_detail);
end;
$$;

comment on function queue._give_back is 'Queues a running job again without using up its attempt';
