-- queue.list_events: the history, a page at a time
--
-- Of one job (of_job): oldest first, from after the cursor, an event id. Of all: newest first, from before the cursor, by a filter: a JSON
-- object of any of event, queue, kind, worker, actor; a page looks at 10,000 events at most. max_events from 1 to 1,000.
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
  detail jsonb
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
  v_names constant text[] := array['event', 'queue', 'kind', 'worker', 'actor'];
  v_filter jsonb := coalesce(list_events.filter, '{}');
begin
  perform queue._check_number('max_events', list_events.max_events, 1, 1000);
  if jsonb_typeof(v_filter) <> 'object' or v_filter - v_names <> '{}' then
    raise exception 'filter % is not known', left(v_filter::text, 200)
      using errcode = 'RL400',
        hint = 'filter is a JSON object with some of ' || array_to_string(v_names, ', ') || '.';
  end if;

  if list_events.of_job is not null then
    return query
      select
        item.id, item.at, item.job_id, item.queue, item.kind, item.event::text, item.from_status,
        item.to_status, item.attempt, item.fence, item.elapsed, item.worker, item.actor, item.detail
      from queue.job_events as item
      where item.job_id = list_events.of_job
        and item.id > coalesce(list_events.cursor, 0)
        and queue._event_matches(item, v_filter)
      order by item.id
      limit list_events.max_events;
  else
    return query
      select
        item.id, item.at, item.job_id, item.queue, item.kind, item.event::text, item.from_status,
        item.to_status, item.attempt, item.fence, item.elapsed, item.worker, item.actor, item.detail
      from (
          select recent.*
          from queue.job_events as recent
          where recent.id < coalesce(list_events.cursor, 9223372036854775807)
          order by recent.id desc
          limit 10000
        ) as item
      where queue._event_matches(item::queue.job_events, v_filter)
      order by item.id desc
      limit list_events.max_events;
  end if;
end;
$$;

comment on function queue.list_events is 'The history of one job, or of all, a page at a time';
grant execute on function queue.list_events to queue_viewer;
