-- queue.set_settings: the defaults of all queues
--
-- settings is a JSON object of those to change, all or none: lease (1 s to 24 h), max_attempts (1 to 100,000),
-- backoff_base and backoff_cap (1 ms to 30 days, base at most cap), finished_retention, failed_retention and
-- events_retention (1 minute to 10 years), tick_interval (1 s to 1 minute), claim_floor (false: the plain claim, which
-- slows while an old snapshot is held). Returns all settings as they are now, which nobody else changes before this
-- transaction ends. Empty changes nothing: it is for looking before changing. RL400 names the one out of bounds.
create or replace function queue.set_settings(settings jsonb default '{}', reason text default null)
returns table (name text, value text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_names constant text[] := array[
    'lease', 'max_attempts', 'backoff_base', 'backoff_cap', 'finished_retention',
    'failed_retention', 'events_retention', 'tick_interval', 'claim_floor'
  ];
  v_now queue.settings;
  v_setting record;
begin
  perform queue._require_writable();
  if jsonb_typeof(set_settings.settings) is distinct from 'object'
    or set_settings.settings - v_names <> '{}'
  then
    raise exception 'settings % are not known', left(coalesce(set_settings.settings::text, 'null'), 200)
      using errcode = 'RL400',
        hint = 'settings is a JSON object with some of ' || array_to_string(v_names, ', ') || '.';
  end if;

  -- Locked first: what another session has just changed is not to be written back.
  select setting.* into v_now from queue.settings as setting for no key update;

  for v_setting in select given.key, given.value from jsonb_each(set_settings.settings) as given loop
    begin
      if v_setting.value = 'null' then
        raise null_value_not_allowed;
      end if;
      v_now := jsonb_populate_record(v_now, jsonb_build_object(v_setting.key, v_setting.value));
    exception
      when data_exception or check_violation then
        raise exception '% % cannot be read or is out of range', v_setting.key, left(v_setting.value::text, 200)
          using errcode = 'RL400',
            hint = 'max_attempts is a number from 1 to 100,000, claim_floor true or false, the others are intervals '
              'such as "90 seconds"; lease is from 1 second to 24 hours.';
    end;
  end loop;

  perform queue._check_span('backoff_cap', v_now.backoff_cap, '1 millisecond', '30 days');
  perform queue._check_span('backoff_base', v_now.backoff_base, '1 millisecond', v_now.backoff_cap);
  perform queue._check_span('finished_retention', v_now.finished_retention, '1 minute', '10 years');
  perform queue._check_span('failed_retention', v_now.failed_retention, '1 minute', '10 years');
  perform queue._check_span('events_retention', v_now.events_retention, '1 minute', '10 years');
  perform queue._check_span('tick_interval', v_now.tick_interval, '1 second', '1 minute');

  update queue.settings as setting
  set lease = v_now.lease,
      max_attempts = v_now.max_attempts,
      backoff_base = v_now.backoff_base,
      backoff_cap = v_now.backoff_cap,
      finished_retention = v_now.finished_retention,
      failed_retention = v_now.failed_retention,
      events_retention = v_now.events_retention,
      tick_interval = v_now.tick_interval,
      claim_floor = v_now.claim_floor;

  if set_settings.settings <> '{}' then
    update queue.steps as step
    set every = v_now.tick_interval
    where step.step = 'reap';

    perform queue._record_action('set_settings', null, set_settings.reason, set_settings.settings);
  end if;

  return query
    select listed.name, to_jsonb(v_now) ->> listed.name
    from unnest(v_names) as listed (name);
end;
$$;

comment on function queue.set_settings is 'Changes and returns the defaults of all queues';
grant execute on function queue.set_settings to queue_admin;
