begin;
select no_plan();

create temp table claimed as
select 0 as turn, answer.* from queue.claim('w') as answer;

-- Order -------------------------------------------------------------------------------------------

select queue_tests.enqueue_one('low', priority => 0);
select queue_tests.enqueue_one('second');
select queue_tests.enqueue_one('third');
select queue_tests.enqueue_one('due-first');
select queue_tests.enqueue_one('high', priority => 9);
select queue_tests.enqueue_one('later', priority => 9, delay => '1 hour');
select queue_tests.enqueue_one('created-first');
select queue_tests.enqueue_one('same-instant');
update queue.jobs set available_at = available_at - interval '1 hour' where kind = 'due-first';
update queue.jobs
set available_at = now() - interval '1 s', created_at = now()
where kind in ('second', 'third');
update queue.jobs set available_at = now() - interval '1 s', created_at = now() - interval '1 day'
where kind = 'created-first';
update queue.jobs
set available_at = now() - interval '1 s', created_at = now()
where kind = 'same-instant';

select results_eq(
  $$ select kind from queue.claim('w', '{default}', 1000) $$,
  $$
    values ('high'), ('due-first'), ('created-first'), ('second'), ('third'), ('same-instant'),
      ('low')
  $$,
  'Claims are ordered by priority desc, available_at, created_at, id; what is due later stays'
);

select is_empty(
  $$ select * from queue.claim('w', '{default}', 1000) $$,
  'Nothing to do is no row, and no error'
);

insert into queue.jobs (created_at, available_at, max_attempts, queue, kind, priority)
select now(), now() - make_interval(secs => (n * 7919) % 101), 1, 'mixed', 'mixed', n % 10
from generate_series(1, 300) as n;
select results_eq(
  $$ select job_id from generate_series(1, 100) as n, queue.claim('w' || n, '{mixed}', 3) $$,
  $$
    select id
    from queue_tests.jobs
    where queue = 'mixed'
    order by priority desc, available_at, created_at, id
  $$,
  'Claim by claim the order is the same as over all'
);

-- Queues ------------------------------------------------------------------------------------------

select queue_tests.enqueue_one('a1', 'a', priority => 0);
select queue_tests.enqueue_one('b1', 'b', priority => 9);
select queue_tests.enqueue_one('a2', 'a', priority => 0);
select queue_tests.enqueue_one('b2', 'b', priority => 9);
select queue_tests.enqueue_one('c1', 'c', priority => 9);
select results_eq(
  $$ select kind from queue.claim('w', '{empty,a,b}', 3) $$,
  $$ values ('a1'), ('a2'), ('b1') $$,
  'Queues are served in the order given, whatever the priorities, up to max_jobs in all'
);
select results_eq(
  $$ select kind from queue.claim('w', '{b,a,b,b}', 5) $$,
  $$ values ('b2') $$,
  'A queue named twice is served once, and one not named not at all'
);

insert into queue.policies (queue, paused_at, paused_by, paused_until)
values ('c', now(), 'me', null), ('d', now(), 'me', now() + interval '1 h'),
  ('e', now(), 'me', now() - interval '1 s');
select queue_tests.enqueue_one('d1', 'd');
select queue_tests.enqueue_one('e1', 'e');
select results_eq(
  $$ select kind from queue.claim('w', '{c,d,e}', 5) $$,
  $$ values ('e1') $$,
  'A paused queue is passed by, until its pause ends'
);

-- What a claim does -------------------------------------------------------------------------------

select queue.enqueue('whole', '{"a": 1}', 'whole', 7, headers => '{"h": 1}', max_attempts => 2);
insert into claimed select 1, answer.* from queue.claim('w-1', '{whole}') as answer;

select results_eq(
  $$
    select job_id, fence, queue, kind, payload, attempt, max_attempts, lease, timeout, headers
    from claimed where turn = 1
  $$,
  $$
    select
      queue_tests.job_id('whole'), 1, 'whole', 'whole', '{"a": 1}'::jsonb, 1, 2, interval '60 s',
      null::interval, '{"h": 1}'::jsonb
  $$,
  'A claim hands out all a worker needs'
);
select results_eq(
  $$ select created_at, available_at from claimed where turn = 1 $$,
  $$ select created_at, available_at from queue_tests.jobs where kind = 'whole' $$,
  'It tells when the job was created and due'
);
select results_eq(
  $$
    select
      status, attempt, fence, worker, started_at - available_at >= '0',
      lease_expires_at - started_at,
      deadline_at
    from queue_tests.jobs where kind = 'whole'
  $$,
  $$ values ('running', 1, 1, 'w-1', true, interval '60 s', null::timestamptz) $$,
  'The row is running: the attempt used up, a new fence, the worker, the lease'
);
select results_eq(
  $$ select * from queue_tests.events(queue_tests.job_id('whole')) offset 1 $$,
  $$ values ('claimed', 'queued', 'running', 1, 1, 'w-1', null::jsonb) $$,
  'The event says who claimed it'
);
select results_eq(
  $$
    select item.at, item.elapsed
    from queue_tests.job_events as item
    where item.job_id = queue_tests.job_id('whole')
      and event = 'claimed'
  $$,
  $$ select started_at, started_at - available_at from queue_tests.jobs where kind = 'whole' $$,
  'The event says when, and how long the job had been due'
);
select is_empty(
  $$ select * from queue.claim('w-2', '{whole}') $$,
  'A running job is not claimed'
);

select queue.progress(queue_tests.job_id('whole'), 1, 50, 'half');
select queue.fail(queue_tests.job_id('whole'), 1, 'E', 'm', retry_in => '0');
select results_eq(
  $$ select fence, attempt, max_attempts from queue.claim('w-2', '{whole}') $$,
  $$ values (2, 2, 2) $$,
  'Each claim is an attempt and has a fence of its own'
);
select results_eq(
  $$
    select worker, progress::integer, progress_message, error_type, settled_fence
    from queue_tests.jobs where kind = 'whole'
  $$,
  $$ values ('w-2', null::integer, null::text, 'E', 1) $$,
  'A new claim starts without progress and keeps the last error'
);

select queue.release(queue_tests.job_id('whole'), 2);
select results_eq(
  $$ select fence, attempt from queue.claim('w-3', '{whole}') $$,
  $$ values (3, 2) $$,
  'The fence counts on where the attempt does not'
);

-- Lease and timeout -------------------------------------------------------------------------------

update queue.settings set lease = '20 s';
insert into queue.policies (queue, lease, timeout) values ('strict', '30 s', '10 min');
select queue_tests.enqueue_one('of-settings', 'loose');
select queue_tests.enqueue_one('of-policy', 'strict');
select queue_tests.enqueue_one('of-job', 'strict', lease => '2 h', timeout => '3 h');
select queue_tests.enqueue_one('short', 'strict', lease => '2 h', timeout => '1 min');
insert into claimed select 2, answer.* from queue.claim('w', '{loose,strict}', 9) as answer;
select results_eq(
  $$ select kind, lease, timeout from claimed where turn = 2 $$,
  $$
    values ('of-settings', interval '20 s', null::interval), ('of-policy', '30 s', '10 min'),
      ('of-job', '2 h', '3 h'), ('short', '2 h', '1 min')
  $$,
  'Lease and timeout come from the job, else the policy of its queue, else the settings'
);
select results_eq(
  $$
    select kind, lease_expires_at - started_at, deadline_at - started_at
    from queue_tests.jobs where id in (select job_id from claimed where turn = 2) order by id
  $$,
  $$
    values ('of-settings', interval '20 s', null::interval), ('of-policy', '30 s', '10 min'),
      ('of-job', '2 h', '3 h'), ('short', '70 s', '60 s')
  $$,
  'The deadline is the claim plus the timeout, and the lease ends 10 s after it at the latest'
);

-- Bounds ------------------------------------------------------------------------------------------

select throws_ok(format('select * from queue.claim(%s)', args), 'RL400', null, rule)
from (
  values
    ($$null$$, 'A worker has an id'),
    ($$''$$, 'An id is not empty (A27)'),
    ($$repeat('w', 129)$$, 'An id has at most 128 characters'),
    ($$repeat('w', 10000000)$$, 'An id of 10 MB is refused (A27)'),
    ($$'w', '{}'$$, 'At least one queue is named'),
    ($$'w', null$$, 'Queues are not null'),
    ($$'w', '{null}'$$, 'Nor is one of them'),
    ($$'w', '{A}'$$, 'A queue is a name'),
    ($$'w', array['''; drop table queue.jobs;--']$$, 'SQL is no queue (A16)'),
    (
      $$'w', array(select 'q' || n from generate_series(1, 33) as n)$$,
      'At most 32 queues are named'
    ),
    ($$'w', '{default}', 0$$, 'At least one job is asked for (A27)'),
    ($$'w', '{default}', -5$$, 'Not less than none (A27)'),
    ($$'w', '{default}', 1001$$, 'At most 1,000 are'),
    ($$'w', '{default}', 10000000$$, 'Ten million are refused (A27)')
) as wrong (args, rule);
select lives_ok(
  $$
    select *
    from queue.claim(
      repeat('ü', 128), array(select 'q' || n from generate_series(1, 32) as n), 1000
    )
  $$,
  'An id of 128 characters, 32 queues and 1,000 jobs are taken'
);
select lives_ok(
  $$ select * from queue.claim('w', '{default}', null) $$,
  'Null jobs means one'
);

set transaction read only;
select throws_ok(
  $$ select * from queue.claim('w') $$,
  'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
