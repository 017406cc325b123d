-- queue._scan_queued: up to 10,000 queued jobs as they stand in line, from after a place in it; backwards from before
--
-- Queue by queue in the order of names, each in claim order, jobs due later included. A filter that names a queue keeps
-- to its line. Without a queue in p_from it is the head of the first line.
create or replace function queue._scan_queued(p_filter jsonb, p_from queue.jobs, p_backwards boolean)
returns setof queue.jobs
language sql
stable
as $$
  select place.*
  from (
      select named.queue
      from (
          select in_use.queue from queue._queues() as in_use where p_filter ->> 'queue' is null
          union all
          select p_filter ->> 'queue' where p_filter ->> 'queue' is not null
        ) as named
      where (p_from).queue is null
        or case
          when p_backwards then named.queue <= (p_from).queue
          else named.queue >= (p_from).queue
        end
      order by
        case when p_backwards then named.queue end desc,
        case when not p_backwards then named.queue end
    ) as named
    cross join lateral (
      select
        level.priority,
        (p_from).queue = named.queue and (p_from).priority = level.priority as has_place
      from generate_series(0, 9) as level (priority)
      where (p_from).queue is distinct from named.queue
        or case
          when p_backwards then level.priority >= (p_from).priority
          else level.priority <= (p_from).priority
        end
      order by
        case when p_backwards then level.priority end,
        case when not p_backwards then level.priority end desc
    ) as level
    cross join lateral (
      (
        select job.*
        from queue.jobs as job
        where not p_backwards
          and job.status = 'queued'
          and job.queue = named.queue
          and job.priority = level.priority::smallint
          and (job.available_at, job.created_at, job.id) > (
            case when level.has_place then (p_from).available_at else '-infinity' end,
            case when level.has_place then (p_from).created_at else '-infinity' end,
            case when level.has_place then (p_from).id else 0 end
          )
        order by job.available_at, job.created_at, job.id
        limit 10000
      )
      union all
      (
        select job.*
        from queue.jobs as job
        where p_backwards
          and job.status = 'queued'
          and job.queue = named.queue
          and job.priority = level.priority::smallint
          and (job.available_at, job.created_at, job.id) < (
            case when level.has_place then (p_from).available_at else 'infinity' end,
            case when level.has_place then (p_from).created_at else 'infinity' end,
            case when level.has_place then (p_from).id else 9223372036854775807 end
          )
        order by job.available_at desc, job.created_at desc, job.id desc
        limit 10000
      )
    ) as place
  limit 10000;
$$;

comment on function queue._scan_queued is 'Up to 10,000 queued jobs as they stand in line';
