begin;
select no_plan();

select queue_tests.run_one('dead', max_attempts => 1);
select queue.fail(queue_tests.job_id('dead'), 1, 'E', 'gone wrong');
create temp table dead as select queue_tests.job_id('dead') as id;

select is(
  (select queue.discard(id, 'a duplicate') from dead),
  'failed',
  'The answer is the status that the job had'
);
select is_empty('select from queue.jobs where kind = ''dead''', 'A discarded job is gone');
select results_eq(
  $$
    select event, from_status, to_status, detail
    from queue_tests.events((select id from dead)) offset 3
  $$,
  $$ values ('discarded', 'failed', 'gone', '{"reason": "a duplicate"}'::jsonb) $$,
  'Its history stays, and ends with who discarded it and why'
);
select is(
  (
    select item.actor from queue.job_events as item
    where item.job_id = (select id from dead) and item.event = 'discarded'
  ),
  session_user::text,
  'The event names the session''s user'
);
select throws_ok(
  format('select queue.discard(%s)', (select id from dead)),
  'RL404', null,
  'A job that is gone cannot be discarded again'
);

select lives_ok(
  $$
    select queue.discard(answer.job_id)
    from queue.enqueue('once', idempotency_key => 'k') as answer
      cross join lateral queue.cancel(answer.job_id) as cancelled
  $$,
  'A cancelled job can be discarded'
);
select is(
  (select created from queue.enqueue('once', idempotency_key => 'k')),
  true,
  'Its idempotency key is free again'
);

select queue_tests.run_one('well');
select queue.complete(queue_tests.job_id('well'), 1);
select is(
  queue.discard(queue_tests.job_id('well')), 'succeeded', 'A succeeded job can be discarded'
);

select queue_tests.enqueue_one('waiting');
select throws_ok(
  'select queue.discard(queue_tests.job_id(''waiting''))', 'RL409', null,
  'A queued job cannot be discarded'
);
select queue_tests.run_one('busy');
select throws_ok(
  'select queue.discard(queue_tests.job_id(''busy''))', 'RL409', null,
  'A running job cannot be discarded'
);
select throws_ok('select queue.discard(null)', 'RL404', null, 'No job is no job to discard');

select * from finish();
rollback;
