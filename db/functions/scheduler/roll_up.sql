-- queue.roll_up: counts the events that have committed since it last ran, each exactly once
--
-- Its cursor is a snapshot, as read_events' is, and moves in the transaction of the counters; one caller at a time,
-- others pass by. Takes max_transactions (1 to 1,000,000) transactions' events at most; more: call again. Minutes, by
-- one and by five, are kept for 25 hours, hours for 92 days.
create or replace function queue.roll_up(max_transactions integer default 100000)
returns table (counted bigint, more boolean)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_now timestamptz := queue._transition_time();
  v_old pg_snapshot;
  v_new pg_snapshot;
  v_end xid8;
begin
  perform queue._check_number('max_transactions', roll_up.max_transactions, 1, 1000000);
  perform queue._adopt_cluster();

  counted := 0;
  more := false;

  select step.cursor::pg_snapshot into v_old
  from queue.steps as step
  where step.step = 'roll_up'
  for no key update skip locked;

  if not found then
    return next;
    return;
  end if;

  -- A window too wide ends early: as of a snapshot that would have been taken at that transaction.
  v_new := queue._snapshot();
  v_end := (pg_snapshot_xmax(v_old)::text::numeric + roll_up.max_transactions)::text::xid8;
  more := v_end < pg_snapshot_xmax(v_new);
  if more then
    select
      format(
        '%s:%s:%s', least(min(open.xid), v_end), v_end, string_agg(open.xid::text, ',' order by open.xid)
      )::pg_snapshot
    into v_new
    from pg_snapshot_xip(v_new) as open (xid)
    where open.xid < v_end;
  end if;

  counted := queue._count_events(
    v_old, v_new, (select settings.adopted_event_id from queue.settings as settings)
  );

  update queue.steps as step
  set cursor = v_new::text
  where step.step = 'roll_up'
    and step.cursor <> v_new::text;

  delete from queue.rollups as rollup
  where rollup.grain in ('minute', 'five_minutes', 'minute_of_all', 'five_minutes_of_all')
    and rollup.at < v_now - interval '25 hours';

  delete from queue.rollups as rollup
  where rollup.grain in ('hour', 'hour_of_all')
    and rollup.at < v_now - interval '92 days';

  return next;
end;
$$;

comment on function queue.roll_up is 'Counts the events that have committed since it last ran';
grant execute on function queue.roll_up to queue_admin;
