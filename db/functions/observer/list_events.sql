-- queue.list_events: the history, a page at a time
--
-- Of one job (of_job): oldest first, from after the cursor, an event id. Of all: newest first, from before the cursor.
-- filter is a JSON object of any of event, queue, kind, worker, actor, each a string; RL400 names an unknown field, or
-- an event that there is none of. max_events from 1 to 1,000. A page looks at 10,000 events at most: where it stops for
-- that, or is full, next_cursor goes on. It is the same on every row, null at the end; a page on which nothing matched
-- is one row with a null id.
create or replace function queue.list_events(
  of_job bigint default null,
  filter jsonb default '{}',
  cursor bigint default null,
  max_events integer default 100
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
  next_cursor bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_names constant text[] := array['event', 'queue', 'kind', 'worker', 'actor'];
  v_filter jsonb := coalesce(list_events.filter, '{}');
begin
  perform queue._check_number('max_events', list_events.max_events, 1, 1000);
  if jsonb_typeof(v_filter) <> 'object' or v_filter - v_names <> '{}' then
    raise exception 'filter % is not known', left(v_filter::text, 200)
      using errcode = 'RL400',
        hint = 'filter is a JSON object with some of ' || array_to_string(v_names, ', ') || '.';
  end if;

  if jsonb_path_exists(v_filter, 'strict $.* ? (@.type() != "string")') then
    raise exception 'filter % is not usable', left(v_filter::text, 200)
      using errcode = 'RL400', hint = 'Fields are strings.';
  end if;

  begin
    perform (v_filter ->> 'event')::queue.event;
  exception
    when check_violation then
      raise exception 'filter: event % is unknown', quote_literal(left(v_filter ->> 'event', 80))
        using errcode = 'RL400',
          hint = 'event is one of ' || (
            select string_agg(known[1], ', ')
            from pg_constraint
              cross join lateral regexp_matches(pg_get_constraintdef(oid), $re$'(\w+)'$re$, 'g') as known
            where contypid = 'queue.event'::regtype
          ) || '.';
  end;

  -- Lazily: a page that is full stops the scan. The last row that it may look at is kept for its id, matching or not.
  return query
    with page as materialized (
      select scan.*
      from (
          (
            select
              item.*,
              queue._event_matches(item, v_filter) as matches,
              row_number() over (order by item.id) as place
            from queue.job_events as item
            where list_events.of_job is not null
              and item.job_id = list_events.of_job
              and item.id > coalesce(list_events.cursor, 0)
            order by item.id
            limit 10000
          )
          union all
          (
            select
              item.*,
              queue._event_matches(item, v_filter),
              row_number() over (order by item.id desc)
            from queue.job_events as item
            where list_events.of_job is null
              and item.id < coalesce(list_events.cursor, 9223372036854775807)
            order by item.id desc
            limit 10000
          )
        ) as scan
      where scan.matches or scan.place = 10000
      limit list_events.max_events
    ),
    next as materialized (
      select page.id
      from page
      where page.place = 10000
        or (select count(*) from page) = list_events.max_events
      order by page.place desc
      limit 1
    )
    select
      page.id, page.at, page.job_id, page.queue, page.kind, page.event::text, page.from_status,
      page.to_status, page.attempt, page.fence, page.elapsed, page.worker, page.actor, page.detail,
      (select next.id from next)
    from (select) as always
      left join page on page.matches
    order by page.place;
end;
$$;

comment on function queue.list_events is 'The history of one job, or of all, a page at a time';
grant execute on function queue.list_events to queue_viewer;
