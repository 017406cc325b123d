begin;
select no_plan();

-- Leases ------------------------------------------------------------------------------------------

insert into queue.policies (queue, lease) values ('of-policy', '2 min');
select queue_tests.run_one('of-settings');
select queue_tests.run_one('of-policy');
select queue_tests.run_one('of-job', lease => '3 min');
select queue_tests.run_one('timed', lease => '1 h', timeout => '10 min');
update queue.jobs set lease_expires_at = clock_timestamp() where status = 'running';
create temp table events_before as select count(*) from queue_tests.job_events;

select results_eq(
  $$
    select * from queue.renew(array(select id from queue_tests.jobs order by id desc), '{1,1,1,1}')
  $$,
  $$ select id, 1, 'held' from queue_tests.jobs order by id desc $$,
  'Each claim asked about is answered, in the order asked'
);
select results_eq(
  $$
    select kind, date_trunc('minute', lease_expires_at - now()) from queue_tests.jobs
    where kind <> 'timed' order by id
  $$,
  $$ values ('of-settings', interval '1 min'), ('of-policy', '2 min'), ('of-job', '3 min') $$,
  'A lease is renewed by the job''s own, else the policy''s, else that of the settings'
);
select ok(
  (
    select lease_expires_at = deadline_at + interval '10 s'
    from queue_tests.jobs
    where kind = 'timed'
  ),
  'A lease ends 10 s after the deadline at the latest'
);
select results_eq(
  $$ select count(*) from queue_tests.job_events $$,
  $$ select * from events_before $$,
  'A renewal writes no event'
);

update queue.settings set lease = '7 min';
update queue.policies set lease = '8 min';
select * from queue.renew(array(select id from queue_tests.jobs order by id), '{1,1,1,1}');
select results_eq(
  $$
    select kind, date_trunc('minute', lease_expires_at - now()) from queue_tests.jobs
    where kind <> 'timed' order by id
  $$,
  $$ values ('of-settings', interval '7 min'), ('of-policy', '8 min'), ('of-job', '3 min') $$,
  'A new lease in settings or policy holds from the next renewal'
);

select queue_tests.expire_lease(queue_tests.job_id('of-job'));
select results_eq(
  $$ select verdict from queue.renew(array[queue_tests.job_id('of-job')], '{1}') $$,
  $$ values ('held') $$,
  'A claim past its lease is renewed, as long as the reaper has not taken it'
);
select ok(
  (select lease_expires_at > clock_timestamp() from queue_tests.jobs where kind = 'of-job'),
  'Then the reaper has no reason any more'
);
select results_eq(
  $$ select verdict from queue.renew(array_fill(queue_tests.job_id('of-job'), '{3}'), '{1,1,2}') $$,
  $$ values ('held'), ('held'), ('lost') $$,
  'A claim named twice is answered twice'
);

-- stop and lost -----------------------------------------------------------------------------------

select queue.cancel(queue_tests.job_id('of-job'));
select queue_tests.age(queue_tests.job_id('timed'), '10 min 5 s');
select queue.complete(queue_tests.job_id('of-policy'), 1);
select results_eq(
  $$
    select job.kind, answer.fence, answer.verdict
    from queue.renew(
      array[
        queue_tests.job_id('of-job'), queue_tests.job_id('timed'), queue_tests.job_id('of-policy'),
        queue_tests.job_id('of-settings'), -1
      ],
      '{1,1,1,2,1}'
    ) with ordinality as answer left join queue_tests.jobs as job on job.id = answer.job_id
    order by answer.ordinality
  $$,
  $$
    values ('of-job', 1, 'stop'), ('timed', 1, 'stop'), ('of-policy', 1, 'lost'),
      ('of-settings', 2, 'lost'),
      (null, 1, 'lost')
  $$,
  'stop once a cancel was requested or the timeout has passed; lost when settled, stale or unknown'
);
select ok(
  (select lease_expires_at > clock_timestamp() from queue_tests.jobs where kind = 'of-job'),
  'A claim that is told to stop keeps its lease while it does'
);
select ok(
  (
    select lease_expires_at = deadline_at + interval '10 s'
    from queue_tests.jobs
    where kind = 'timed'
  ),
  'Past its timeout a renewal no longer moves the end of the lease'
);

create temp table before as
select lease_expires_at from queue_tests.jobs where kind = 'of-settings';
select * from queue.renew(array[queue_tests.job_id('of-settings')], '{2}');
select results_eq(
  $$ select lease_expires_at from queue_tests.jobs where kind = 'of-settings' $$,
  $$ select * from before $$,
  'A stale token prolongs nobody''s lease'
);

select queue_tests.expire_lease(queue_tests.job_id('of-settings'));
select * from queue.reap();
select results_eq(
  $$ select verdict from queue.renew(array[queue_tests.job_id('of-settings')], '{1}') $$,
  $$ values ('lost') $$,
  'What the reaper has taken is lost for good'
);

-- Bounds ------------------------------------------------------------------------------------------

select is_empty($$ select * from queue.renew('{}', '{}') $$, 'No claims, no answers');
select throws_ok(format('select * from queue.renew(%s)', args), 'RL400', null, rule)
from (
  values
    ($$'{1,2}', '{1}'$$, 'There is a fence for each job'),
    ($$null, null$$, 'Arrays are not null'),
    ($$'{1}', null$$, 'Neither of them'),
    ($$'{1,null}', '{1,1}'$$, 'No job is null'),
    ($$'{1,1}', '{1,null}'$$, 'No fence is null'),
    ($$'{{1},{2}}', '{{1},{1}}'$$, 'An array has one dimension'),
    ($$array_fill(1::bigint, '{1001}'), array_fill(1, '{1001}')$$, 'A batch is at most 1,000')
) as wrong (args, rule);
select results_eq(
  $$ select count(*) from queue.renew(array_fill(1::bigint, '{1000}'), array_fill(1, '{1000}')) $$,
  $$ values (1000::bigint) $$,
  'A batch of 1,000 is taken'
);

set transaction read only;
select throws_ok(
  $$ select * from queue.renew('{1}', '{1}') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
