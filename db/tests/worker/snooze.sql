begin;
select no_plan();

select queue_tests.run_one('later', max_attempts => 1);
create temp table answers as
select * from queue.snooze(queue_tests.job_id('later'), 1, '2 hours', 'the shop is closed');

select results_eq(
  $$ select * from answers $$,
  $$ select id, 'queued', 0, available_at from queue_tests.jobs where kind = 'later' $$,
  'A snoozed job is queued with its attempt given back, and the answer says when it is due'
);
select results_eq(
  $$
    select status, attempt, fence, settled_fence, settled_as, error_type,
      num_nulls(worker, lease_expires_at, deadline_at, finished_at),
      available_at between now() + interval '2 h' and clock_timestamp() + interval '2 h'
    from queue_tests.jobs where kind = 'later'
  $$,
  $$ values ('queued', 0, 1, 1, 'snooze', null::text, 4, true) $$,
  'It is due after the delay, has no error, and its fence is not given back'
);
select results_eq(
  $$
    select item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker,
      item.detail ->> 'reason', (item.detail ->> 'available_at')::timestamptz = job.available_at
    from queue_tests.jobs as job, queue_tests.events(job.id) as item
    where job.kind = 'later' offset 2
  $$,
  $$ values ('snoozed', 'running', 'queued', 0, 1, 'tester', 'the shop is closed', true) $$,
  'The event says why and until when'
);

select results_eq(
  $$ select * from queue.snooze(queue_tests.job_id('later'), 1, '1 s') $$,
  $$ select * from answers $$,
  'Asked again with the same token, the first answer comes back, whatever the delay'
);
select throws_ok(
  $$ select queue.release(queue_tests.job_id('later'), 1) $$, 'RL409', null,
  'Another verb for a fence already settled is RL409'
);
select queue_tests.age(queue_tests.job_id('later'), '3 hours');
select queue_tests.claim_one('later');
select throws_ok(
  $$ select queue.snooze(queue_tests.job_id('later'), 3, '1 s') $$, 'RL409', null,
  'A fence never given is lost'
);
select is(
  queue_tests.last_event(queue_tests.job_id('later')),
  'claimed queued -> running, attempt 1, fence 2',
  'A job with one attempt can be snoozed and claimed again, under the next fence'
);

select throws_ok(
  format('select queue.snooze(queue_tests.job_id(%L), 2, %s)', 'later', delay), 'RL400', null, rule
)
from (
  values
    ('null', 'A delay must be given'),
    ($$'-1 s'$$, 'A delay is not negative'),
    ($$'11 years'$$, 'A delay is at most 10 years')
) as wrong (delay, rule);
select is(
  queue_tests.last_event(queue_tests.job_id('later')),
  'claimed queued -> running, attempt 1, fence 2',
  'A refused snooze leaves the claim as it is'
);

select queue.snooze(queue_tests.job_id('later'), 2, '0', repeat('ü', 1000));
select is(
  (select octet_length(detail ->> 'reason') from queue_tests.events(queue_tests.job_id('later'))
   order by fence desc, event desc limit 1),
  999,
  'A reason is cut at 1,000 bytes'
);
select isnt(queue_tests.claim_one('later'), null, 'A delay of zero makes the job due at once');

select queue.cancel(queue_tests.job_id('later'));
select results_eq(
  $$ select status, attempt from queue.snooze(queue_tests.job_id('later'), 3, '1 s') $$,
  $$ values ('cancelled', 1) $$,
  'Once a cancel was requested a snooze cancels the job'
);
select is(
  queue_tests.last_event(queue_tests.job_id('later')),
  'cancelled running -> cancelled, attempt 1, fence 3',
  'The event is cancelled'
);
select throws_ok($$ select queue.snooze(-1, 1, '1 s') $$, 'RL404', null, 'An unknown job is RL404');

select queue_tests.run_one('read-only');
set transaction read only;
select throws_ok(
  $$ select queue.snooze(queue_tests.job_id('read-only'), 1, '1 s') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
