begin;
select no_plan();

select is_empty($$ select * from queue.list_queues() $$, 'Queues exist by being used');

select queue_tests.enqueue_one('k', 'busy', priority => n) from generate_series(0, 9) as n;
select queue_tests.enqueue_one('k', 'busy', delay => '1 hour') from generate_series(1, 3);
select queue_tests.age(id, '10 min') from queue.jobs where queue = 'busy' and priority = 3;
select queue.claim('tester', '{busy}', 4);
select queue.fail(id, 1, 'E', fatal => true)
from queue.jobs
where status = 'running'
  and priority = 9;
select queue.fail(id, 1, 'E', retry_in => '1 hour')
from queue.jobs
where status = 'running'
  and priority = 8;
select queue_tests.one_in(status)
from unnest('{running,failed,succeeded,cancelled}'::text[]) as status;
select queue.set_policy('planned', lease => '1 min');
select queue.pause('paused', 'moving', clock_timestamp() + interval '1 hour');
select queue.pause('ended', 'over', clock_timestamp() + interval '1 hour');
update queue.policies set paused_until = clock_timestamp() - interval '1 s' where queue = 'ended';

select results_eq(
  $$
    select queue, ready, scheduled, retrying, running, failed, oldest_ready_age > '10 min', paused,
      paused_by = session_user, pause_reason, paused_until > now()
    from queue.list_queues()
  $$,
  $$
    values
      ('busy', 6, 3, 1, 2, 1, true, false, null::boolean, null::text, null::boolean),
      ('ended', 0, 0, 0, 0, 0, null, false, null, null, null),
      ('failed', 0, 0, 0, 0, 1, null, false, null, null, null),
      ('paused', 0, 0, 0, 0, 0, null, true, true, 'moving', true),
      ('planned', 0, 0, 0, 0, 0, null, false, null, null, null),
      ('running', 0, 0, 0, 1, 0, null, false, null, null, null)
  $$,
  'Every queue with something queued, running or failed, or with a policy, and what is in it'
);
select results_eq(
  $$
    select oldest_ready_age between '10 min' and '10 min 5 s'
    from queue.list_queues()
    where queue = 'busy'
  $$,
  $$ values (true) $$,
  'The oldest ready job of all priorities has been due for so long'
);
select queue.pause('busy');
select results_eq(
  $$ select paused, ready, paused_until from queue.list_queues() where queue = 'busy' $$,
  $$ values (true, 6, null::timestamptz) $$,
  'What is ready in a paused queue is counted as ever'
);

-- The counts stop.
insert into queue.jobs (
  created_at, available_at, finished_at, started_at, lease_expires_at, worker, status, max_attempts,
  attempt, fence, kind, queue
)
select
  now(), now() + case when many.status = 'later' then interval '1 h' else interval '0' end,
  case when many.status in ('failed', 'succeeded') then now() + interval '1 min' end, now(),
  case when many.status = 'running' then now() end, case when many.status = 'running' then 'w' end,
  replace(many.status, 'later', 'queued'), 5, 1, 1, 'many', 'many'
from unnest(
  '{queued,running,failed,later,succeeded}'::text[]
) as many (status), generate_series(1, 10100);
create temp table reads as select queue_tests.rows_read() as rows;
select results_eq(
  $$ select ready, scheduled, running, failed from queue.list_queues(10000) where queue = 'many' $$,
  $$ values (10001, 10001, 10001, 10001) $$,
  'Each count stops at 10,001'
);
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 41000::bigint,
  'It reads what it counts, and no finished job'
);

select results_eq(
  $$
    select ready, scheduled, running, failed, counted_to
    from queue.list_queues()
    where queue = 'many'
  $$,
  $$ values (1001, 1001, 1001, 1001, 1000) $$,
  'Unless told otherwise at 1,001'
);
select results_eq(
  $$ select ready, scheduled, running, failed from queue.list_queues(20) where queue = 'many' $$,
  $$ values (21, 21, 21, 21) $$,
  'Or one after what the caller wants counted'
);
select results_eq(
  $$
    select queue, ready, scheduled, retrying, oldest_ready_age > '10 min'
    from queue.list_queues(0)
    where queue = 'busy'
  $$,
  $$ values ('busy', 1, 1, 1, true) $$,
  'Counting to nothing still tells of each whether there is any'
);
select queue_tests.enqueue_one('k', 'failing', delay => '2 hours') from generate_series(1, 60);
update queue.jobs set error_type = 'E' where queue = 'failing';
select queue_tests.enqueue_one('k', 'failing', delay => '1 hour') from generate_series(1, 3);
select results_eq(
  $$
    select count_to, scheduled, retrying
    from generate_series(0, 10, 2) as count_to, queue.list_queues(count_to)
    where queue = 'failing'
  $$,
  $$ values (0, 1, 1), (2, 3, 3), (4, 3, 5), (6, 3, 7), (8, 3, 9), (10, 3, 11) $$,
  'Whatever it stops at, what waits for another attempt is not taken for scheduled'
);

select results_eq(
  $$ select queue, ready, paused from queue.list_queues(queues => '{planned,nothing,busy}') $$,
  $$ values ('busy', 6, true), ('planned', 0, false) $$,
  'Some of them, when they are named'
);
select is_empty($$ select * from queue.list_queues(queues => '{}') $$, 'Of none there is none');
select queue_tests.enqueue_one('k', 'older');
select queue_tests.age(id, '20 min') from queue.jobs where queue = 'older';
select results_eq(
  $$ select queue from queue.list_queues(max_queues => 2) $$,
  $$ values ('busy'), ('older') $$,
  'Or as many as are wanted: those whose first job has waited longest'
);
select results_eq(
  $$ select queue from queue.list_queues(queues => '{planned,busy,ended}', max_queues => 2) $$,
  $$ values ('busy'), ('ended') $$,
  'Where nothing waits they go by their names'
);

insert into queue.policies (queue, max_attempts)
select 'policy-' || n, 1
from generate_series(1, 200 - (select count(*) from queue.list_queues(0))) as n;
select results_eq(
  $$
    select ready, scheduled, running, failed, counted_to
    from queue.list_queues()
    where queue = 'many'
  $$,
  $$ values (501, 501, 501, 501, 500) $$,
  'Of more than a hundred each is counted to its share of 100,000'
);
select results_eq(
  $$
    select max(counted_to)
    from queue.list_queues(max_queues => 100)
    union all select max(counted_to)
    from queue.list_queues(700)
  $$,
  $$ values (1000), (700) $$,
  'Of those that are told, and not where the caller says how far'
);
select throws_ok('select queue.list_queues(max_queues => 0)', 'RL400', null, 'At least one');

select throws_ok('select queue.list_queues(10001)', 'RL400', null, 'It counts to 10,000 at most');
select throws_ok(
  'select queue.list_queues(2147483647)', 'RL400', null, 'However much more is asked for'
);
select throws_ok('select queue.list_queues(-1)', 'RL400', null, 'And not to less than nothing');

set local role queue_worker;
select throws_ok($$ select queue.list_queues() $$, '42501', null, 'A worker may not look');
set local role queue_viewer;
select lives_ok($$ select queue.list_queues() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
