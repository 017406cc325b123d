-- queue._lock_job: locks a job for an operator; RL404 when it is gone, RL409 in a status the action does not take
create or replace function queue._lock_job(p_job_id bigint, p_verb text, p_statuses text[])
returns queue.jobs
language plpgsql
set enable_seqscan = off
set jit = off
as $$
declare
  v_job queue.jobs;
begin
  perform queue._require_writable();

  select job.* into v_job
  from queue.jobs as job
  where job.id = p_job_id
  for no key update;

  if not found then
    raise exception 'there is no job %', coalesce(p_job_id::text, 'null')
      using errcode = 'RL404', hint = 'Finished jobs are removed after their retention.';
  end if;

  if v_job.status <> all (p_statuses) then
    raise exception 'job % is %', p_job_id, v_job.status
      using errcode = 'RL409',
        hint = format('%s takes a job that is %s.', p_verb, array_to_string(p_statuses, ' or '));
  end if;

  return v_job;
end;
$$;

comment on function queue._lock_job is 'Locks a job in one of these statuses; RL404, RL409';
