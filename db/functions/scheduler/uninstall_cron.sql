-- queue.uninstall_cron: takes back what install_cron installed, with the log of its runs; returns how many jobs that
-- were
create or replace function queue.uninstall_cron()
returns integer
language plpgsql
as $$
declare
  v_removed integer := 0;
begin
  if exists (select from pg_extension where extname = 'pg_cron') then
    execute
      'delete from cron.job_run_details where jobid in ('
      'select jobid from cron.job where jobname like ''rowlock %'' and username = current_user)';
    execute
      'select count(cron.unschedule(jobname)) from cron.job '
      'where jobname like ''rowlock %'' and username = current_user'
    into v_removed;
  end if;

  return v_removed;
end;
$$;

comment on function queue.uninstall_cron is 'Takes back what install_cron installed';
grant execute on function queue.uninstall_cron to queue_admin;
