begin;
select no_plan();

create temp table jobs as select * from queue_tests.one_of_each();
select is(
  (select to_jsonb(queue._lock_job(job_id, 'poke', array['queued', status]))),
  (select to_jsonb(job) from queue.jobs as job where job.id = job_id),
  'A ' || status || ' job that may be is locked and comes whole'
)
from jobs;
select throws_ok(
  format('select queue._lock_job(%s, %L, %L)', job_id, 'poke', '{nothing}'), 'RL409',
  'job ' || job_id || ' is ' || status,
  'RL409 says what it is: ' || status
)
from jobs;
select throws_ok(
  $$ select queue._lock_job(-1, 'poke', '{queued}') $$, 'RL404', 'there is no job -1',
  'A job that is not there is RL404'
);
select throws_ok(
  $$ select queue._lock_job(null, 'poke', '{queued}') $$, 'RL404', 'there is no job null',
  'and so is none'
);
set local transaction read only;
select throws_ok(
  $$ select queue._lock_job(-1, 'poke', '{queued}') $$, 'RL503', null,
  'What can only read is told first'
);

select * from finish();
rollback;
