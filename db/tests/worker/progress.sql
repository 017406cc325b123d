begin;
select no_plan();

select queue_tests.run_one('long', lease => '90 s');
create temp table before as select lease_expires_at from queue_tests.jobs where kind = 'long';

select is(
  queue.progress(queue_tests.job_id('long'), 1, 40, 'page 4 of 10'),
  'held',
  'The holder of a claim is told that it is held'
);
select results_eq(
  $$
    select status, progress::integer, progress_message from queue_tests.jobs where kind = 'long'
  $$,
  $$ values ('running', 40, 'page 4 of 10') $$,
  'Percent and message are on the row'
);
select results_eq(
  $$ select * from queue_tests.events(queue_tests.job_id('long')) offset 2 $$,
  $$
    values ('progressed', 'running', 'running', 1, 1, 'tester',
      '{"progress": 40, "progress_message": "page 4 of 10"}'::jsonb)
  $$,
  'Every progress is an event'
);
select is(
  (select lease_expires_at from queue_tests.jobs where kind = 'long'),
  (select lease_expires_at from before),
  'Progress does not renew the lease'
);

select queue.progress(queue_tests.job_id('long'), 1, message => 'page 5 of 10');
select queue.progress(queue_tests.job_id('long'), 1, 50);
select results_eq(
  $$ select progress::integer, progress_message from queue_tests.jobs where kind = 'long' $$,
  $$ values (50, 'page 5 of 10') $$,
  'Null leaves percent or message as it was'
);
select lives_ok(
  $$
    select
      queue.progress(queue_tests.job_id('long'), 1, 0),
      queue.progress(queue_tests.job_id('long'), 1, 100)
  $$,
  '0 and 100 percent are taken, in any order'
);
select throws_ok(
  $$ select queue.progress(queue_tests.job_id('long'), 1, -1) $$, 'RL400', null,
  'Percent is not negative'
);
select throws_ok(
  $$ select queue.progress(queue_tests.job_id('long'), 1, 101) $$, 'RL400', null,
  'Percent is at most 100'
);

select is(
  queue.progress(queue_tests.job_id('long'), 1, message => repeat('ü', 1000000) || E'\x01😀'),
  'held',
  'A message may be of any length'
);
select is(
  (select octet_length(progress_message) from queue_tests.jobs where kind = 'long'),
  999,
  'It is cut at 1,000 bytes, whole characters'
);

-- stop and lost -----------------------------------------------------------------------------------

select queue_tests.run_one('late', timeout => '10 s');
select queue_tests.age(queue_tests.job_id('late'), '11 s');
select is(
  queue.progress(queue_tests.job_id('late'), 1, 10),
  'stop',
  'Past its timeout a claim is told to stop'
);
select queue.cancel(queue_tests.job_id('long'));
select is(
  queue.progress(queue_tests.job_id('long'), 1, 60),
  'stop',
  'Once a cancel was requested a claim is told to stop'
);
select results_eq(
  $$ select progress::integer from queue_tests.jobs where kind in ('late', 'long') order by kind $$,
  $$ values (10), (60) $$,
  'What it did is recorded all the same'
);

select queue.accept_cancel(queue_tests.job_id('long'), 1);
create temp table finished as
select queue_tests.everything(queue_tests.job_id('long')) as everything;
select is(
  queue.progress(job, fence, 70),
  'lost',
  rule
)
from (
  values
    (queue_tests.job_id('long'), 1, 'A settled claim is lost'),
    (queue_tests.job_id('long'), 2, 'A fence never given is lost'),
    (queue_tests.job_id('late'), 0, 'An older fence is lost'),
    (queue_tests.job_id('late'), null, 'No fence is lost'),
    (-1, 1, 'An unknown job is lost'),
    (null, 1, 'No job is lost')
) as lost (job, fence, rule);
select is(
  queue_tests.everything(queue_tests.job_id('long')),
  (select everything from finished),
  'A lost claim changes nothing and writes no event'
);

set transaction read only;
select throws_ok(
  $$ select queue.progress(queue_tests.job_id('late'), 1, 1) $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
