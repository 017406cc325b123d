begin;
select no_plan();

create temp table jobs as select * from queue_tests.one_of_each();

select throws_ok(
  format('select queue.reprioritize(%s, 9)', job_id), 'RL409', null,
  'A ' || status || ' job keeps its priority'
)
from jobs where status <> 'queued';

select queue_tests.enqueue_one('line', 'line');
select queue_tests.enqueue_one('line', 'line');
select queue_tests.enqueue_one('line', 'line', priority => 7);
create temp table line as
select id, available_at, row_number() over (order by id) as place
from queue_tests.jobs
where kind = 'line';

create temp table answers as
select answer.*
from line, queue.reprioritize(line.id, 7, 'a promise was made') as answer
where place = 2;
select results_eq(
  $$ select * from answers $$,
  $$
    select job.id, 'queued', 0, job.available_at from queue_tests.jobs as job join line using (id)
    where place = 2
  $$,
  'The answer is the row'
);
select results_eq(
  $$
    select job.priority, job.attempt, job.fence, job.available_at > line.available_at,
      job.available_at between now() and clock_timestamp()
    from queue_tests.jobs as job join line using (id) where place = 2
  $$,
  $$ values (7::smallint, 0, 0, true, true) $$,
  'A job that was due is due from now, at its new priority'
);
select results_eq(
  $$
    select item.event, item.from_status, item.to_status, item.attempt, item.fence, item.worker,
      item.detail - 'available_at',
      (item.detail ->> 'available_at')::timestamptz = answers.available_at
    from answers, queue_tests.events(answers.id) as item offset 1
  $$,
  $$
    values ('reprioritized', 'queued', 'queued', 0, 0, null::text,
      '{"priority": 7, "reason": "a promise was made"}'::jsonb, true)
  $$,
  'The event says the priority, since when it is due, and why'
);
create temp table claims as select queue_tests.claim_one('line') as id from generate_series(1, 3);
select results_eq(
  $$ select line.place::integer from claims join line using (id) $$,
  $$ values (3), (2), (1) $$,
  'It joins the end of its new priority''s line'
);

select queue_tests.enqueue_one('later', 'later', delay => '1 hour');
create temp table later as select available_at from queue_tests.jobs where kind = 'later';
select queue.reprioritize(queue_tests.job_id('later'), 0);
select results_eq(
  $$ select priority, available_at from queue_tests.jobs where kind = 'later' $$,
  $$ select 0::smallint, available_at from later $$,
  'A job due later stays due then'
);

create temp table same as select queue_tests.everything(queue_tests.job_id('queued')) as all;
select results_eq(
  $$ select id, status, attempt from queue.reprioritize(queue_tests.job_id('queued'), 5) $$,
  $$ select job_id, 'queued', 0 from jobs where status = 'queued' $$,
  'Asking for the priority a job has is answered'
);
select is(
  queue_tests.everything(queue_tests.job_id('queued')), (select same.all from same),
  'and changes and records nothing'
);

select throws_ok(
  format('select queue.reprioritize(queue_tests.job_id(%L), %s)', 'queued', priority), 'RL400',
  null,
  rule
)
from (
  values
    ('-1', 'A priority is at least 0'), ('10', 'A priority is at most 9'),
    ('2147483647', 'A large number is no priority'), ('null', 'A priority must be given')
) as wrong (priority, rule);
select is(
  queue_tests.everything(queue_tests.job_id('queued')), (select same.all from same),
  'A refused priority changes nothing'
);

select throws_ok($$ select queue.reprioritize(-1, 9) $$, 'RL404', null, 'An unknown job is RL404');
select throws_ok($$ select queue.reprioritize(null, 9) $$, 'RL404', null, 'No job is RL404');

set local role queue_viewer;
select throws_ok($$ select queue.reprioritize(1, 9) $$, '42501', null, 'Who may only look may not');
set local role queue_admin;
select throws_ok($$ select queue.reprioritize(-1, 9) $$, 'RL404', null, 'An admin is an operator');
reset role;

set local transaction read only;
select throws_ok(
  $$ select queue.reprioritize(1, 9) $$, 'RL503', null, 'A read-only transaction is told RL503'
);

select * from finish();
rollback;
