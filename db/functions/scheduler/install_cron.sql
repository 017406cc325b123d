-- queue.install_cron: pg_cron ticks, and clears its own log
--
-- With pg_cron 1.5 or later it calls tick_loop every 5 seconds; before, every minute, for that long. The jobs' run
-- details older than a day are deleted daily. Runs as the caller, who must be allowed to tick; RL503 names what is
-- missing. Installing again replaces what was installed.
create or replace function queue.install_cron()
returns table (job text, schedule text)
language plpgsql
as $$
declare
  v_version text := (select extversion from pg_extension where extname = 'pg_cron');
  v_job record;
begin
  if v_version is null then
    raise exception 'pg_cron is not installed in this database'
      using errcode = 'RL503',
        hint = 'Add pg_cron to shared_preload_libraries, set cron.database_name, and create extension '
          'pg_cron; or let workers tick.';
  end if;

  for v_job in
    select planned.* from queue._cron_jobs(v_version) as planned
  loop
    execute 'select cron.schedule($1, $2, $3)' using v_job.job, v_job.schedule, v_job.command;
    job := v_job.job;
    schedule := v_job.schedule;
    return next;
  end loop;
end;
$$;

comment on function queue.install_cron is 'pg_cron ticks, and clears its own log';
grant execute on function queue.install_cron to queue_admin;
