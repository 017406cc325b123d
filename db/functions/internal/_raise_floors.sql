-- queue._raise_floors: per priority, the lowest available_at still queued up to p_safe, else p_safe itself
--
-- p_floors and the result are microseconds since 1970, the element of priority p at p + 1.
create or replace function queue._raise_floors(
  p_queue text,
  p_floors bigint[],
  p_safe timestamptz
)
returns bigint[]
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
    select
      (
        extract(
          epoch from coalesce(
            (
              select job.available_at
              from queue.jobs as job
              where job.status = 'queued'
                and job.queue = p_queue
                and job.priority = level.priority::smallint
                and job.available_at >=
                  timestamptz 'epoch' + p_floors[level.priority + 1] * interval '1 microsecond'
                and job.available_at <= p_safe
              order by job.available_at, job.created_at, job.id
              limit 1
            ),
            p_safe
          )
        ) * 1000000
      )::bigint
    from (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) as level (priority)
  );
end;
$$;

comment on function queue._raise_floors is 'Per priority, the instant below which no job is queued';
