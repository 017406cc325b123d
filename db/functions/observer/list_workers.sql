-- queue.list_workers: who works, from sessions and leases; there is no worker table
--
-- A worker's sessions are named rowlock:<worker>:<role>. state is live while it has a session, else gone: its leases
-- are running out and the reaper will take its jobs. oldest_lease_left is negative for a claim that awaits the reaper.
-- A session's name is cut at 63 bytes, so workers are told apart by their first 55. started_at is null where the owner
-- of the queue may not read other sessions.
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
set enable_seqscan = off
set jit = off
as $$
begin
  return query
    with live as (
      select
        left(split_part(session.application_name, ':', 2), 55) as name,
        count(*)::integer as sessions,
        min(session.backend_start) as started_at
      from pg_stat_activity as session
      where session.datname = current_database()
        and session.application_name ~ '^rowlock:[^:]+(:|$)'
        and (
          session.application_name like 'rowlock:%:%'
          or length(session.application_name) = 63
        )
      group by 1
    ),
    holding as (
      select
        held.worker,
        left(held.worker, 55) as name,
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
      coalesce(holding.worker, live.name),
      coalesce(live.sessions, 0),
      live.started_at,
      coalesce(holding.running, 0),
      holding.oldest_lease_left,
      case when live.name is null then 'gone' else 'live' end
    from live
      full join holding on holding.name = live.name
    order by 1;
end;
$$;

comment on function queue.list_workers is 'Who works, from sessions and leases';
grant execute on function queue.list_workers to queue_viewer;
