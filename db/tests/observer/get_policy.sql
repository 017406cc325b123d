begin;
select no_plan();

select is(
  (select count(value)::integer from queue.get_policy('never-used')), 0,
  'A queue without a policy differs in nothing'
);
select is(
  (select count(*)::integer from queue.get_policy('never-used')), 7,
  'What can differ is listed all the same'
);
select is_empty(
  $$ select from queue.policies where queue = 'never-used' $$, 'Reading makes no policy'
);
select lives_ok(
  $$ select queue.set_policy('email', lease => '2 min', max_attempts => 3) $$,
  'A queue gets a policy'
);
select results_eq(
  $$ select name, value from queue.get_policy('email') where value is not null $$,
  $$ values ('lease', '00:02:00'), ('max_attempts', '3') $$,
  'What the queue has of its own is told, and no more'
);
select results_eq(
  $$ select * from queue.get_policy('email') $$,
  $$ select * from queue.set_policy('email') $$,
  'A policy reads as set_policy answers it'
);
select is(
  (select count(value)::integer from queue.get_policy('other')), 0, 'Another queue has none of it'
);
select throws_ok($$ select queue.get_policy('No Name') $$, 'RL400', null, 'A queue has a name');
select throws_ok($$ select queue.get_policy(null) $$, 'RL400', null, 'Null is no queue');

select * from finish();
rollback;
