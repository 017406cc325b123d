-- queue.get_policy: what differs for a queue from the settings, as set_policy changes it; null where the settings hold
create or replace function queue.get_policy(queue text)
returns table (name text, value text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform queue._check_name('queue', get_policy.queue);

  return query
    select listed.name, to_jsonb(policy) ->> listed.name
    from unnest(
        array[
          'lease', 'timeout', 'max_attempts', 'backoff_base', 'backoff_cap', 'finished_retention',
          'failed_retention'
        ]
      ) with ordinality as listed (name, place)
      left join queue.policies as policy on policy.queue = get_policy.queue
    order by listed.place;
end;
$$;

comment on function queue.get_policy is 'What differs for a queue from the settings';
grant execute on function queue.get_policy to queue_viewer;
