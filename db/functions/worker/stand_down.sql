-- queue.stand_down: a worker that found work lets go of its wake locks
--
-- Returns how many it held. If any, one NOTIFY rowlock with an empty payload tells the other idle workers to look again
-- and to stand by themselves, so that some idle worker always holds the locks. Idempotent.
create or replace function queue.stand_down()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bucket integer;
  v_held integer := 0;
begin
  for v_bucket in
    select held.bucket from queue._wake_holders() as held where held.pid = pg_backend_pid()
  loop
    perform pg_advisory_unlock(queue._wake_space(), v_bucket);
    v_held := v_held + 1;
  end loop;

  if v_held > 0 then
    perform pg_notify('rowlock', '');
  end if;

  return v_held;
end;
$$;

comment on function queue.stand_down is 'Lets go of the wake locks and tells the other idle workers';
grant execute on function queue.stand_down to queue_worker;
