begin;
select no_plan();

-- Ten jobs of a queue fail, two of another.
select queue_tests.enqueue_one('pay', 'billing', max_attempts => 1) from generate_series(1, 10);
select queue_tests.enqueue_one('sync', 'crm', max_attempts => 1) from generate_series(1, 2);
select queue.fail(job_id, fence, 'CardDeclined', 'insufficient funds')
from queue.claim('w', '{billing,crm}', 12);
create temp table failed as select id, kind from queue.jobs where status = 'failed';

select results_eq(
  $$ select outcome, count(*)::integer from queue.bulk('retry', '{"queue": "billing"}') group by 1 $$,
  $$ values ('matched', 10) $$,
  'A dry run, the default, lists what matches'
);
select is(
  (select count(*)::integer from queue.jobs where status = 'failed'), 12,
  'A dry run changes nothing'
);

select results_eq(
  $$
    select outcome, note, count(*)::integer
    from queue.bulk('retry', '{"queue": "billing"}', false, 4, '{"extra_attempts": 3}', 'bank is back')
    group by 1, 2
  $$,
  $$ values ('changed', null::text, 4) $$,
  'A call changes at most max_jobs'
);
select is(
  (select count(*)::integer from queue.jobs where queue = 'billing' and status = 'queued' and max_attempts = 4),
  4,
  'Arguments of retry hold for each job'
);
select results_eq(
  $$
    select item.detail ->> 'reason', count(*)::integer
    from queue.job_events as item
    where item.event = 'retried'
    group by 1
  $$,
  $$ values ('bank is back', 4) $$,
  'Each job has an event of its own with the reason'
);
select is(
  (select count(*)::integer from queue.bulk('retry', '{"queue": "billing"}', false, 1000, '{"spread": "10 min"}')),
  6,
  'The next call goes on with those that are left'
);
select is_empty(
  $$ select * from queue.bulk('retry', '{"queue": "billing"}', false) $$,
  'When nothing matches any more no row comes'
);
select ok(
  (
    select count(distinct available_at) = 6
      and max(available_at) < clock_timestamp() + interval '10 min'
      and max(available_at) > min(available_at) + interval '1 min'
    from queue.jobs where queue = 'billing' and max_attempts = 2
  ),
  'spread dates the retries over its time'
);
select is(
  (select count(*)::integer from queue.jobs where queue = 'crm' and status = 'failed'), 2,
  'What the filter does not match is left alone'
);
select is(
  (select detail ->> 'jobs' from queue.audit where action = 'bulk_retry' order by id desc limit 1), '6',
  'The audit has the whole action'
);

-- What changed meanwhile ----------------------------------------------------------------------------

select results_eq(
  $$
    select outcome, note
    from queue.bulk('cancel', jsonb_build_object('ids', (select jsonb_agg(id) from failed where kind = 'sync')), false)
  $$,
  $$ select 'skipped', format('job %s is failed', id) from failed where kind = 'sync' order by id $$,
  'A job in another status is skipped, with the reason'
);
select is(
  (select count(*)::integer from queue.bulk('cancel', '{"queue": "billing"}', false)), 10,
  'cancel takes queued and running jobs'
);
select is_empty(
  $$ select * from queue.bulk('retry', '{"queue": "billing"}', false) $$,
  'retry leaves cancelled jobs alone unless asked for'
);
select is(
  (select count(*)::integer from queue.bulk('retry', '{"queue": "billing", "status": "cancelled"}', false)), 10,
  'retry takes cancelled jobs when the filter says so'
);
select queue_tests.enqueue_one('later', 'slow', delay => '1 hour') from generate_series(1, 3);
select is(
  (select count(*)::integer from queue.bulk('run_now', '{"queue": "slow", "label": "scheduled"}', false)), 3,
  'run_now makes scheduled jobs due'
);
select is(
  (select count(*)::integer from queue.bulk('reprioritize', '{"queue": "slow"}', false, 1000, '{"priority": 8}')),
  3,
  'reprioritize takes queued jobs'
);
select is_empty(
  $$ select * from queue.bulk('reprioritize', '{"queue": "slow"}', false, 1000, '{"priority": 8}') $$,
  'A job that has the priority matches no more'
);
select is(
  (select count(*)::integer from queue.bulk('discard', '{"queue": "crm"}', false, reason => 'old')), 2,
  'discard takes failed jobs'
);
select is_empty('select from queue.jobs where queue = ''crm''', 'Discarded jobs are gone');

-- Bad arguments -------------------------------------------------------------------------------------

select throws_ok($$ select queue.bulk('delete', '{}') $$, 'RL400', null, 'An unknown action is refused');
select throws_ok($$ select queue.bulk(null, '{}') $$, 'RL400', null, 'No action is refused');
select throws_ok($$ select queue.bulk('retry', null) $$, 'RL400', null, 'No filter is refused');
select throws_ok($$ select queue.bulk('retry', '{"x": 1}') $$, 'RL400', null, 'An unknown filter is refused');
select throws_ok(
  $$ select queue.bulk('retry', '{"other_priority": 1}') $$, 'RL400', null,
  'The filter''s own word for reprioritize is nobody else''s'
);
select throws_ok(
  $$ select queue.bulk('cancel', '{}', true, 10, '{"delay": "1 s"}') $$, 'RL400', null,
  'Arguments of another action are refused'
);
select throws_ok(
  $$ select queue.bulk('retry', '{}', true, 10, '{"spread": "soon"}') $$, 'RL400', null,
  'Arguments that cannot be read are refused'
);
select throws_ok(
  $$ select queue.bulk('retry', '{}', true, 10, '{"spread": "31 days"}') $$, 'RL400', null,
  'A spread over 30 days is refused'
);
select throws_ok(
  $$ select queue.bulk('reprioritize', '{}') $$, 'RL400', null, 'reprioritize wants a priority'
);
select throws_ok($$ select queue.bulk('retry', '{}', true, 0) $$, 'RL400', null, 'max_jobs is at least 1');
select throws_ok($$ select queue.bulk('retry', '{}', true, 1001) $$, 'RL400', null, 'max_jobs is at most 1,000');

-- Again and again until no row comes --------------------------------------------------------------------

select queue_tests.enqueue_one('long', 'endless') from generate_series(1, 3);
select queue_tests.enqueue_one('later', 'endless', delay => '1 hour') from generate_series(1, 2);
select queue_tests.claim_one('endless') from generate_series(1, 2);
select is(
  (select count(*)::integer from queue.bulk('run_now', '{"queue": "endless"}', false)), 2,
  'run_now takes what is not due yet'
);
select is_empty(
  $$ select * from queue.bulk('run_now', '{"queue": "endless"}', false) $$, 'What was made due matches no more'
);
select is(
  (select count(*)::integer from queue.bulk('cancel', '{"queue": "endless"}', false)), 5,
  'cancel takes what waits and what runs'
);
select is_empty(
  $$ select * from queue.bulk('cancel', '{"queue": "endless"}', false) $$, 'What was asked to stop matches no more'
);

select * from finish();
rollback;
