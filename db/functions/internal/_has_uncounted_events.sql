-- queue._has_uncounted_events: have events come since roll_up last ran
create or replace function queue._has_uncounted_events()
returns boolean
language sql
stable
as $$
  select exists (
    select
    from queue.job_events as event
    where event.xid >= (
        select pg_snapshot_xmax(step.cursor::pg_snapshot)
        from queue.steps as step
        where step.step = 'roll_up'
      )
      -- What came with a dump may have higher ids, and is counted.
      and event.xid <= greatest(
        pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id_if_assigned()
      )
      and event.id > (select settings.adopted_event_id from queue.settings as settings)
  );
$$;

comment on function queue._has_uncounted_events is 'Have events come since roll_up last ran';
