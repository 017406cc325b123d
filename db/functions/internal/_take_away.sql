-- queue._take_away: a claim whose lease ran out ends; returns the job's status
create or replace function queue._take_away(p_job queue.jobs, p_now timestamptz)
returns text
language plpgsql
as $$
begin
  if p_job.deadline_at <= p_now then
    return (
      queue._retry_or_fail(p_job, 'timed_out', 'TimedOut', 'the job ran past its timeout')
    ).status;
  end if;

  return (
    queue._retry_or_fail(
      p_job,
      'lease_expired',
      'LeaseExpired',
      format('worker %s stopped renewing its lease', p_job.worker)
    )
  ).status;
end;
$$;

comment on function queue._take_away is 'Ends a claim whose lease ran out';
