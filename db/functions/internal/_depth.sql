-- queue._depth: how many jobs there are by queue, kind and status, from the counters: all that came less all that left
create or replace function queue._depth()
returns table (queue text, kind text, status text, jobs bigint)
language sql
stable
as $$
  select moved.queue, moved.kind, moved.status, sum(moved.jobs)::bigint
  from (
      select came.queue, came.kind, came.to_status as status, came.events as jobs
      from queue.rollups as came
      where came.grain = 'ever'
        and came.to_status <> came.from_status
      union all
      select gone.queue, gone.kind, gone.from_status, -gone.events
      from queue.rollups as gone
      where gone.grain = 'ever'
        and gone.to_status <> gone.from_status
    ) as moved
  where moved.status not in ('', 'gone')
  group by moved.queue, moved.kind, moved.status
  having sum(moved.jobs) > 0;
$$;

comment on function queue._depth is 'Jobs by queue, kind and status, from the counters';
