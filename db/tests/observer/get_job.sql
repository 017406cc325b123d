begin;
select no_plan();

select queue.enqueue(
  'whole', '{"to": "a@b.example"}', 'whole', 7, delay => null, max_attempts => 3, lease => '5 min',
  timeout => '1 hour', idempotency_key => 'order 7', headers => '{"trace": "abc"}'
);
select queue_tests.claim_one('whole');
select queue.progress(queue_tests.job_id('whole'), 1, 40, 'half way');
select results_eq(
  $$
    select
      id, queue, kind, payload, priority, status, label, attempt, max_attempts, fence, created_at,
      available_at, started_at, finished_at, worker, lease_expires_at, deadline_at,
      cancel_requested_at,
      lease, timeout, idempotency_key, progress, progress_message, result, error_type,
      error_message,
      error_group, headers, created_by
    from queue.get_job(queue_tests.job_id('whole'))
  $$,
  $$
    select id, 'whole', 'whole', '{"to": "a@b.example"}'::jsonb, 7, 'running', 'running', 1, 3, 1,
      created_at, available_at, started_at, null::timestamptz, 'tester', lease_expires_at,
      deadline_at,
      null::timestamptz, interval '5 min', interval '1 hour', 'order 7', 40, 'half way',
      null::jsonb,
      null::text, null::text, null::text, '{"trace": "abc"}'::jsonb, created_by
    from queue.jobs where kind = 'whole'
  $$,
  'A job comes whole'
);
select ok(
  (select created_by = session_user from queue.get_job(queue_tests.job_id('whole'))),
  'It says who enqueued it'
);

select queue.complete(queue_tests.job_id('whole'), 1, '{"sum": 7}');
select results_eq(
  $$
    select status, label, result, worker, finished_at between now() and clock_timestamp(), progress
    from queue.get_job(queue_tests.job_id('whole'))
  $$,
  $$ values ('succeeded', 'succeeded', '{"sum": 7}'::jsonb, null::text, true, 40) $$,
  'with its result when it has one'
);
select queue_tests.run_one('broken');
select queue.fail(queue_tests.job_id('broken'), 1, 'Broken', 'no paper', fatal => true);
select results_eq(
  $$
    select job.status, job.label, job.error_type, job.error_message,
      job.error_group = queue._error_group('broken', 'Broken', 'no paper')
    from queue.get_job(queue_tests.job_id('broken')) as job
  $$,
  $$ values ('failed', 'dead', 'Broken', 'no paper', true) $$,
  'and with its error'
);

create temp table jobs as select * from queue_tests.one_of_each();
select results_eq(
  $$ select jobs.status, job.status from jobs, queue.get_job(jobs.job_id) as job $$,
  $$ select status, status from jobs $$,
  'In every status'
);
select is_empty(
  $$
    select from information_schema.columns as kept
    where kept.table_schema = 'queue' and kept.table_name = 'jobs'
      and kept.column_name not in ('settled_fence', 'settled_as')
      and not exists (
        select from pg_proc as proc, unnest(proc.proargnames) as shown
        where proc.oid = 'queue.get_job'::regproc and shown = kept.column_name
      )
  $$,
  'No column is missing but those that only workers'' answers need'
);

select throws_ok($$ select queue.get_job(-1) $$, 'RL404', null, 'An unknown job is RL404');
select throws_ok($$ select queue.get_job(null) $$, 'RL404', null, 'No job is RL404');
delete from queue.jobs where id = queue_tests.job_id('broken');
select throws_ok(
  format(
    'select queue.get_job(%s)', (select job_id from queue.job_events where kind = 'broken' limit 1)
  ),
  'RL404', null, 'and so is one that is gone'
);

set local role queue_producer;
select throws_ok($$ select queue.get_job(1) $$, '42501', null, 'A producer may not look');
set local role queue_viewer;
select throws_ok($$ select queue.get_job(-1) $$, 'RL404', null, 'A viewer may');
set local role queue_admin;
select throws_ok($$ select queue.get_job(-1) $$, 'RL404', null, 'and so may an admin');
reset role;

set local transaction read only;
select is(
  (select kind from queue.get_job(queue_tests.job_id('whole'))), 'whole',
  'Reading needs no right to write'
);

select * from finish();
rollback;
