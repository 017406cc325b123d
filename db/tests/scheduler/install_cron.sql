-- requires: pg_cron
begin;
select no_plan();

select results_eq(
  $$ select * from queue.install_cron() $$,
  $$ values ('rowlock tick', '* * * * *'), ('rowlock clean-up', '17 3 * * *') $$,
  'The answer says what runs when'
);
select results_eq(
  $$ select jobname::text collate "default", schedule, command, database = current_database(),
       username = current_user, active
     from cron.job order by jobid $$,
  $$
    select planned.job, planned.schedule, planned.command, true, true, true
    from queue._cron_jobs(
      (select extversion from pg_extension where extname = 'pg_cron')
    ) as planned
  $$,
  'pg_cron has it, in this database, as the caller'
);
create temp table before as select * from cron.job;
update cron.job set schedule = '0 0 1 1 *', active = false where jobname = 'rowlock tick';
select lives_ok($$ select queue.install_cron() $$, 'Installing again is fine');
select results_eq(
  $$ select jobname, schedule, command from cron.job order by jobid $$,
  $$ select jobname, schedule, command from before order by jobid $$,
  'and replaces what was there'
);

-- The clean-up's own command.
insert into cron.job_run_details (jobid, runid, command, start_time, end_time)
select
  job.jobid, row_number() over () + 1000000, run.what, now() - run.ago::interval,
  now() - run.ended::interval
from cron.job as job, (
  values ('old', '2 days', '2 days'), ('young', '1 hour', '1 hour'), ('cut short', '2 days', null),
    ('just begun', '1 second', null)
) as run (what, ago, ended)
where job.jobname = 'rowlock tick';
insert into cron.job_run_details (jobid, runid, command, start_time, end_time)
values (-1, 2000000, 'a stranger''s', now() - interval '1 year', now() - interval '1 year');
do $$ begin
  execute (select command from cron.job where jobname = 'rowlock clean-up');
end $$;
select results_eq(
  $$ select command from cron.job_run_details order by command $$,
  $$ values ('a stranger''s'), ('just begun'), ('young') $$,
  'The clean-up deletes runs older than a day, with an end or without, and no other''s'
);

set local role queue_operator;
select throws_ok(
  $$ select queue.install_cron() $$, '42501', null, 'An operator may not install it'
);
set local role queue_admin;
select throws_ok(
  $$ select queue.install_cron() $$, '42501', null,
  'It runs as the caller: an admin needs pg_cron''s own grants'
);
reset role;

drop extension pg_cron;
select throws_ok(
  $$ select queue.install_cron() $$, 'RL503', null, 'Without pg_cron it says what is missing'
);

select * from finish();
rollback;
