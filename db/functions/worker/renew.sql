-- queue.renew: running -> running, no event
--
-- Prolongs the leases of up to 1,000 claims, each by the lease it was claimed with. verdict is held, stop (a cancel was
-- requested or the timeout has passed: stop and answer) or lost (the claim belongs to nobody or to another worker now).
-- Never waits: a job that another session has locked is answered from what can be read, its lease unmoved, and never as
-- lost for that.
create or replace function queue.renew(job_ids bigint[], fences integer[])
returns table (job_id bigint, fence integer, verdict text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_ctids tid[];
  v_now timestamptz;
begin
  perform queue._require_writable();
  perform queue._check_claims(renew.job_ids, renew.fences);

  select held.ctids into v_ctids
  from queue._lock_claims(renew.job_ids, renew.fences) as held;
  v_now := clock_timestamp();

  update queue.jobs as job
  set lease_expires_at = least(
    v_now + coalesce(
      job.lease,
      (select policy.lease from queue.policies as policy where policy.queue = job.queue),
      (select settings.lease from queue.settings as settings)
    ),
    job.deadline_at + interval '10 seconds'
  )
  where job.ctid = any (v_ctids);

  return query
    select
      asked.id,
      asked.fence,
      coalesce(answer.verdict, 'lost')
    from unnest(renew.job_ids, renew.fences) as asked (id, fence)
      left join lateral (
        select queue._verdict(job, asked.fence, v_now) as verdict
        from queue.jobs as job
        where job.id = asked.id
        offset 0
      ) as answer on true;
end;
$$;

comment on function queue.renew is 'running -> running: prolongs leases, tells held, stop or lost';
grant execute on function queue.renew to queue_worker;
