-- queue.tick: does the maintenance that is due, a step a call, so that each commits by itself
--
-- Steps: reap, roll_up, prune, rotate_events. Returns one row: the step done (null when none was due), how many rows it
-- concerned, whether to call again at once, and how long until a step is due; due_in is half a minute while nothing
-- runs that could need reaping and every event is counted. A step that finds nothing to do makes room for the next in
-- the same call. Safe to call from any number of places at once: one caller does a step, the others pass it by; but a
-- reap overdue by three intervals is done by whoever comes, whatever holds its row. A step that fails, and a reap that
-- set jobs aside, is recorded (health shows it) and comes due again.
create or replace function queue.tick()
returns table (step text, processed bigint, more boolean, due_in interval)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz;
  v_step queue.steps;
  v_is_mine boolean;
  v_began_at timestamptz;
  v_pause interval;
  v_set_aside integer;
  v_error text;
begin
  perform queue._require_writable();
  v_now := clock_timestamp();

  loop
    more := false;

    -- The longest due goes first; but a step that is cancelled each time must not keep a late reap waiting. What was
    -- finished in the future has its dates from a clock that has stepped back since.
    select due.* into v_step
    from queue.steps as due
    where due.due_at <= v_now
      or due.finished_at > v_now + interval '1 minute'
    order by due.step = 'reap' and due.due_at <= v_now - due.every desc, due.due_at, due.step
    limit 1
    for no key update skip locked;
    v_is_mine := found;

    if not v_is_mine then
      select due.* into v_step
      from queue.steps as due
      where due.step = 'reap'
        and due.due_at <= v_now - 3 * due.every;
    end if;

    exit when v_step.step is null;

    step := v_step.step;
    v_began_at := clock_timestamp();
    v_pause := v_step.every;
    begin
      case v_step.step
        when 'reap' then
          select (reaped.requeued + reaped.failed + reaped.cancelled)::bigint, reaped.set_aside
          into processed, v_set_aside
          from queue.reap() as reaped;
          more := processed >= 1000;
          if v_set_aside > 0 then
            v_error := format('%s jobs could not be reaped: the server log says why', v_set_aside);
          end if;
        when 'roll_up' then
          select rolled.counted::bigint, rolled.more into processed, more
          from queue.roll_up() as rolled;
        when 'prune' then
          select pruned.deleted::bigint, pruned.more into processed, more from queue.prune() as pruned;
          -- A walk over rows that all stay takes a twentieth of the time, however long the table is.
          if more and processed = 0 then
            more := false;
            v_pause := greatest(20 * (clock_timestamp() - v_began_at), interval '100 milliseconds');
          end if;
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

    exit when not v_is_mine;

    update queue.steps as done
    set due_at = v_now + case when tick.more then interval '0' else v_pause end,
        finished_at = case when v_error is null then clock_timestamp() else least(done.finished_at, v_now) end,
        processed = tick.processed,
        failures = case when v_error is null then 0 else done.failures + 1 end,
        error = v_error
    where done.step = v_step.step;

    exit when processed > 0 or more or v_error is not null;
  end loop;

  select greatest(min(waiting.due_at) - clock_timestamp(), interval '0') into due_in
  from queue.steps as waiting
  where v_is_mine or waiting.step is distinct from v_step.step;

  more := more or due_in = interval '0' and v_is_mine;

  if not more then
    due_in := greatest(
      due_in,
      case
        when exists (select from queue.jobs as job where job.status = 'running')
          or queue._has_uncounted_events()
          -- Somebody is at the step that is due.
          then interval '1 second'
        else interval '30 seconds'
      end
    );
  end if;

  return next;
end;
$$;

comment on function queue.tick is 'Does the maintenance that is due, a step a call';
grant execute on function queue.tick to queue_worker, queue_operator;
