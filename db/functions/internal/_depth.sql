-- queue._depth: how many jobs there are by status, of one queue or kind or of all: all that came less all that left
--
-- From the counters, exact as of the last roll_up. Of all, one row stands for every queue and kind.
create or replace function queue._depth(
  p_queue text,
  p_kind text
)
returns table (status text, jobs bigint)
language sql
stable
as $$
  select moved.status, sum(moved.jobs)::bigint
  from (
      select of_all.from_status, of_all.to_status, of_all.events
      from queue.rollups as of_all
      where p_queue is null
        and p_kind is null
        and of_all.grain = 'ever_of_all'
        and of_all.at = timestamptz 'epoch'
      union all
      select of_queue.from_status, of_queue.to_status, of_queue.events
      from queue.rollups as of_queue
      where of_queue.grain = 'ever'
        and of_queue.at = timestamptz 'epoch'
        and of_queue.queue = p_queue
        and (p_kind is null or of_queue.kind = p_kind)
      union all
      select of_kind.from_status, of_kind.to_status, of_kind.events
      from queue.rollups as of_kind
      where p_queue is null
        and of_kind.grain = 'ever'
        and of_kind.at = timestamptz 'epoch'
        and of_kind.kind = p_kind
    ) as change
    cross join lateral (
      values (change.to_status, change.events), (change.from_status, -change.events)
    ) as moved (status, jobs)
  where change.to_status <> change.from_status
    and moved.status not in ('', 'gone')
  group by moved.status
  having sum(moved.jobs) > 0;
$$;

comment on function queue._depth is 'Jobs by status, from the counters';
