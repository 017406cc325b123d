-- queue._event_matches: does an event match a filter of list_events
create or replace function queue._event_matches(p_event queue.job_events, p_filter jsonb)
returns boolean
language sql
immutable
as $$
  select (p_filter ->> 'event' is null or p_event.event = p_filter ->> 'event')
    and (p_filter ->> 'queue' is null or p_event.queue = p_filter ->> 'queue')
    and (p_filter ->> 'kind' is null or p_event.kind = p_filter ->> 'kind')
    and (p_filter ->> 'worker' is null or p_event.worker = p_filter ->> 'worker')
    and (p_filter ->> 'actor' is null or p_event.actor = p_filter ->> 'actor');
$$;

comment on function queue._event_matches is 'Does an event match a filter of list_events';
