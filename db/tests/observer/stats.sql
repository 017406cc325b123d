begin;
select no_plan();

select results_eq(
  $$ select name, priority, value, capped from queue.stats() order by name $$,
  $$
    values ('failed', null::integer, 0::numeric, false), ('oldest_ready_seconds', null, 0, false),
      ('paused_queues', null, 0, false), ('ready', null, 0, false), ('retrying', null, 0, false),
      ('running', null, 0, false), ('scheduled', null, 0, false)
  $$,
  'Without jobs everything is zero, and there'
);

select queue_tests.enqueue_one('k', queue, priority => 7) from unnest('{a,a,b}'::text[]) as queue;
select queue_tests.enqueue_one('k', 'a', priority => 2);
select queue_tests.enqueue_one('later', 'a', priority => 9, delay => '1 hour');
select queue_tests.age(id, (id - (select min(id) from queue.jobs) + 1) * interval '1 min')
from queue.jobs where kind = 'k';
select queue_tests.run_one('retrying');
select queue.fail(queue_tests.job_id('retrying'), 1, 'E', retry_in => '1 hour');
select queue_tests.one_in(status)
from unnest('{running,failed,succeeded,cancelled}'::text[]) as status;
select queue.pause('a');

select results_eq(
  $$
    select name, value::integer, capped
    from queue.stats()
    where name <> 'oldest_ready_seconds'
    order by name
  $$,
  $$
    values ('failed', 1, false), ('paused_queues', 1, false), ('ready', 4, false),
      ('retrying', 1, false),
      ('running', 1, false), ('scheduled', 1, false)
  $$,
  'The numbers of all queues together'
);
select results_eq(
  $$
    select priority, round(value / 60)::integer
    from queue.stats()
    where name = 'oldest_ready_seconds'
  $$,
  $$ values (null::integer, 4), (2, 4), (7, 3) $$,
  'The oldest ready job of all, and of each priority that has one: the lower ones may starve'
);
select queue_tests.age(id, '-1 hour') from queue.jobs where queue in ('a', 'b') and kind = 'k';
select results_eq(
  $$ select priority, value from queue.stats() where name = 'oldest_ready_seconds' $$,
  $$ values (null::integer, 0::numeric) $$,
  'When nothing is due nothing is old'
);

-- The caps.
insert into queue.jobs (
  created_at, available_at, finished_at, status, max_attempts, attempt, fence, kind, queue
)
select
  now(), now(), case when many.status = 'failed' then now() end, many.status, 5, 1, 1, 'many',
  many.queue
from (
  values ('queued', 'a', 10050), ('queued', 'b', 100), ('failed', 'a', 6000), ('failed', 'b', 6000)
) as many (status, queue, n),
  generate_series(1, many.n);
select results_eq(
  $$
    select name, value::integer, capped
    from queue.stats()
    where name in ('ready', 'failed')
    order by name
  $$,
  $$ values ('failed', 10001, true), ('ready', 10001, true) $$,
  'A count that stopped says so: the number is at least that'
);

insert into queue.jobs (
  created_at, available_at, status, max_attempts, attempt, fence, kind, queue, error_type
)
select now(), now() + interval '2 hours', 'queued', 5, 1, 1, 'many', 'c', 'E'
from generate_series(1, 10500);
select results_eq(
  $$
    select name, value::integer, capped
    from queue.stats()
    where name in ('scheduled', 'retrying')
    order by name
  $$,
  $$
    select 'retrying', 10001, true
    union all
    select 'scheduled', count(*)::integer, true
    from queue.jobs
    where status = 'queued' and available_at > now() and error_type is null
  $$,
  'Many that wait for another attempt are not taken for scheduled'
);

set local role queue_worker;
select throws_ok($$ select queue.stats() $$, '42501', null, 'A worker may not look');
set local role queue_viewer;
select lives_ok($$ select queue.stats() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
