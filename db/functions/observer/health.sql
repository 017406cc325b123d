-- queue.health: what an operator should look at, each with what to do
--
-- status is ok, warn or fail. Checks: steps (maintenance runs), leases (nothing waits for the reaper), old_snapshots
-- and prepared_transactions (they hold back vacuum; behind a writing one claims slow down), dead_rows, ready_index
-- (bloat), event_partitions (days ahead), default_partition, notify_queue, cluster (a restored dump was noticed).
create or replace function queue.health()
returns table (check_name text, status text, detail text, hint text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  return query
    select
      'steps',
      case
        when bool_or(step.failures >= 3) then 'fail'
        when bool_or(
            step.failures > 0
            or step.due_at < v_now - 3 * step.every - interval '30 seconds'
            -- Before the clock stepped back; the next tick mends it.
            or step.finished_at > v_now + interval '1 minute'
          )
          then 'warn'
        else 'ok'
      end,
      string_agg(
        format(
          '%s %s', step.step,
          case
            when step.error is not null then format('failed %s times: %s', step.failures, step.error)
            when step.finished_at is null then 'has not run yet'
            else format('ran %s ago', date_trunc('second', v_now - step.finished_at))
          end
        ),
        '; '
        order by step.step
      ),
      'Workers tick while they run; without any, use install_cron() or rowlock tick --loop.'
    from queue.steps as step;

  return query
    select
      'leases',
      case when max(v_now - held.lease_expires_at) > interval '1 minute' then 'fail' else 'ok' end,
      format(
        '%s claims await the reaper, the oldest for %s',
        count(*), coalesce(date_trunc('second', max(v_now - held.lease_expires_at)), interval '0')
      ),
      'Somebody must tick: a worker, pg_cron or rowlock tick.'
    from (
        select job.lease_expires_at
        from queue.jobs as job
        where job.status = 'running'
        limit 10000
      ) as held
    where held.lease_expires_at < v_now;

  -- Without pg_read_all_stats other users' sessions do not say since when: their age in transactions does.
  return query
    with holding as (
      select
        session.pid,
        session.state,
        session.application_name,
        session.xact_start,
        session.backend_xid is not null as has_written,
        greatest(age(session.backend_xmin), age(session.backend_xid)) as transactions
      from pg_stat_activity as session
      where (session.backend_xmin is not null or session.backend_xid is not null)
        and session.pid <> pg_backend_pid()
        and session.backend_type is distinct from 'autovacuum worker'
    ),
    oldest as (
      select holding.*
      from holding
      order by holding.xact_start nulls last, holding.transactions desc
      limit 1
    )
    select
      'old_snapshots',
      case
        when (select min(holding.xact_start) from holding) < v_now - interval '1 hour' then 'fail'
        when (select min(holding.xact_start) from holding) < v_now - interval '5 minutes'
          or (
            select max(holding.transactions) from holding where holding.xact_start is null
          ) > 1000000
          then 'warn'
        else 'ok'
      end,
      coalesce(
        (
          select
            format(
              'pid %s%s%s holds a transaction %s%s',
              oldest.pid,
              ', ' || oldest.state,
              ', ' || nullif(oldest.application_name, ''),
              coalesce(
                'since ' || date_trunc('second', v_now - oldest.xact_start),
                'of ' || oldest.transactions || ' transactions ago'
              ),
              case when oldest.has_written then ', and has written: floors stand still' end
            )
          from oldest
        ),
        'none'
      ),
      case
        when exists (select from holding where holding.xact_start is null)
          then 'To see since when: grant pg_read_all_stats to queue_owner. '
        else ''
      end
      || 'End it: select pg_terminate_backend(pid). '
        'Set idle_in_transaction_session_timeout on login roles.';

  return query
    select
      'prepared_transactions',
      case when min(prepared.prepared) < v_now - interval '5 minutes' then 'warn' else 'ok' end,
      format('%s prepared, the oldest since %s', count(*), coalesce(min(prepared.prepared)::text, '-')),
      'Commit or roll back what a two-phase client left behind: ROLLBACK PREPARED.'
    from pg_prepared_xacts as prepared;

  return query
    select
      'dead_rows',
      case
        when tables.n_dead_tup > 100000 and tables.n_dead_tup > tables.n_live_tup / 2 then 'warn'
        else 'ok'
      end,
      format(
        '%s dead of %s rows in queue.jobs, last vacuumed %s', tables.n_dead_tup,
        tables.n_live_tup + tables.n_dead_tup,
        coalesce(greatest(tables.last_autovacuum, tables.last_vacuum)::text, 'never')
      ),
      'Autovacuum must be on and not held back by an old snapshot.'
    from pg_stat_all_tables as tables
    where tables.relid = 'queue.jobs'::regclass;

  return query
    select
      'ready_index',
      case
        when sized.bytes > 256 * 1024 * 1024
          and sized.bytes > 500 * greatest(sized.entries, 1)
          and sized.entries >= 0
          then 'warn'
        else 'ok'
      end,
      format(
        '%s for %s entries',
        pg_size_pretty(sized.bytes),
        case when sized.entries < 0 then 'uncounted' else 'about ' || sized.entries::bigint end
      ),
      'reindex index concurrently queue.jobs_ready'
    from (
        select
          pg_relation_size('queue.jobs_ready'::regclass) as bytes,
          index.reltuples as entries
        from pg_class as index
        where index.oid = 'queue.jobs_ready'::regclass
      ) as sized;

  return query
    select
      'event_partitions',
      case
        when coalesce(max(day.ends_at), v_now) < v_now + interval '1 day' then 'fail'
        when max(day.ends_at) < v_now + interval '7 days' then 'warn'
        else 'ok'
      end,
      format('%s days, the last ends %s', count(*), coalesce(max(day.ends_at)::text, 'never')),
      'tick() makes them; see steps. Until then events go to the default partition and are kept.'
    from queue._event_days() as day;

  return query
    select
      'default_partition',
      case when count(*) > 0 then 'warn' else 'ok' end,
      format('%s events in it', case when count(*) > 0 then 'some' else 'no' end),
      'They stay until retention; harmless, but a day was missing when they came.'
    from (select from queue.job_events_default limit 1) as stray;

  return query
    select
      'notify_queue',
      case when pg_notification_queue_usage() > 0.5 then 'warn' else 'ok' end,
      format('%s %% full', round((pg_notification_queue_usage() * 100)::numeric, 1)),
      'A session that listens and stays in a transaction holds it: see old_snapshots.';

  return query
    select
      'cluster',
      case
        when settings.system_identifier = (pg_control_system()).system_identifier then 'ok'
        else 'fail'
      end,
      format('cluster %s', settings.system_identifier),
      'A dump was restored here: run rowlock migrate.'
    from queue.settings as settings;
end;
$$;

comment on function queue.health is 'What an operator should look at, each with what to do';
grant execute on function queue.health to queue_viewer;
