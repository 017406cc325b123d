-- queue._cron_jobs: what pg_cron of a version should run, and when
--
-- tick_loop, whatever the interval: it does all that is due and commits each step.
create or replace function queue._cron_jobs(p_version text)
returns table (job text, schedule text, command text)
language sql
immutable
as $$
  select
    'rowlock tick',
    case when later.has_seconds then '5 seconds' else '* * * * *' end,
    case
      when later.has_seconds then 'call queue.tick_loop(4)'
      else 'call queue.tick_loop(58)'
    end
  from (
    select string_to_array(substring(p_version from '^[0-9]+\.[0-9]+'), '.')::integer[] >= '{1,5}'
  ) as later (has_seconds)
  union all
  select
    'rowlock clean-up',
    '17 3 * * *',
    -- A run that the server's end cut short has no end.
    'delete from cron.job_run_details as run '
      'where coalesce(run.end_time, run.start_time) < now() - interval ''1 day'' '
      'and exists (select from cron.job where job.jobid = run.jobid and job.jobname like ''rowlock %'')';
$$;

comment on function queue._cron_jobs is 'What pg_cron of a version should run';
grant execute on function queue._cron_jobs to queue_admin;
