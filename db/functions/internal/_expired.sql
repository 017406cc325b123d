-- queue._expired: locks running jobs whose lease has run out, passing by what others have locked and p_aside
--
-- Reads the running jobs: no index covers leases, so that renewals stay cheap.
create or replace function queue._expired(
  p_now timestamptz,
  p_max_jobs integer,
  p_aside bigint[] default '{}'
)
returns setof queue.jobs
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    select job.*
    from queue.jobs as job
    where job.status = 'running'
      and job.lease_expires_at <= p_now
      and job.id <> all (p_aside)
    limit p_max_jobs
    for no key update skip locked;
end;
$$;

comment on function queue._expired is 'Locks running jobs whose lease has run out';
