-- queue.rotate_events: makes the next 14 days' partitions of the events and drops those past retention
--
-- Never waits for more than 100 ms at a time, nor keeps writers of events waiting longer: what others hold is left for
-- the next call. A day that the default partition already has events of stays there. note says what was left, and why.
create or replace function queue.rotate_events()
returns table (created integer, dropped integer, note text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
  v_today date := (clock_timestamp() at time zone 'utc')::date;
  v_oldest timestamptz;
  v_day date;
  v_name text;
  v_old_days text[] := array[]::text[];
  v_notes text[] := array[]::text[];
begin
  perform queue._require_writable();
  created := 0;
  dropped := 0;

  select clock_timestamp() - settings.events_retention into v_oldest
  from queue.settings as settings;

  begin
    delete from queue.job_events_default as event
    where event.ctid = any (
        array(
          select old.ctid
          from queue.job_events_default as old
          where old.at < v_oldest
          limit 10000
        )
      );
  exception
    when lock_not_available then
      v_notes := v_notes || text 'the default partition could not be cleared: it is in use';
  end;

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
        v_notes := v_notes || format('%s could not be attached: the events are in use', v_day);
        exit;
      when duplicate_table or unique_violation then
        v_notes := v_notes || format('%s could not be made: a table of that name is there', v_name);
    end;
  end loop;

  -- A drop locks the parent against every insert until commit: so it comes last, and after all waiting for the days.
  begin
    for v_name in
      select part.name from queue._event_days() as part where part.ends_at <= v_oldest order by 1
    loop
      begin
        execute format('lock table queue.%I in access exclusive mode', v_name);
        v_old_days := v_old_days || v_name;
      exception
        when lock_not_available or undefined_table then
          v_notes := v_notes || format('%s could not be dropped: it is in use', v_name);
          exit;
      end;
    end loop;

    foreach v_name in array v_old_days loop
      execute format('drop table queue.%I', v_name);
    end loop;
    dropped := cardinality(v_old_days);
  exception
    when lock_not_available then
      v_notes := v_notes || format(
        '%s days could not be dropped: the events are in use', cardinality(v_old_days)
      );
  end;

  note := nullif(array_to_string(v_notes, '; '), '');
  return next;
end;
$$;

comment on function queue.rotate_events is 'Makes the coming days'' event partitions, drops those past retention';
grant execute on function queue.rotate_events to queue_admin;
