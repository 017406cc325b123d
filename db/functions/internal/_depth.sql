-- queue._depth: how many jobs there are by queue, kind and status, from the counters: all that came less all that left
create or replace function queue._depth()
returns table (queue text, kind text, status text, jobs bigint)
language sql
stable
as $$
  select rollup.queue, rollup.kind, moved.status, sum(moved.jobs)::bigint
  from queue.rollups as rollup
    cross join lateral (
      values (rollup.to_status, rollup.events), (rollup.from_status, -rollup.events)
    ) as moved (status, jobs)
  where rollup.grain = 'ever'
    and rollup.at = timestamptz 'epoch'
    and rollup.to_status <> rollup.from_status
    and moved.status not in ('', 'gone')
  group by rollup.queue, rollup.kind, moved.status
  having sum(moved.jobs) > 0;
$$;

comment on function queue._depth is 'Jobs by queue, kind and status, from the counters';
