-- queue.reap: running -> queued or failed (or cancelled, once asked): the lease ran out
--
-- Takes up to max_jobs (1 to 10,000) claims away from workers that stopped renewing or overran their timeout; the
-- attempt stays used up. Safe to call from any number of places at once; never waits. A job that cannot be taken is set
-- aside and reported, the others proceed.
create or replace function queue.reap(max_jobs integer default 1000)
returns table (requeued integer, failed integer, cancelled integer, set_aside integer)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_job queue.jobs;
  v_taken text[] := array[]::text[];
  v_aside bigint[] := array[]::bigint[];
  v_seen integer;
begin
  perform queue._check_number('max_jobs', reap.max_jobs, 1, 10000);

  begin
    for v_job in
      select expired.* from queue._expired(v_now, reap.max_jobs) as expired
    loop
      v_taken := v_taken || queue._take_away(v_job, v_now);
    end loop;
  exception
    when serialization_failure or deadlock_detected then
      raise;
    when others then
      v_taken := null;
  end;

  -- Together they failed: one by one, each in a subtransaction of its own, and on past those that fail.
  if v_taken is null then
    v_taken := '{}';
    loop
      v_seen := 0;
      for v_job in
        select expired.*
        from queue._expired(v_now, reap.max_jobs - cardinality(v_taken), v_aside) as expired
      loop
        v_seen := v_seen + 1;
        begin
          v_taken := v_taken || queue._take_away(v_job, v_now);
        exception
          when serialization_failure or deadlock_detected then
            raise;
          when others then
            v_aside := v_aside || v_job.id;
            raise warning 'job % could not be reaped: %', v_job.id, sqlerrm;
        end;
      end loop;
      exit when v_seen = 0 or cardinality(v_taken) = reap.max_jobs or cardinality(v_aside) >= 10000;
    end loop;
  end if;

  requeued := cardinality(array_positions(v_taken, 'queued'));
  failed := cardinality(array_positions(v_taken, 'failed'));
  cancelled := cardinality(array_positions(v_taken, 'cancelled'));
  set_aside := cardinality(v_aside);
  return next;
end;
$$;

comment on function queue.reap is 'running -> queued or failed: takes claims whose lease ran out';
grant execute on function queue.reap to queue_admin;
