-- queue._depth: how many jobs there are by queue, kind and status, from the counters: all that came less all that left
create or replace function queue._depth()
returns table (queue text, kind text, status text, jobs bigint)
language sql
stable
as $$
  select change.queue, change.kind, moved.status, sum(moved.jobs)::bigint
  from (
      select rollup.queue, rollup.kind, rollup.from_status, rollup.to_status, sum(rollup.events) as events
      from queue.rollups as rollup
      where rollup.grain = 'ever'
        and rollup.at = timestamptz 'epoch'
        and rollup.to_status <> rollup.from_status
      group by 1, 2, 3, 4
    ) as change
    cross join lateral (
      values (change.to_status, change.events), (change.from_status, -change.events)
    ) as moved (status, jobs)
  where moved.status not in ('', 'gone')
  group by change.queue, change.kind, moved.status
  having sum(moved.jobs) > 0;
$$;

comment on function queue._depth is 'Jobs by queue, kind and status, from the counters';
