-- queue.tick_loop: ticks for some seconds, committing each step: for a scheduler that starts things once a minute
--
-- seconds from 1 to 3600. Calls tick as often as it asks for. No SET clause and no SECURITY DEFINER: COMMIT is refused
-- inside either.
create or replace procedure queue.tick_loop(seconds integer default 55)
language plpgsql
as $$
declare
  v_end timestamptz;
  v_tick record;
begin
  if seconds is null or seconds not between 1 and 3600 then
    raise exception 'seconds % is out of range', coalesce(seconds::text, 'null')
      using errcode = 'RL400', hint = 'seconds is a number from 1 to 3600.';
  end if;

  v_end := clock_timestamp() + make_interval(secs => seconds);
  loop
    select ticked.* into v_tick from queue.tick() as ticked;
    commit;
    exit when clock_timestamp() >= v_end;
    continue when v_tick.more;
    exit when clock_timestamp() + interval '5 seconds' >= v_end;
    perform pg_sleep(
      least(greatest(extract(epoch from v_tick.due_in)::double precision, 0.1), 5.0)
    );
    commit;
  end loop;
end;
$$;

comment on procedure queue.tick_loop is 'Ticks for some seconds, committing each step';
grant execute on procedure queue.tick_loop to queue_worker, queue_operator;
