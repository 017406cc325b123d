-- queue.reap: running -> queued or failed (or cancelled, once asked): the lease ran out
--
-- Takes up to max_jobs (1 to 10,000) claims away from workers that stopped renewing or overran their timeout; the attempt stays used
-- up. Safe to call from any number of places at once; never waits. A job that cannot be taken is set aside and
-- reported, the others proceed.
create or replace function queue.reap(max_jobs integer default 1000)
returns table (requeued integer, failed integer, cancelled integer, set_aside integer)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_job queue.jobs;
  v_status text;
begin
  perform queue._check_number('max_jobs', reap.max_jobs, 1, 10000);
  requeued := 0;
  failed := 0;
  cancelled := 0;
  set_aside := 0;

  for v_job in
    select expired.* from queue._expired(v_now, reap.max_jobs) as expired
  loop
    begin
      if v_job.deadline_at <= v_now then
        v_status := (
          queue._retry_or_fail(
            v_job, 'timed_out', 'TimedOut', 'the job ran past its timeout'
          )
        ).status;
      else
        v_status := (
          queue._retry_or_fail(
            v_job, 'lease_expired', 'LeaseExpired',
            format('worker %s stopped renewing its lease', v_job.worker)
          )
        ).status;
      end if;

      case v_status
        when 'queued' then requeued := requeued + 1;
        when 'failed' then failed := failed + 1;
        else cancelled := cancelled + 1;
      end case;
    exception
      when serialization_failure or deadlock_detected then
        raise;
      when others then
        set_aside := set_aside + 1;
        raise warning 'job % could not be reaped: %', v_job.id, sqlerrm;
    end;
  end loop;

  return next;
end;
$$;

comment on function queue.reap is 'running -> queued or failed: takes claims whose lease ran out';
grant execute on function queue.reap to queue_admin;
