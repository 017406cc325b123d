-- queue._lock_claims: locks those of these claims that still hold
--
-- In id order and passing by what others have locked, so that two batches never wait for each other. The
-- lateral probe keeps the plan at one primary key look-up a claim; a running job is told by its worker (running_is_leased),
-- since `status = 'running'` would admit the index of the running jobs, read from end to end for each claim.
create or replace function queue._lock_claims(p_job_ids bigint[], p_fences integer[])
returns table (ctids tid[], ids bigint[], workers text[])
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return query
    select
      coalesce(array_agg(held.ctid), '{}'),
      coalesce(array_agg(held.id), '{}'),
      coalesce(array_agg(held.worker), '{}')
    from (
        select distinct asked.id, asked.fence
        from unnest(p_job_ids, p_fences) as asked (id, fence)
        order by asked.id
      ) as asked
      cross join lateral (
        select job.ctid, job.id, job.worker
        from queue.jobs as job
        where job.id = asked.id
          and job.worker is not null
          and job.fence = asked.fence
        for no key update skip locked
      ) as held;
end;
$$;

comment on function queue._lock_claims is 'Locks the claims that still hold, in id order, without waiting';
