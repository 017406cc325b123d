begin;
select no_plan();

-- With attempts left ------------------------------------------------------------------------------

select queue_tests.run_one('flaky', max_attempts => 3);
create temp table answers (
  kind text, id bigint, status text, attempt integer, available_at timestamptz
);

insert into answers
select 'flaky', answer.*
from queue.fail(
  queue_tests.job_id('flaky'), 1, 'TimeoutError', 'no answer', '{"frames": [1, null]}'
) as answer;
select results_eq(
  $$ select id, status, attempt, available_at from answers where kind = 'flaky' $$,
  $$ select id, 'queued', 1, available_at from queue_tests.jobs where kind = 'flaky' $$,
  'With attempts left the job is queued again, and the answer says when it is due'
);
select results_eq(
  $$
    select
      status, attempt, max_attempts, fence, error_type, error_message, settled_fence, settled_as,
      num_nulls(worker, lease_expires_at, deadline_at, finished_at)
    from queue_tests.jobs where kind = 'flaky'
  $$,
  $$ values ('queued', 1, 3, 1, 'TimeoutError', 'no answer', 1, 'fail', 4) $$,
  'The row keeps the attempt as used and remembers the error'
);
select results_eq(
  $$
    select item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker,
      item.detail - '{error_group,available_at}'::text[]
    from queue_tests.events(queue_tests.job_id('flaky')) as item offset 2
  $$,
  $$
    values (
      'retry_scheduled', 'running', 'queued', 1, 1, 'tester',
      '{"error_type": "TimeoutError", "error_message": "no answer",
        "error_detail": {"frames": [1, null]}}'::jsonb
    )
  $$,
  'The event holds type, message and detail of the failure as they were given'
);
select results_eq(
  $$
    select item.detail ->> 'error_group', (item.detail ->> 'available_at')::timestamptz,
      item.at + queue._backoff(item.job_id, 1, '2 s', '1 h')
    from queue_tests.job_events as item
    where item.job_id = queue_tests.job_id('flaky') and item.event = 'retry_scheduled'
  $$,
  $$ select error_group, available_at, available_at from queue_tests.jobs where kind = 'flaky' $$,
  'The next attempt is due after the backoff of this one'
);

select queue_tests.run_one('asked');
select queue.fail(queue_tests.job_id('asked'), 1, 'E', retry_in => '3 days');
select ok(
  (select available_at between now() + interval '3 days' and clock_timestamp() + interval '3 days'
   from queue_tests.jobs where kind = 'asked'),
  'retry_in stands before the backoff'
);
select queue_tests.run_one('at-once');
select queue.fail(queue_tests.job_id('at-once'), 1, 'E', retry_in => '0');
select isnt(queue_tests.claim_one('at-once'), null, 'retry_in zero makes it due at once');

insert into queue.policies (queue, backoff_base, backoff_cap) values ('slow', '1 day', '2 days');
select queue_tests.run_one('slow');
select queue.fail(queue_tests.job_id('slow'), 1, 'E');
select ok(
  (select available_at between now() + interval '18 h' and clock_timestamp() + interval '30 h'
   from queue_tests.jobs where kind = 'slow'),
  'The backoff is that of the policy of the queue'
);

-- Without -----------------------------------------------------------------------------------------

select queue_tests.run_one('last', max_attempts => 1);
select results_eq(
  $$
    select status, attempt
    from queue.fail(queue_tests.job_id('last'), 1, 'E', 'm', retry_in => '1 s')
  $$,
  $$ values ('failed', 1) $$,
  'Without attempts left the job is failed, whatever retry_in asked'
);
select results_eq(
  $$
    select attempt, error_type, error_message, settled_as, finished_at is not null,
      num_nulls(worker, lease_expires_at, deadline_at)
    from queue_tests.jobs where kind = 'last'
  $$,
  $$ values (1, 'E', 'm', 'fail', true, 3) $$,
  'A failed job keeps its error, and has a finish time and no lease'
);
select is(
  queue_tests.last_event(queue_tests.job_id('last')),
  'failed running -> failed, attempt 1, fence 1',
  'The event is failed'
);

select queue_tests.run_one('hopeless');
select results_eq(
  $$
    select status, attempt from queue.fail(queue_tests.job_id('hopeless'), 1, 'E', fatal => true)
  $$,
  $$ values ('failed', 1) $$,
  'A fatal failure leaves the other attempts unused'
);
select queue_tests.run_one('maybe');
select results_eq(
  $$ select status from queue.fail(queue_tests.job_id('maybe'), 1, 'E', fatal => null) $$,
  $$ values ('queued') $$,
  'Null is not fatal'
);

select queue_tests.run_one('unwanted');
select queue.cancel(queue_tests.job_id('unwanted'));
select results_eq(
  $$ select status from queue.fail(queue_tests.job_id('unwanted'), 1, 'E', 'm') $$,
  $$ values ('cancelled') $$,
  'Once a cancel was requested a failure cancels the job'
);
select is(
  queue_tests.last_event(queue_tests.job_id('unwanted')),
  'cancelled running -> cancelled, attempt 1, fence 1',
  'The event is cancelled'
);

-- Fencing -----------------------------------------------------------------------------------------

select results_eq(
  $$ select * from queue.fail(queue_tests.job_id('flaky'), 1, 'Another') $$,
  $$ select id, status, attempt, available_at from answers where kind = 'flaky' $$,
  'Asked again with the same token, the first answer comes back'
);
update queue.jobs set available_at = clock_timestamp() where kind = 'flaky';
select queue_tests.claim_one('flaky');
select results_eq(
  $$ select * from queue.fail(queue_tests.job_id('flaky'), 1, 'Another') $$,
  $$ select id, status, attempt, available_at from answers where kind = 'flaky' $$,
  'Even when the job runs again under another fence'
);
select is(
  queue_tests.last_event(queue_tests.job_id('flaky')),
  'claimed queued -> running, attempt 2, fence 2',
  'A repeated question changes nothing'
);
insert into answers
select 'dead', answer.*
from queue.fail(queue_tests.job_id('flaky'), 2, 'E', fatal => true) as answer;
select queue_tests.age(queue_tests.job_id('flaky'), '1 hour');
update answers set available_at = available_at - interval '1 hour' where kind = 'dead';
update queue.job_events set at = at - interval '1 hour' where job_id = queue_tests.job_id('flaky');
select queue.retry(queue_tests.job_id('flaky'));
select results_eq(
  $$ select * from queue.fail(queue_tests.job_id('flaky'), 2, 'E') $$,
  $$ select id, status, attempt, available_at from answers where kind = 'dead' $$,
  'Even when an operator has retried it since'
);
select throws_ok(
  $$ select queue.fail(queue_tests.job_id('flaky'), 1, 'E') $$, 'RL409', null,
  'Of the fences settled only the last is remembered'
);
select throws_ok(
  $$ select queue.complete(queue_tests.job_id('flaky'), 2) $$, 'RL409', null,
  'A failed claim cannot be completed'
);
select throws_ok($$ select queue.fail(-1, 1, 'E') $$, 'RL404', null, 'An unknown job is RL404');

-- Texts: whatever a program can print -------------------------------------------------------------

select queue_tests.run_one('poison-' || n) from generate_series(1, 9) as n;
select results_eq(
  format('select status from queue.fail(queue_tests.job_id(%L), 1, %s)', 'poison-' || number, args),
  $$ values ('queued') $$,
  rule
)
from (
  values
    (1, $$null, null$$, 'A failure may have neither type nor message'),
    (2, $$repeat('é', 200), repeat('é', 1000000)$$, 'A message may be of any length'),
    (3, $$E'\x01\x1b[2J', E'"''\\ %s \u202e 😀 \r\n'$$, 'A message may hold any character'),
    (4, $$'E', 'm', '"\u0000\ud800"'$$, 'A detail may hold what jsonb cannot'),
    (5, $$'E', 'm', '1e1000000'$$, 'A detail may hold a number of a million digits'),
    (6, $$'E', 'm', (repeat('[', 3000) || repeat(']', 3000))::json$$, 'A detail may be deep'),
    (7, $$'E', 'm', to_json(repeat('x', 2000000))$$, 'A detail may be of 2 MB'),
    (8, $$'E', 'm', to_json(repeat('"\', 50000))$$, 'A detail may be all quotes'),
    (9, $$'', ''$$, 'A type may be empty')
) as poison (number, args, rule);
select results_eq(
  $$
    select kind, error_type, octet_length(error_message) from queue_tests.jobs
    where kind in ('poison-1', 'poison-2', 'poison-9') order by kind
  $$,
  $$
    values ('poison-1', 'Error', 0), ('poison-2', repeat('é', 98) || '...', 16383),
      ('poison-9', 'Error', 0)
  $$,
  'A type is cut at 200 bytes and a message at 16 kB, whole characters, and a type there always is'
);
select results_eq(
  $$
    select kind, left(detail ->> 'error_detail', 12) from queue_tests.job_events
    where kind in ('poison-4', 'poison-5', 'poison-6') and event = 'retry_scheduled' order by kind
  $$,
  $$ values ('poison-4', '��'), ('poison-5', '1e1000000'), ('poison-6', repeat('[', 12)) $$,
  'A detail is replaced where jsonb cannot hold it, a string where no client could read it'
);
select results_eq(
  $$
    select kind, octet_length((detail -> 'error_detail')::text) between 60000 and 65536,
      detail -> 'error_detail' ->> 'cut' like '%...'
    from queue_tests.job_events
    where kind in ('poison-7', 'poison-8') and event = 'retry_scheduled' order by kind
  $$,
  $$ values ('poison-7', true, true), ('poison-8', true, true) $$,
  'A detail is cut at 64 kB'
);

select queue_tests.run_one('bounds');
select throws_ok(
  $$ select queue.fail(queue_tests.job_id('bounds'), 1, 'E', retry_in => '-1 s') $$, 'RL400', null,
  'retry_in is not negative'
);
select throws_ok(
  $$ select queue.fail(queue_tests.job_id('bounds'), 1, 'E', retry_in => '11 years') $$, 'RL400',
  null,
  'retry_in is at most 10 years'
);
select is(
  queue_tests.last_event(queue_tests.job_id('bounds')),
  'claimed queued -> running, attempt 1, fence 1',
  'A refused failure leaves the claim as it is'
);

set transaction read only;
select throws_ok(
  $$ select queue.fail(queue_tests.job_id('bounds'), 1, 'E') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
