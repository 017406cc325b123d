-- queue._snapshot: the current snapshot, in which the caller's own transaction counts as still open
--
-- What a follower writes in the transaction that reads a page comes with a later page.
create or replace function queue._snapshot()
returns pg_snapshot
language sql
stable
as $$
  select case
    when own.xid >= pg_snapshot_xmax(taken.snapshot) or own.xid is null then taken.snapshot
    else (
      select
        format(
          '%s:%s:%s',
          least(own.xid, pg_snapshot_xmin(taken.snapshot)),
          pg_snapshot_xmax(taken.snapshot),
          string_agg(open.xid::text, ',' order by open.xid)
        )::pg_snapshot
      from (
          select pg_snapshot_xip(taken.snapshot) as xid
          union
          select own.xid
        ) as open
    )
  end
  from (select pg_current_snapshot() as snapshot) as taken
    cross join (select pg_current_xact_id_if_assigned() as xid) as own;
$$;

comment on function queue._snapshot is 'The current snapshot, the own transaction counted as open';
