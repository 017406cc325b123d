-- queue.list_workers: who works, from sessions and leases; there is no worker table
--
-- A worker's sessions are named rowlock:<worker>:<role>. state is live while it has a session, else gone: its leases are running out and
-- the reaper will take its jobs. oldest_lease_left is negative for a claim that awaits the reaper.
create or replace function queue.list_workers()
returns table (
  worker text,
  sessions integer,
  started_at timestamptz,
  running integer,
  oldest_lease_left interval,
  state text
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    with live as (
      select
        split_part(session.application_name, ':', 2) as worker,
        count(*)::integer as sessions,
        min(session.backend_start) as started_at
      from pg_stat_activity as session
      where session.datname = current_database()
        and session.application_name like 'rowlock:%:%'
      group by 1
    ),
    holding as (
      select
        held.worker,
        count(*)::integer as running,
        min(held.lease_expires_at) - clock_timestamp() as oldest_lease_left
      from (
          select job.worker, job.lease_expires_at
          from queue.jobs as job
          where job.status = 'running'
          limit 10000
        ) as held
      group by held.worker
    )
    select
      coalesce(live.worker, holding.worker),
      coalesce(live.sessions, 0),
      live.started_at,
      coalesce(holding.running, 0),
      holding.oldest_lease_left,
      case when live.worker is null then 'gone' else 'live' end
    from live
      full join holding on holding.worker = live.worker
    order by 1;
end;
$$;

comment on function queue.list_workers is 'Who works, from sessions and leases';
grant execute on function queue.list_workers to queue_viewer;
