-- queue.get_settings: the defaults of all queues, as set_settings changes them
create or replace function queue.get_settings()
returns table (name text, value text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select listed.name, to_jsonb(settings) ->> listed.name
    from queue.settings as settings
      cross join unnest(
        array[
          'lease', 'max_attempts', 'backoff_base', 'backoff_cap', 'finished_retention',
          'failed_retention', 'events_retention', 'tick_interval', 'claim_floor'
        ]
      ) with ordinality as listed (name, place)
    order by listed.place;
end;
$$;

comment on function queue.get_settings is 'The defaults of all queues';
grant execute on function queue.get_settings to queue_viewer;
