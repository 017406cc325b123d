-- queue.next_due: how long until a job of these queues is due
--
-- Zero when one is due already, locked by another session or not; null when nothing waits. Paused queues count from the
-- end of their pause, and not at all without one. A poll costs less than a claim that finds nothing.
create or replace function queue.next_due(queues text[] default '{default}')
returns interval
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
begin
  perform queue._check_queues(next_due.queues);
  perform queue._recheck_floors(next_due.queues);
  v_now := clock_timestamp();

  return (
    select min(
      greatest(waiting.available_at, policy.paused_until, v_now) - v_now
    )
    from unnest(next_due.queues) as named (queue)
      left join queue.policies as policy
        on policy.queue = named.queue
        and coalesce(policy.paused_until > v_now, policy.paused_at is not null)
      cross join lateral queue._next_queued(named.queue, v_now) as waiting (available_at)
    where waiting.available_at is not null
      and (policy.paused_at is null or policy.paused_until is not null)
  );
end;
$$;

comment on function queue.next_due is 'Until a job is due: zero now, null when nothing waits';
grant execute on function queue.next_due to queue_worker;
