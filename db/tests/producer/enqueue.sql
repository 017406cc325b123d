begin;
select no_plan();

-- What is created ---------------------------------------------------------------------------------

select results_eq(
  $$ select created from queue.enqueue('bare') $$,
  $$ values (true) $$,
  'A new job answers created = true'
);

select results_eq(
  $$
    select queue, kind, payload, headers, priority::integer, status, attempt, max_attempts, fence,
      available_at = created_at, created_by = session_user
    from queue_tests.jobs where kind = 'bare'
  $$,
  $$
    values ('default', 'bare', '{}'::jsonb, '{}'::jsonb, 5, 'queued', 0, 5, 0,
      true, true)
  $$,
  'A job given by its kind alone gets the defaults and is due at once'
);

select is(
  (
    select num_nulls(
      started_at, finished_at, lease_expires_at, deadline_at, cancel_requested_at, settled_fence,
      progress, worker, settled_as, idempotency_key, lease, timeout, progress_message, error_type,
      error_message, error_group, result
    )
    from queue_tests.jobs where kind = 'bare'
  ),
  17,
  'A new job has no worker, no lease, no progress and no outcome'
);

select results_eq(
  $$ select * from queue_tests.events(queue_tests.job_id('bare')) $$,
  $$
    values ('enqueued', null::text, 'queued', 0, 0, null::text,
      '{"priority": 5, "max_attempts": 5}'::jsonb)
  $$,
  'A job begins its history with one event, enqueued'
);

select results_eq(
  $$
    select item.at = job.created_at, item.queue, item.kind, item.actor = session_user
    from queue_tests.job_events as item join queue_tests.jobs as job on job.id = item.job_id
    where job.kind = 'bare'
  $$,
  $$ values (true, 'default', 'bare', true) $$,
  'The event carries the instant of the row, its queue, its kind and who acted'
);

select lives_ok(
  $$
    select queue.enqueue(
      'full', '{"to": "a@b.example"}', 'mail', 9, null, '5 min', 3, '90 s', '1 h', 'key-1',
      '{"trace": "t"}'
    )
  $$,
  'The parameters stand in the documented order'
);

select results_eq(
  $$
    select queue, kind, payload, headers, priority::integer, max_attempts, lease, timeout,
      idempotency_key, available_at - created_at
    from queue_tests.jobs where kind = 'full'
  $$,
  $$
    values ('mail', 'full', '{"to": "a@b.example"}'::jsonb, '{"trace": "t"}'::jsonb, 9, 3,
      interval '90 s', interval '1 h', 'key-1', interval '5 min')
  $$,
  'Every parameter reaches its column, and a delay counts from the creation'
);

select results_eq(
  $$
    select item.event, item.detail - 'available_at',
      (item.detail ->> 'available_at')::timestamptz = job.available_at
    from queue_tests.job_events as item join queue_tests.jobs as job on job.id = item.job_id
    where job.kind = 'full'
  $$,
  $$
    values (
      'enqueued', '{"priority": 9, "max_attempts": 3, "idempotency_key": "key-1"}'::jsonb, true
    )
  $$,
  'The event tells priority, attempts, key and when the job is due'
);

select lives_ok(
  $$
    select queue.enqueue('nulls', null, null, null, null, null, null, null, null, null, null)
  $$,
  'Null is taken for every parameter but the kind'
);

select results_eq(
  $$
    select queue, payload, headers, priority::integer, max_attempts, available_at = created_at
    from queue_tests.jobs where kind = 'nulls'
  $$,
  $$ values ('default', '{}'::jsonb, '{}'::jsonb, 5, 5, true) $$,
  'Null means the default'
);

insert into queue.policies (queue, max_attempts) values ('patient', 40);
select queue.enqueue('of-policy', queue => 'patient');
select queue.enqueue('of-job', queue => 'patient', max_attempts => 2);
select results_eq(
  $$ select kind, max_attempts from queue_tests.jobs where queue = 'patient' order by id $$,
  $$ values ('of-policy', 40), ('of-job', 2) $$,
  'max_attempts comes from the call, else the policy of the queue, else the settings'
);

-- When it is due ----------------------------------------------------------------------------------

select queue.enqueue('past', available_at => '2001-01-01Z');
select queue.enqueue('ancient', available_at => '0001-01-01 00:00:00Z');
select queue.enqueue('overdue', delay => '-1 hour');
select is(
  (
    select count(*)::integer from queue_tests.jobs
    where kind in ('past', 'ancient', 'overdue') and available_at = created_at
  ),
  3,
  'An instant or a delay in the past means now'
);

select queue.enqueue('exact', available_at => now() + interval '1 day');
select is(
  (select available_at from queue_tests.jobs where kind = 'exact'),
  now() + interval '1 day',
  'An instant ahead is kept to the microsecond'
);

-- Bounds ------------------------------------------------------------------------------------------

select throws_ok(format('select queue.enqueue(%s)', args), code, null, rule)
from (
  values
    ('null', 'RL400', 'A kind must be given'),
    ($$''$$, 'RL400', 'A kind is not empty'),
    ($$'Mail'$$, 'RL400', 'A kind has no capitals'),
    ($$'.a'$$, 'RL400', 'A kind starts with a letter or a digit'),
    ($$E'a\n'$$, 'RL400', 'A kind ends where its name ends, not at a line break'),
    ($$repeat('a', 64)$$, 'RL400', 'A kind has at most 63 characters'),
    ($$'''; drop table queue.jobs;--'$$, 'RL400', 'SQL is no kind (A16)'),
    ($$'a', queue => 'x" order by (select pg_sleep(5))'$$, 'RL400', 'SQL is no queue (A16)'),
    ($$'a', queue => ''$$, 'RL400', 'A queue is not empty'),
    ($$'a', queue => 'ü'$$, 'RL400', 'A queue is ASCII'),
    ($$'a', priority => -1$$, 'RL400', 'A priority is not below 0'),
    ($$'a', priority => 10$$, 'RL400', 'A priority is not above 9'),
    ($$'a', priority => 2147483647$$, 'RL400', 'The largest integer is no priority (A24)'),
    ($$'a', priority => -2147483648$$, 'RL400', 'The smallest integer is no priority (A24)'),
    ($$'a', max_attempts => 0$$, 'RL400', 'A job has at least one attempt (A25)'),
    ($$'a', max_attempts => -1$$, 'RL400', 'Attempts are not negative (A25)'),
    ($$'a', max_attempts => 100001$$, 'RL400', 'A job has at most 100,000 attempts (A25)'),
    ($$'a', lease => '0'$$, 'RL400', 'A lease is no shorter than a second (A25)'),
    ($$'a', lease => '-1 s'$$, 'RL400', 'A lease is not negative (A25)'),
    ($$'a', lease => '24 hours 1 microsecond'$$, 'RL400', 'A lease is no longer than a day'),
    ($$'a', lease => '1000 years'$$, 'RL400', 'A lease is no longer than a day (A25)'),
    ($$'a', timeout => '999 ms'$$, 'RL400', 'A timeout is no shorter than a second'),
    ($$'a', timeout => '7 days 1 s'$$, 'RL400', 'A timeout is no longer than 7 days'),
    ($$'a', delay => '11 years'$$, 'RL400', 'A delay is at most 10 years'),
    ($$'a', delay => '-11 years'$$, 'RL400', 'A delay lies at most 10 years back'),
    ($$'a', available_at => 'infinity'$$, 'RL400', 'Infinity is no instant (A26)'),
    ($$'a', available_at => '-infinity'$$, 'RL400', 'Minus infinity is no instant (A26)'),
    (
      $$'a', available_at => '294276-01-01Z'$$, 'RL400',
      'A year no client can read is refused (A26)'
    ),
    (
      $$'a', available_at => '0044-03-15 BC'$$, 'RL400', 'An instant before Christ is refused (A26)'
    ),
    ($$'a', available_at => now() + interval '11 years'$$, 'RL400', 'At most 10 years ahead'),
    (
      $$'a', available_at => now(), delay => '1 s'$$, 'RL400',
      'Instant and delay exclude each other'
    ),
    ($$'a', idempotency_key => ''$$, 'RL400', 'A key is not empty'),
    ($$'a', idempotency_key => repeat('k', 256)$$, 'RL400', 'A key has at most 255 characters'),
    ($$'a', idempotency_key => repeat('k', 10000000)$$, 'RL400', 'A key of 10 MB is refused (A28)'),
    ($$'a', headers => '[]'$$, 'RL400', 'Headers are an object'),
    ($$'a', headers => 'null'$$, 'RL400', 'Headers are not the JSON null'),
    (
      $$'a', headers => jsonb_build_object('h', repeat('x', 16384))$$, 'RL413',
      'Headers fit in 16 kB'
    ),
    ($$'a', to_jsonb(repeat('x', 1048575))$$, 'RL413', 'A payload is at most 1 MiB (A19)'),
    ($$'a', to_jsonb(repeat('x', 2000000))$$, 'RL413', 'A payload of 2 MB is refused (A19)'),
    (
      $$'a', (repeat('[', 102) || repeat(']', 102))::jsonb$$, 'RL400',
      'A payload is hardly more than 100 levels deep'
    ),
    ($$'a', '1e309'$$, 'RL400', 'A payload has no number beyond a double'),
    ($$'a', '[[-1e400]]'$$, 'RL400', 'A payload has none deep inside or negative either')
) as wrong (args, code, rule);

select throws_ok($$ select queue.enqueue('a', '"\u0000"') $$, '22P05', null,
  'A NUL in a payload is refused by jsonb itself, at enqueue (A20)');
select throws_ok($$ select queue.enqueue('a', '"\ud800"') $$, '22P02', null,
  'So is half a surrogate pair (A21)');

select is(
  (select count(*)::integer from queue_tests.jobs where kind in ('a', '')),
  0,
  'A refused job leaves no row'
);

select lives_ok(
  format('select queue.enqueue(%s)', args),
  rule
)
from (
  values
    ($$repeat('k', 63), queue => '9_.:-'$$, 'A name of 63 characters and each sign is taken'),
    (
      $$'edge', priority => 0, max_attempts => 1, lease => '1 s', timeout => '1 s'$$,
      'The lower bounds are taken'
    ),
    (
      $$'edge', priority => 9, max_attempts => 100000, lease => '24 hours', timeout => '7 days'$$,
      'The upper bounds are taken'
    ),
    ($$'edge', delay => '10 years'$$, 'Ten years ahead is taken'),
    (
      $$'edge', idempotency_key => repeat('🔑', 255)$$, 'A key of 255 characters of 4 bytes is taken'
    ),
    ($$'edge', to_jsonb(repeat('x', 1048574))$$, 'A payload of exactly 1 MiB is taken (A19)'),
    (
      $$'edge', (repeat('[', 100) || repeat(']', 100))::jsonb$$,
      'A payload 100 levels deep is taken'
    ),
    ($$'edge', '1.7e308'$$, 'A large double is taken'),
    (
      $$'edge', headers => jsonb_build_object('h', repeat('x', 16375))$$,
      'Headers of 16 kB are taken'
    )
) as right_ (args, rule);

select lives_ok(
  $$
    select queue.enqueue('text', to_jsonb(E'\u202e\ufeff' || '😀 <script> '' " \ ' || chr(1)))
  $$,
  'Any text is a payload: bidi controls, BOM, emoji, control characters (A21)'
);
select results_eq(
  $$
    select queue.enqueue('plain', value) is not null
    from unnest('{null,"[]","0","\"\"","{}"}'::jsonb[]) as value
  $$,
  $$ select true from generate_series(1, 5) $$,
  'Any JSON value is a payload (A23)'
);
select queue.enqueue('twice', '{"a": 1, "a": 2}');
select is(
  (select payload from queue_tests.jobs where kind = 'twice'),
  '{"a": 2}',
  'Of a repeated name in a payload the last counts (A22)'
);

-- Idempotency -------------------------------------------------------------------------------------

select queue.enqueue('paid', '{"order": 1}', idempotency_key => 'order-1');

select results_eq(
  $$ select * from queue.enqueue('paid', '{"order": 1}', idempotency_key => 'order-1') $$,
  $$ select queue_tests.job_id('paid'), false $$,
  'A known key answers the job it stands for, created = false'
);

select results_eq(
  $$
    select *
    from queue.enqueue('paid', '{"order":1.0}', priority => 9, idempotency_key => 'order-1')
  $$,
  $$ select queue_tests.job_id('paid'), false $$,
  'Equal payloads are the same work, however they are written and whatever else differs'
);

select results_eq(
  $$ select count(*)::integer, max(priority)::integer from queue_tests.jobs where kind = 'paid' $$,
  $$ values (1, 5) $$,
  'The known job is not changed'
);
select is(
  (select count(*)::integer from queue_tests.events(queue_tests.job_id('paid'))),
  1,
  'A duplicate writes no event'
);

select throws_ok(
  $$ select queue.enqueue('paid', '{"order": 2}', idempotency_key => 'order-1') $$,
  'RL422', null, 'Another payload under a known key is RL422 (A28)'
);
select throws_ok(
  $$ select queue.enqueue('refunded', '{"order": 1}', idempotency_key => 'order-1') $$,
  'RL422', null, 'Another kind under a known key is RL422'
);

select results_eq(
  $$
    select created from queue.enqueue('paid', '{"order": 2}', 'other', idempotency_key => 'order-1')
  $$,
  $$ values (true) $$,
  'A key belongs to its queue: another queue does not know it'
);

select queue.complete(job_id, fence) from queue.claim('w', '{default}', 1000) where kind = 'paid';
select results_eq(
  $$
    select answer.created, job.status
    from queue.enqueue('paid', '{"order": 1}', idempotency_key => 'order-1') as answer
      join queue_tests.jobs as job on job.id = answer.job_id
  $$,
  $$ values (false, 'succeeded') $$,
  'A finished job still answers for its key'
);

delete from queue.jobs where kind = 'paid' and queue = 'default';
select results_eq(
  $$ select created from queue.enqueue('paid', '{"order": 9}', idempotency_key => 'order-1') $$,
  $$ values (true) $$,
  'The key is free again once the job is gone'
);

select throws_ok(
  $$ insert into queue.jobs (created_at, available_at, max_attempts, kind, idempotency_key)
     values (now(), now(), 1, 'paid', 'order-1') $$,
  '23505', null, 'The table itself refuses a second job under a key'
);

-- Where it may not be written ---------------------------------------------------------------------

set transaction read only;
select throws_ok(
  $$ select queue.enqueue('late') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
