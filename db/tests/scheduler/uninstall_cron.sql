-- requires: pg_cron
begin;
select no_plan();

select is(queue.uninstall_cron(), 0, 'With nothing installed nothing is taken back');

select queue.install_cron();
select cron.schedule('a stranger', '* * * * *', 'select 1');
select cron.schedule('rowlock elsewhere', '* * * * *', 'select 2');
update cron.job set username = 'somebody' where jobname = 'rowlock elsewhere';
insert into cron.job_run_details (jobid, runid, command)
select jobid, row_number() over () + 1000000, jobname from cron.job;

select is(queue.uninstall_cron(), 2, 'It says how many jobs it took back');
select results_eq(
  $$ select jobname::text collate "default" from cron.job order by 1 $$,
  $$ values ('a stranger'), ('rowlock elsewhere') $$,
  'Another''s jobs stay'
);
select results_eq(
  $$ select command from cron.job_run_details order by 1 $$,
  $$ values ('a stranger'), ('rowlock elsewhere') $$,
  'The log of the jobs goes with them'
);
select is(queue.uninstall_cron(), 0, 'Again, there is nothing left');

set local role queue_operator;
select throws_ok($$ select queue.uninstall_cron() $$, '42501', null, 'An operator may not');
reset role;

drop extension pg_cron;
select is(queue.uninstall_cron(), 0, 'Without pg_cron there is nothing to take back');

select * from finish();
rollback;
