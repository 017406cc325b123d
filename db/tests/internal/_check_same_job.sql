begin;
select no_plan();

select queue.enqueue('paid', '{"order": 1, "lines": [1, 2]}', idempotency_key => 'k''1');

create function pg_temp.check_same(kind text, payload jsonb) returns void language sql as $$
  select queue._check_same_job(job, check_same.kind, check_same.payload) from queue.jobs as job
  where job.id = queue_tests.job_id('paid');
$$;

select lives_ok(
  $$ select pg_temp.check_same('paid', '{"lines": [1, 2], "order": 1}') $$,
  'The same kind and payload are the same work'
);
select throws_ok(
  $$ select pg_temp.check_same('refunded', '{"order": 1, "lines": [1, 2]}') $$,
  'RL422',
  format(
    'idempotency_key ''k''''1'' belongs to job %s, which has another kind',
    queue_tests.job_id('paid')
  ),
  'Another kind is not'
);
select throws_ok(
  $$ select pg_temp.check_same('paid', '{"order": 1, "lines": [2, 1]}') $$,
  'RL422',
  format(
    'idempotency_key ''k''''1'' belongs to job %s, which has another payload',
    queue_tests.job_id('paid')
  ),
  'Nor is another payload'
);

select * from finish();
rollback;
