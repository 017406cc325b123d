begin;
select no_plan();

select is_empty($$ select * from queue._queues() $$, 'Without jobs and policies there is no queue');
select queue_tests.enqueue_one('k', queue, priority => n)
from unnest('{b,a,d}'::text[]) as queue, generate_series(0, 9) as n;
select queue_tests.one_in(status)
from unnest('{running,failed,succeeded,cancelled}'::text[]) as status;
select queue_tests.run_one('z');
select queue.set_policy('p', max_attempts => 3);
select queue.set_policy('looked_at');
select queue.pause('once_paused'), queue.resume('once_paused');
select results_eq(
  $$ select queue from queue._queues() order by 1 $$,
  $$ values ('a'), ('b'), ('d'), ('p'), ('running'), ('z') $$,
  'Queues with something queued or running, and those with a policy that says something, each once'
);

-- Names are found by skipping, not by reading every job.
insert into queue.jobs (created_at, available_at, status, max_attempts, kind, queue)
select now(), now(), 'queued', 5, 'many', 'a' from generate_series(1, 3000);
create temp table reads as select queue_tests.rows_read() as rows;
select is((select count(*) from queue._queues()), 6::bigint, 'Many jobs are no more queues');
select cmp_ok(
  queue_tests.rows_read() - (select rows from reads), '<=', 60::bigint, 'and cost no more'
);

select * from finish();
rollback;
