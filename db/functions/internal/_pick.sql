-- queue._pick: locks the next jobs of one queue and returns where they are, in claim order
--
-- One probe a priority, so that jobs due later cost nothing. Each starts at its priority's floor, in microseconds since
-- 1970 (_refresh_floors): below it stand only dead entries of jobs long claimed. The pins hold the plan on jobs_ready
-- whatever the statistics were when it was cached, an empty table's included. Callers update by ctid: a join back to
-- the table may become a sequential scan.
create or replace function queue._pick(
  p_queue text,
  p_max_jobs integer,
  p_now timestamptz,
  p_floors bigint[]
)
returns tid[]
language plpgsql
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set enable_sort = off
set enable_material = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return array(
    select picked.ctid
    from (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as level (priority)
      cross join lateral (
        select job.ctid
        from queue.jobs as job
        where job.status = 'queued'
          and job.queue = p_queue
          and job.priority = level.priority::smallint
          and job.available_at >=
            timestamptz 'epoch' + p_floors[level.priority + 1] * interval '1 microsecond'
          and job.available_at <= p_now
        order by job.available_at, job.created_at, job.id
        limit p_max_jobs
        for no key update skip locked
      ) as picked
    limit p_max_jobs
  );
end;
$$;

comment on function queue._pick is 'Locks the next due jobs of one queue; their ctids in claim order';
