-- queue.list_kinds: what became of each kind of job since an instant (a day ago by default), the most started first
--
-- Counted from the rollups, by the hour, which are kept for 92 days: since is taken back to its whole hour. failed are
-- jobs that failed for good, retried attempts that failed with others left, expired lost leases. mean_wait and mean_run
-- are of attempts that were claimed, and of those that succeeded or failed; null where there was none. queue narrows to
-- one; max_kinds from 1 to 1,000.
create or replace function queue.list_kinds(
  queue text default null,
  since timestamptz default null,
  max_kinds integer default 100
)
returns table (
  kind text,
  enqueued bigint,
  started bigint,
  succeeded bigint,
  failed bigint,
  retried bigint,
  expired bigint,
  mean_wait interval,
  mean_run interval
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_since timestamptz := coalesce(list_kinds.since, v_now - interval '1 day');
begin
  perform queue._check_number('max_kinds', list_kinds.max_kinds, 1, 1000);
  if not isfinite(v_since) or v_since > v_now + interval '10 years' then
    raise exception 'since % is out of range', v_since
      using errcode = 'RL400', hint = 'since is an instant, at most 10 years ahead; hours are kept for 92 days.';
  end if;
  v_since := date_trunc('hour', greatest(v_since, v_now - interval '92 days'), 'UTC');

  return query
    with counted as (
      select
        rollup.kind,
        rollup.event,
        rollup.from_status,
        rollup.to_status,
        sum(rollup.events) as events,
        sum(rollup.events) filter (where rollup.buckets is not null) as timed,
        sum(rollup.elapsed_seconds) as seconds
      from (
          select of_one.*
          from queue._counters('hour', v_since, v_now, list_kinds.queue, null) as of_one
          where list_kinds.queue is not null
          union all
          select of_any.*
          from queue.rollups as of_any
          where list_kinds.queue is null
            and of_any.grain = 'hour'
            and of_any.at >= v_since
        ) as rollup
      group by 1, 2, 3, 4
    ),
    by_kind as (
      select
        counted.kind,
        sum(counted.events) filter (where counted.event = 'enqueued') as enqueued,
        sum(counted.events) filter (where counted.event = 'claimed') as started,
        sum(counted.events) filter (where counted.event = 'succeeded') as succeeded,
        sum(counted.events)
          filter (where counted.to_status = 'failed' and counted.from_status = 'running')
          as failed,
        sum(counted.events) filter (where counted.event = 'retry_scheduled') as retried,
        sum(counted.events) filter (where counted.event in ('lease_expired', 'timed_out')) as expired,
        sum(counted.seconds) filter (where counted.event = 'claimed')
          / sum(counted.timed) filter (where counted.event = 'claimed') as wait,
        sum(counted.seconds)
          filter (where counted.event in ('succeeded', 'failed', 'retry_scheduled'))
          / sum(counted.timed)
          filter (where counted.event in ('succeeded', 'failed', 'retry_scheduled')) as run
      from counted
      group by counted.kind
    )
    select
      by_kind.kind,
      coalesce(by_kind.enqueued, 0)::bigint,
      coalesce(by_kind.started, 0)::bigint,
      coalesce(by_kind.succeeded, 0)::bigint,
      coalesce(by_kind.failed, 0)::bigint,
      coalesce(by_kind.retried, 0)::bigint,
      coalesce(by_kind.expired, 0)::bigint,
      make_interval(secs => by_kind.wait),
      make_interval(secs => by_kind.run)
    from by_kind
    order by coalesce(by_kind.started, 0) desc, coalesce(by_kind.enqueued, 0) desc, by_kind.kind
    limit list_kinds.max_kinds;
end;
$$;

comment on function queue.list_kinds is 'What became of each kind of job since an instant';
grant execute on function queue.list_kinds to queue_viewer;
