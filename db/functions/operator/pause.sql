-- queue.pause: no job of a queue is claimed until resume, or until an instant
--
-- Touches no job: what runs goes on, what is enqueued waits. until lies ahead, at most 10 years. Pausing again replaces
-- reason and until. A claim under way when this commits may still hand out jobs.
create or replace function queue.pause(
  queue text,
  reason text default null,
  until timestamptz default null
)
returns table (
  paused_at timestamptz,
  paused_until timestamptz,
  paused_by text,
  pause_reason text
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_reason text := queue._cut(pause.reason, 1000);
begin
  perform queue._check_name('queue', pause.queue);
  if pause.until <= v_now or pause.until > v_now + interval '10 years' then
    raise exception 'until % is out of range', pause.until
      using errcode = 'RL400',
        hint = 'until lies in the future, at most 10 years ahead; null pauses until resume.';
  end if;

  insert into queue.policies as policy (queue)
  values (pause.queue)
  on conflict do nothing;

  perform queue._record_action(
    'pause', pause.queue, v_reason, jsonb_build_object('until', pause.until)
  );

  return query
    update queue.policies as policy
    set paused_at = v_now,
        paused_until = pause.until,
        paused_by = actor.name,
        pause_reason = v_reason
    from queue._actor() as actor
    where policy.queue = pause.queue
    returning policy.paused_at, policy.paused_until, policy.paused_by, policy.pause_reason;
end;
$$;

comment on function queue.pause is 'No job of the queue is claimed until resume, or until an instant';
grant execute on function queue.pause to queue_operator;
