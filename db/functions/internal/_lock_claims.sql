-- queue._lock_claims: locks those of these claims that still hold
--
-- Answers in the order asked, null for a claim that does not hold or that another session has locked. Locks in id order
-- and waits for nobody, so that two batches cannot deadlock. The lateral probe keeps the plan at one primary key
-- look-up a claim; a running job is told by its worker, which the table's CHECKs leave to no other, since `status =
-- 'running'` would admit the index of all running jobs, read from end to end for each claim. Under REPEATABLE READ a
-- claim made or lost since the snapshot is 40001: what the snapshot shows of its job says nothing.
create or replace function queue._lock_claims(p_job_ids bigint[], p_fences integer[])
returns table (ctids tid[], workers text[])
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    perform
    from unnest(p_job_ids) as asked (id)
      cross join lateral (
        select from queue.jobs as job where job.id = asked.id for no key update skip locked
      ) as seen;
  end if;

  return query
    select
      array_agg(held.ctid order by asked.ordinality),
      array_agg(held.worker::text order by asked.ordinality)
    from (
        select asked.id, asked.fence, asked.ordinality
        from unnest(p_job_ids, p_fences) with ordinality as asked (id, fence)
        order by asked.id
      ) as asked
      left join lateral (
        select job.ctid, job.worker
        from queue.jobs as job
        where job.id = asked.id
          and job.worker is not null
          and job.fence = asked.fence
        for no key update skip locked
      ) as held on true;
end;
$$;

comment on function queue._lock_claims is 'Locks the claims that still hold, in id order, without waiting';
