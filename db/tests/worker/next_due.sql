begin;
select no_plan();

select is(queue.next_due(), null, 'Null when nothing waits');

select queue_tests.enqueue_one('later', 'a', delay => '1 h');
select queue_tests.enqueue_one('latest', 'a', priority => 9, delay => '2 h');
select ok(
  queue.next_due('{a}') between interval '59 min' and interval '1 h',
  'How long until the first job is due, whatever the priorities'
);
select is(queue.next_due('{b}'), null, 'Other queues do not count');
select queue_tests.enqueue_one('sooner', 'b', delay => '10 min');
select ok(
  queue.next_due('{a,b,c}') between interval '9 min' and interval '10 min',
  'Of several queues the first counts'
);
select queue_tests.enqueue_one('due', 'a', priority => 0);
select is(queue.next_due('{a,b}'), interval '0', 'Zero when a job is due already');
select queue_tests.age(queue_tests.job_id('due'), '1 day');
select is(queue.next_due('{a,b}'), interval '0', 'However long it has been');
select queue_tests.claim_one('a');
select ok(
  queue.next_due('{a}') > interval '59 min',
  'What runs does not wait'
);
select queue.complete(queue_tests.job_id('due'), 1);
select ok(queue.next_due('{a}') > interval '59 min', 'Nor does what is finished');

select queue_tests.enqueue_one('waiting', 'paused');
insert into queue.policies (queue, paused_at, paused_by) values ('paused', now(), 'me');
select is(queue.next_due('{paused}'), null, 'A queue paused until resumed does not count');
select ok(queue.next_due('{paused,a}') > interval '59 min', 'Nor does it hide the others');
update queue.policies set paused_until = now() + interval '5 min';
select ok(
  queue.next_due('{paused}') between interval '4 min' and interval '5 min',
  'A paused queue counts from the end of its pause'
);
update queue.jobs set available_at = now() + interval '30 min' where kind = 'waiting';
select ok(
  queue.next_due('{paused}') > interval '29 min',
  'Unless its job is due later than that'
);
update queue.policies set paused_until = now() - interval '1 s';
update queue.jobs set available_at = now() where kind = 'waiting';
select is(queue.next_due('{paused}'), interval '0', 'A pause that is over does not count');

select throws_ok(format('select queue.next_due(%s)', args), 'RL400', null, rule)
from (
  values
    ('null', 'Queues are not null'),
    ($$'{}'$$, 'At least one queue is named'),
    ($$'{A}'$$, 'A queue is a name'),
    ($$array(select 'q' || n from generate_series(1, 33) as n)$$, 'At most 32 queues are named')
) as wrong (args, rule);

set transaction read only;
select lives_ok($$ select queue.next_due() $$, 'It only reads, so that a standby can answer');

select * from finish();
rollback;
