begin;
select no_plan();

select queue_tests.run_one('held');
select queue_tests.enqueue_one('queued', 'queued');
select queue_tests.run_one('settled');
select queue.complete(queue_tests.job_id('settled'), 1);

select is(
  (queue._lock_claim(queue_tests.job_id('held'), 1, 'complete')).fence,
  1,
  'The holder of a claim gets the row'
);
select ok(
  (select xmax <> '0' from queue.jobs where kind = 'held'),
  'And holds it locked'
);
select is(
  (queue._lock_claim(queue_tests.job_id('settled'), 1, 'complete')).settled_fence,
  1,
  'Who settled a claim by this verb gets the row as it is now'
);
select throws_ok(
  format('select queue._lock_claim(queue_tests.job_id(%L), %s, %L)', kind, fence, verb), 'RL409',
  null, rule
)
from (
  values
    ('held', '2', 'complete', 'A fence ahead is lost'),
    ('held', '0', 'complete', 'A fence behind is lost'),
    ('held', 'null', 'complete', 'No fence is lost'),
    ('queued', '0', 'complete', 'Fence 0 of a job never claimed is lost'),
    ('settled', '1', 'fail', 'A claim settled by another verb is lost'),
    ('settled', '1', null, 'As it is by none')
) as lost (kind, fence, verb, rule);
select throws_ok(
  $$ select queue._lock_claim(queue_tests.job_id('held'), 7, 'complete') $$,
  'RL409',
  format('job %s is not held under fence 7', queue_tests.job_id('held')),
  'The message names job and fence'
);
select throws_ok(
  $$ select queue._lock_claim(-1, 1, 'complete') $$, 'RL404', 'there is no job -1',
  'An unknown job is RL404'
);
select throws_ok(
  $$ select queue._lock_claim(null, 1, 'complete') $$, 'RL404', 'there is no job null',
  'So is none at all'
);

set transaction read only;
select throws_ok(
  $$ select queue._lock_claim(1, 1, 'complete') $$, 'RL503', null,
  'A read-only transaction is told RL503'
);

select * from finish();
rollback;
