-- queue.rotate_events: makes the next 14 days' partitions of the events and drops those past retention
--
-- Never waits for more than 100 ms: what others hold is left for the next call. A day that the default partition
-- already has events of stays there. note says what was left, and why.
create or replace function queue.rotate_events()
returns table (created integer, dropped integer, note text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_today date := (clock_timestamp() at time zone 'utc')::date;
  v_lock_timeout text := current_setting('lock_timeout');
  v_oldest timestamptz;
  v_day date;
  v_name text;
  v_notes text[] := array[]::text[];
begin
  perform queue._require_writable();
  perform set_config('lock_timeout', '100ms', true);
  created := 0;
  dropped := 0;

  select clock_timestamp() - settings.events_retention into v_oldest
  from queue.settings as settings;

  for v_day in
    select v_today + ahead from generate_series(0, 14) as ahead
    except
    select to_date(right(part.name, 8), 'YYYYMMDD') from queue._event_days() as part
    order by 1
  loop
    v_name := 'job_events_' || to_char(v_day, 'YYYYMMDD');
    begin
      -- Made aside and attached: creating it in place would lock the parent against every insert.
      execute format(
        'create table queue.%I (like queue.job_events including defaults including constraints)',
        v_name
      );
      execute format(
        'alter table queue.job_events attach partition queue.%I for values from (%L) to (%L)',
        v_name,
        to_char(v_day, 'YYYY-MM-DD') || ' 00:00:00+00',
        to_char(v_day + 1, 'YYYY-MM-DD') || ' 00:00:00+00'
      );
      created := created + 1;
    exception
      when check_violation then
        v_notes := v_notes || format('%s stays in the default partition', v_day);
      when lock_not_available then
        v_notes := v_notes || format('%s could not be attached: the table is in use', v_day);
    end;
  end loop;

  for v_name in
    select part.name from queue._event_days() as part where part.ends_at <= v_oldest
  loop
    begin
      execute format('drop table queue.%I', v_name);
      dropped := dropped + 1;
    exception
      when lock_not_available then
        v_notes := v_notes || format('%s could not be dropped: the table is in use', v_name);
    end;
  end loop;

  delete from queue.job_events_default as event
  where event.at < v_oldest;

  note := nullif(array_to_string(v_notes, '; '), '');
  perform set_config('lock_timeout', v_lock_timeout, true);
  return next;
end;
$$;

comment on function queue.rotate_events is 'Makes the coming days'' event partitions, drops those past retention';
grant execute on function queue.rotate_events to queue_admin;
