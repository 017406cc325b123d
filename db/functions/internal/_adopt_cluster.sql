-- queue._adopt_cluster: a dump came to another cluster, where transaction ids start anew
--
-- The ids that came with the events say nothing here: they are told apart by event id, and read_events answers old
-- cursors with RL409. What the dump holds and roll_up had not counted is counted now, by the old ids, for the last
-- time. Waits a second at most for writers of events, so that none has an id among the dump's.
create or replace function queue._adopt_cluster()
returns boolean
language plpgsql
set lock_timeout = '1s'
as $$
declare
  v_identifier bigint := (pg_control_system()).system_identifier;
  v_before bigint;
  v_cursor pg_snapshot;
  v_end xid8;
begin
  select settings.adopted_event_id into v_before
  from queue.settings as settings
  where settings.system_identifier <> v_identifier
  for no key update;

  if not found then
    return false;
  end if;

  lock table queue.job_events in share row exclusive mode;

  select step.cursor::pg_snapshot into v_cursor
  from queue.steps as step
  where step.step = 'roll_up'
  for no key update;

  -- Also of transactions that were open when the cursor was taken, the last to commit before the dump.
  select greatest((max(event.xid)::text::numeric + 1)::text::xid8, pg_snapshot_xmax(v_cursor)) into v_end
  from queue.job_events as event;
  perform queue._count_events(v_cursor, format('%s:%s:', v_end, v_end)::pg_snapshot, v_before);

  update queue.steps as step
  set cursor = queue._snapshot()::text
  where step.step = 'roll_up';

  update queue.settings as settings
  set system_identifier = v_identifier,
      adopted_event_id = coalesce((select max(event.id) from queue.job_events as event), 0);

  perform queue._record_action('adopt_cluster', null, null);
  return true;
end;
$$;

comment on function queue._adopt_cluster is 'Notices that a dump was restored into another cluster';
