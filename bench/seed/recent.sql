-- Moves the counters up to now, by what keeps minutes on minutes and hours on hours, when they have become old.
create temporary table moved as
select
  rollup.grain,
  case
    when rollup.grain like 'ever%' then rollup.at
    when rollup.grain like 'hour%' then rollup.at + date_trunc('hour', late.by)
    else rollup.at + (date_bin('5 minutes', 'epoch'::timestamptz + late.by, 'epoch') - 'epoch'::timestamptz)
  end as at,
  rollup.queue, rollup.kind, rollup.event, rollup.from_status, rollup.to_status, rollup.events,
  rollup.elapsed_seconds, rollup.buckets
from queue.rollups as rollup
  cross join (
    select now() - max(newest.at) as by from queue.rollups as newest where newest.grain = 'minute'
  ) as late
where late.by > interval '10 minutes';

do $$
begin
  if exists (select from moved) then
    truncate queue.rollups;
    insert into queue.rollups select moved.* from moved order by moved.at;
  end if;
end;
$$;

drop table moved;
