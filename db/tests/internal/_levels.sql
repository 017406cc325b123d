begin;
select no_plan();

select is_empty($$ select * from queue._levels() $$, 'Without a queued job there is no level');

select queue_tests.enqueue_one('k', queue, priority => priority::integer)
from (values ('a', 0), ('a', 9), ('b', 5), ('c', 3), ('c', 4)) as level (queue, priority),
  generate_series(1, 3);
select queue_tests.age(max(id), '10 min') from queue_tests.jobs where queue = 'b';
update queue.jobs set available_at = now() + interval '1 day' where queue = 'c' and priority = 4;
select queue.claim('tester', '{a}', 3);
select queue_tests.one_in(status)
from unnest('{running,failed,succeeded,cancelled}'::text[]) as status;

select results_eq(
  $$ select queue, priority::integer from queue._levels() $$,
  $$ values ('a', 0), ('b', 5), ('c', 3), ('c', 4) $$,
  'Each queue and priority with a queued job, once; what is claimed or ended has none'
);
select results_eq(
  $$ select queue, priority, first_at from queue._levels() $$,
  $$
    select queue, priority, min(available_at) from queue_tests.jobs
    where status = 'queued' group by 1, 2 order by 1, 2
  $$,
  'With when the first of its jobs is due, be that later'
);

-- However many jobs wait.
insert into queue.jobs (created_at, available_at, kind, queue, max_attempts)
select now(), now() + n * interval '1 s', 'many', 'many', 5 from generate_series(1, 5000) as n;
create temp table reads as select queue_tests.rows_read() as rows;
select is((select count(*)::integer from queue._levels()), 5, 'Many jobs are one level');
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 20::bigint, 'It reads a job a level'
);

select * from finish();
rollback;
