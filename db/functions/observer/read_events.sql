-- queue.read_events: every event exactly once, for followers
--
-- The first call, with a null cursor, answers where now is; cursor start begins at the oldest event kept. Each call
-- returns what has committed since its cursor, whatever the order of commits, and never waits for an open transaction:
-- what that one writes comes when it has committed. next_cursor, the same on every row, is to be stored with what was
-- made of the page; a page with nothing new is one row with a null id. max_events from 1 to 10,000. A cursor from
-- before a dump was restored into this cluster is RL409, one that is none RL400. On a standby RL503: what is open there
-- a standby's snapshot does not tell.
--
-- A cursor is a snapshot: what a later one sees and it does not is new. Inside such a window, read in the order of
-- transaction and event, it also says how far it came: cluster/old snapshot/new snapshot/transaction/event.
create or replace function queue.read_events(
  cursor text default null,
  max_events integer default 1000
)
returns table (
  id bigint,
  at timestamptz,
  job_id bigint,
  queue text,
  kind text,
  event text,
  from_status text,
  to_status text,
  attempt integer,
  fence integer,
  elapsed interval,
  worker text,
  actor text,
  detail jsonb,
  next_cursor text
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
  v_cluster text := (pg_control_system()).system_identifier::text;
  v_settings queue.settings;
  v_parts text[];
  v_old pg_snapshot;
  v_new pg_snapshot;
  v_now pg_snapshot;
  v_last pg_snapshot;
  v_xid xid8 := xid8 '0';
  v_id bigint := 0::bigint;
  v_open xid8[];
begin
  perform queue._check_number('max_events', read_events.max_events, 1, 10000);

  if pg_is_in_recovery() then
    raise exception 'this server is a standby'
      using errcode = 'RL503', hint = 'Connect to the primary server and ask again.';
  end if;

  v_now := queue._snapshot();
  select settings.* into v_settings from queue.settings as settings;
  if v_settings.system_identifier::text <> v_cluster then
    raise exception 'this database was restored into another cluster'
      using errcode = 'RL503', hint = 'Run rowlock migrate, or let a worker tick, and ask again.';
  end if;

  if read_events.cursor is null then
    next_cursor := concat_ws('/', v_cluster, v_now);
    return next;
    return;
  end if;

  begin
    v_parts := string_to_array(
      case read_events.cursor
        when 'start' then concat_ws('/', v_cluster, '3:3:', v_now, '0', '0')
        else read_events.cursor
      end,
      '/'
    );
    v_old := v_parts[2]::pg_snapshot;
    v_new := coalesce(v_parts[3]::pg_snapshot, v_now);
    v_xid := coalesce(v_parts[4]::xid8, '0');
    v_id := coalesce(v_parts[5]::bigint, 0);
  exception
    when data_exception then
      v_old := null;
  end;

  if v_old is null then
    raise exception 'cursor % is none', quote_literal(left(read_events.cursor, 80))
      using errcode = 'RL400', hint = 'Pass next_cursor as it came, null for now, or start.';
  end if;

  if v_parts[1] <> v_cluster then
    raise exception 'the cursor belongs to another cluster'
      using errcode = 'RL409',
        hint = 'The database was restored from a dump: begin again with cursor start, or null for now.';
  end if;

  -- A transaction that looks at a time before its cursor's, repeatable reads, gets nothing and stays there.
  v_last := coalesce(v_parts[3]::pg_snapshot, v_old);
  if pg_snapshot_xmax(v_now) < pg_snapshot_xmax(v_last)
    or exists (
      select from pg_snapshot_xip(v_now) as open (xid) where pg_visible_in_snapshot(open.xid, v_last)
    )
  then
    next_cursor := read_events.cursor;
    return next;
    return;
  end if;

  v_open := array(select pg_snapshot_xip(v_old));

  return query
    with page as materialized (
      select item.*
      from (
          (
            -- Came with the dump, read once, before everything: transaction 0.
            select adopted.*, '0'::xid8 as sort_xid
            from queue.job_events as adopted
            where v_old::text = '3:3:'
              and v_xid = '0'::xid8
              and adopted.id > v_id
              and adopted.id <= v_settings.adopted_event_id
            order by adopted.id
            limit read_events.max_events
          )
          union all
          (
            select late.*, late.xid
            from queue.job_events as late
            where late.xid = any (v_open)
              and late.id > v_settings.adopted_event_id
              and (late.xid, late.id) > (v_xid, v_id)
              and pg_visible_in_snapshot(late.xid, v_new)
            order by late.xid, late.id
            limit read_events.max_events
          )
          union all
          (
            select later.*, later.xid
            from queue.job_events as later
            where later.xid >= greatest(pg_snapshot_xmax(v_old), v_xid)
              and later.xid < pg_snapshot_xmax(v_new)
              and later.id > v_settings.adopted_event_id
              and (later.xid, later.id) > (v_xid, v_id)
              and pg_visible_in_snapshot(later.xid, v_new)
            order by later.xid, later.id
            limit read_events.max_events
          )
        ) as item
      order by item.sort_xid, item.id
      limit read_events.max_events
    ),
    mark as (
      select
        case
          when (select count(*) from page) < read_events.max_events
            then concat_ws('/', v_cluster, v_new)
          else (
            select concat_ws('/', v_cluster, v_old, v_new, page.sort_xid, page.id)
            from page
            order by page.sort_xid desc, page.id desc
            limit 1
          )
        end as next_cursor
    )
    select
      page.id, page.at, page.job_id, page.queue, page.kind, page.event::text, page.from_status,
      page.to_status, page.attempt, page.fence, page.elapsed, page.worker, page.actor, page.detail,
      mark.next_cursor
    from mark
      left join page on true
    where page.id is not null
      or v_parts[3] is null
    order by page.sort_xid, page.id;

  -- The window had ended with the page before: on to what came since.
  if not found then
    return query
      select since.*
      from queue.read_events(concat_ws('/', v_cluster, v_new), read_events.max_events) as since;
  end if;
end;
$$;

comment on function queue.read_events is 'Every event exactly once, for followers';
grant execute on function queue.read_events to queue_viewer;
