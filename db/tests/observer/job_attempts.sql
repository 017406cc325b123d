begin;
select no_plan();

select queue_tests.run_one('flaky', max_attempts => 5);
create temp table flaky as select queue_tests.job_id('flaky') as id;
select queue.fail(id, 1, 'E', 'first', '{"traceback": "here"}', retry_in => '0') from flaky;
select queue_tests.claim_one('flaky', 'w2');
select queue.snooze(id, 2, '0') from flaky;
select queue_tests.claim_one('flaky', 'w3');

select results_eq(
  $$
    select fence, attempt, worker, outcome, error_type, error_message, error_detail
    from queue.job_attempts((select id from flaky))
  $$,
  $$
    values
      (1, 1, 'tester', 'retry_scheduled', 'E', 'first', '{"traceback": "here"}'::jsonb),
      (2, 2, 'w2', 'snoozed', null, null, null),
      (3, 2, 'w3', null, null, null, null)
  $$,
  'A row a claim: who held it and how it ended; the last one runs'
);
select ok(
  (
    select bool_and(ended_at - started_at = elapsed)
    from queue.job_attempts((select id from flaky))
    where fence < 3
  ),
  'elapsed is from claim to end'
);
select is(
  (select retry_at from queue.job_attempts((select id from flaky)) where fence = 1),
  (
    select (item.detail ->> 'available_at')::timestamptz from queue.job_events as item
    where item.job_id = (select id from flaky) and item.event = 'retry_scheduled'
  ),
  'retry_at is when the failed attempt was to be repeated'
);
select queue.cancel(id) from flaky;
select queue.complete(id, 3) from flaky;
select is(
  (select outcome from queue.job_attempts((select id from flaky)) where fence = 3), 'succeeded',
  'What happened within an attempt is not its end'
);
select is_empty('select * from queue.job_attempts(0)', 'A job that never was has no attempts');
select queue_tests.enqueue_one('new');
select is_empty(
  'select * from queue.job_attempts(queue_tests.job_id(''new''))', 'A job never claimed has none'
);

select * from finish();
rollback;
