begin;
select no_plan();

create temp table answers as
select *
from queue.set_policy(
  'slow', lease => '5 min', timeout => '1 hour', max_attempts => 3, backoff_base => '1 s',
  backoff_cap => '10 s', finished_retention => '1 day', failed_retention => '2 days',
  reason => 'films are long'
);
select results_eq(
  $$ select * from answers $$,
  $$
    values ('lease', '00:05:00'), ('timeout', '01:00:00'), ('max_attempts', '3'),
      ('backoff_base', '00:00:01'), ('backoff_cap', '00:00:10'),
      ('finished_retention', '1 day'), ('failed_retention', '2 days')
  $$,
  'The answer is the policy as it is now, a row a name'
);
select results_eq(
  $$
    select
      lease, timeout, max_attempts, backoff_base, backoff_cap, finished_retention, failed_retention
    from queue_tests.policies where queue = 'slow'
  $$,
  $$
    values (
      interval '5 min', interval '1 hour', 3, interval '1 s', interval '10 s', interval '1 day',
      interval '2 days'
    )
  $$,
  'It is kept'
);
select results_eq(
  $$
    select action, actor = session_user, reason, detail ->> 'lease', detail ? 'paused_at'
    from queue.audit where queue = 'slow'
  $$,
  $$ values ('set_policy', true, 'films are long', '00:05:00', false) $$,
  'The audit says who, why and what'
);

select results_eq(
  $$ select name from queue.set_policy('slow', lease => '6 min') where value is null $$,
  $$ select null::text where false $$,
  'Null leaves the other values as they are'
);
select results_eq(
  $$ select * from queue.set_policy('slow', unset => '{lease,timeout}') where value is null $$,
  $$ values ('lease', null::text), ('timeout', null) $$,
  'What is unset has no value'
);
select results_eq(
  $$
    select value
    from queue.set_policy('slow', lease => '7 min', unset => '{lease}')
    where name = 'lease'
  $$,
  $$ values ('00:07:00') $$,
  'A value given stands before its unsetting'
);
select results_eq(
  $$ select count(*) from queue.set_policy('slow', unset => null) where value is not null $$,
  $$ values (6::bigint) $$,
  'Null unsets nothing'
);
select results_eq(
  $$ select * from queue.set_policy('fresh') where value is not null $$,
  $$ select null::text, null::text where false $$,
  'A queue without a policy is answered with nothing that differs'
);
select is_empty(
  $$ select from queue.audit where queue = 'fresh' $$, 'To change nothing is no action'
);

-- What it is for.
select queue_tests.enqueue_one('slow', 'slow');
select results_eq(
  $$ select lease, timeout, max_attempts from queue.claim('w', '{slow}') $$,
  $$ values (interval '7 min', null::interval, 3) $$,
  'The lease holds for the next claim, the attempts for jobs enqueued since'
);
select queue.set_policy('slow', timeout => '2 s', max_attempts => 8);
select is(
  (select max_attempts from queue_tests.jobs where kind = 'slow'), 3,
  'A job keeps the attempts it was enqueued with'
);
select queue.fail(queue_tests.job_id('slow'), 1, 'E');
select ok(
  (select available_at - clock_timestamp() < '1.3 s' from queue_tests.jobs where kind = 'slow'),
  'The backoff is the queue''s own'
);
select queue.pause('slow', 'later');
select queue.set_policy('slow', lease => '1 min');
select is(
  (select pause_reason from queue_tests.policies where queue = 'slow'), 'later',
  'A pause stays as it is'
);

select throws_ok('select queue.set_policy(' || arguments || ')', 'RL400', null, rule)
from (
  values
    ('null', 'A queue must be named'),
    ($$'No Name'$$, 'by a name as queues have'),
    ($$'q', lease => '0.9 s'$$, 'A lease is at least a second'),
    ($$'q', lease => '25 h'$$, 'A lease is at most 24 hours'),
    ($$'q', timeout => '0'$$, 'A timeout is at least a second'),
    ($$'q', timeout => '8 days'$$, 'A timeout is at most 7 days'),
    ($$'q', max_attempts => 0$$, 'At least one attempt'),
    ($$'q', max_attempts => 100001$$, 'At most 100,000 attempts'),
    ($$'q', backoff_base => '0'$$, 'A backoff is at least a millisecond'),
    ($$'q', backoff_base => '31 days'$$, 'A backoff starts with 30 days at most'),
    ($$'q', backoff_base => '2 h', backoff_cap => '1 h'$$, 'and at most with its cap'),
    ($$'q', backoff_cap => '0'$$, 'A cap is at least a millisecond'),
    ($$'q', backoff_cap => '31 days'$$, 'A cap is at most 30 days'),
    ($$'q', finished_retention => '59 s'$$, 'Finished jobs are kept for a minute at least'),
    ($$'q', finished_retention => '11 years'$$, 'Finished jobs are kept for 10 years at most'),
    ($$'q', failed_retention => '59 s'$$, 'Failed jobs are kept for a minute at least'),
    ($$'q', failed_retention => '11 years'$$, 'Failed jobs are kept for 10 years at most'),
    ($$'q', unset => '{paused_at}'$$, 'Only what can be set can be unset'),
    ($$'q', unset => '{null}'$$, 'Null is no name to unset')
) as wrong (arguments, rule);
select is_empty(
  $$ select from queue_tests.policies where queue = 'q' $$, 'A refused policy is not kept'
);

set local role queue_viewer;
select throws_ok($$ select queue.set_policy('q') $$, '42501', null, 'Who may only look may not');
set local role queue_operator;
select lives_ok($$ select queue.set_policy('q') $$, 'An operator may');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.set_policy('q') $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
