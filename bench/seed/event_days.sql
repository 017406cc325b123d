-- The migration makes partitions from yesterday on.
do $$
declare
  v_day date;
begin
  for v_day in
    select (now() at time zone 'utc')::date + day from generate_series(-9, -2) as day
  loop
    execute format(
      'create table queue.%I partition of queue.job_events for values from (%L) to (%L)',
      'job_events_' || to_char(v_day, 'YYYYMMDD'),
      to_char(v_day, 'YYYY-MM-DD') || ' 00:00:00+00',
      to_char(v_day + 1, 'YYYY-MM-DD') || ' 00:00:00+00'
    );
  end loop;
end;
$$;
