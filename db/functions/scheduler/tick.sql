-- queue.tick: does the maintenance step that is due, one a call, so that each commits by itself
--
-- Steps: reap, roll_up, prune, rotate_events. Returns one row: the step done (null when none was due), how many rows it
-- concerned, whether to call again at once, and how long until a step is due; due_in is half a minute while nothing runs
-- that could need reaping and every event is counted. Safe to call from any number of places at once: one caller does a step, the
-- others pass it by; but a step overdue by three intervals is done by whoever comes, whatever holds its row.
-- A step that fails is recorded (health shows it) and comes due again.
create or replace function queue.tick()
returns table (step text, processed bigint, more boolean, due_in interval)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz;
  v_step queue.steps;
  v_is_mine boolean;
  v_error text;
begin
  perform queue._require_writable();
  v_now := clock_timestamp();
  more := false;

  select due.* into v_step
  from queue.steps as due
  where due.due_at <= v_now
  order by due.due_at, due.step
  limit 1
  for no key update skip locked;
  v_is_mine := found;

  if not v_is_mine then
    select due.* into v_step
    from queue.steps as due
    where due.due_at <= v_now - 3 * due.every
    order by due.due_at, due.step
    limit 1;
  end if;

  if v_step.step is not null then
    step := v_step.step;
    begin
      case v_step.step
        when 'reap' then
          select (reaped.requeued + reaped.failed + reaped.cancelled)::bigint into processed
          from queue.reap() as reaped;
          more := processed >= 1000;
        when 'roll_up' then
          select rolled.counted::bigint, rolled.more into processed, more
          from queue.roll_up() as rolled;
        when 'prune' then
          select pruned.deleted::bigint, pruned.more into processed, more from queue.prune() as pruned;
        when 'rotate_events' then
          select (rotated.created + rotated.dropped)::bigint into processed
          from queue.rotate_events() as rotated;
      end case;
    exception
      when serialization_failure or deadlock_detected then
        raise;
      when others then
        processed := 0;
        more := false;
        v_error := left(sqlerrm, 1000);
        raise warning 'step % failed: %', v_step.step, v_error;
    end;

    if v_is_mine then
      update queue.steps as done
      set due_at = case when tick.more then v_now else v_now + done.every end,
          finished_at = case when v_error is null then clock_timestamp() else done.finished_at end,
          processed = tick.processed,
          failures = case when v_error is null then 0 else done.failures + 1 end,
          error = v_error
      where done.step = v_step.step;
    end if;
  end if;

  select greatest(min(waiting.due_at) - clock_timestamp(), interval '0') into due_in
  from queue.steps as waiting
  where v_is_mine or waiting.step is distinct from v_step.step;

  more := more or due_in = interval '0' and v_is_mine;

  if not more
    and not exists (select from queue.jobs as job where job.status = 'running')
    and not queue._has_uncounted_events()
  then
    due_in := greatest(due_in, interval '30 seconds');
  end if;

  return next;
end;
$$;

comment on function queue.tick is 'Does the maintenance step that is due, one a call';
grant execute on function queue.tick to queue_worker, queue_operator;
