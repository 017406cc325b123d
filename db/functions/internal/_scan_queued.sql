-- queue._scan_queued: up to 10,000 queued jobs as they stand in line, from after a place in it; backwards from before
--
-- Queue by queue in the order of names, each in claim order, jobs due later included. A null p_queue is the head of
-- the first line; p_only keeps to one queue.
create or replace function queue._scan_queued(
  p_queue text,
  p_priority integer,
  p_available_at timestamptz,
  p_created_at timestamptz,
  p_id bigint,
  p_only text,
  p_backwards boolean
)
returns setof queue.jobs
language sql
stable
as $$
  select place.*
  from (
      select named.queue
      from (
          select in_use.queue from queue._queues() as in_use where p_only is null
          union all
          select p_only where p_only is not null
        ) as named
      where p_queue is null
        or case when p_backwards then named.queue <= p_queue else named.queue >= p_queue end
      order by
        case when p_backwards then named.queue end desc,
        case when not p_backwards then named.queue end
    ) as named
    cross join lateral (
      select level.priority
      from generate_series(0, 9) as level (priority)
      where p_queue is distinct from named.queue
        or case when p_backwards then level.priority >= p_priority else level.priority <= p_priority end
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
            case when p_queue = named.queue and p_priority = level.priority then p_available_at else '-infinity' end,
            case when p_queue = named.queue and p_priority = level.priority then p_created_at else '-infinity' end,
            case when p_queue = named.queue and p_priority = level.priority then p_id else 0 end
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
            case when p_queue = named.queue and p_priority = level.priority then p_available_at else 'infinity' end,
            case when p_queue = named.queue and p_priority = level.priority then p_created_at else 'infinity' end,
            case when p_queue = named.queue and p_priority = level.priority then p_id else 9223372036854775807 end
          )
        order by job.available_at desc, job.created_at desc, job.id desc
        limit 10000
      )
    ) as place
  limit 10000;
$$;

comment on function queue._scan_queued is 'Up to 10,000 queued jobs as they stand in line';
