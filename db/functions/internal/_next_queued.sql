-- queue._next_queued: the earliest available_at queued in a queue, through this session's floors
--
-- Not through floors from the future, which a clock that stepped back has left, nor through those past their
-- recheck (_recheck_floors).
create or replace function queue._next_queued(p_queue text, p_now timestamptz)
returns timestamptz
language plpgsql
stable
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_state jsonb := nullif(current_setting('rowlock.floors', true), '')::jsonb;
  v_floors bigint[];
begin
  if p_now >= timestamptz 'epoch' + (v_state ->> 'at')::bigint * interval '1 microsecond'
    and p_now < timestamptz 'epoch' + (v_state ->> 'recheck')::bigint * interval '1 microsecond'
  then
    v_floors := (v_state #>> array['queues', p_queue, 'floors'])::bigint[];
  end if;

  return (
    select min(head.available_at)
    from generate_series(0, 9) as level (priority)
      cross join lateral (
        select job.available_at
        from queue.jobs as job
        where job.status = 'queued'
          and job.queue = p_queue
          and job.priority = level.priority::smallint
          and job.available_at >=
            timestamptz 'epoch'
            + coalesce(v_floors[level.priority + 1], 0) * interval '1 microsecond'
        order by job.available_at, job.created_at, job.id
        limit 1
      ) as head
  );
end;
$$;

comment on function queue._next_queued is 'The earliest available_at queued in a queue';
