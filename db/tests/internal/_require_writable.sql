begin;
select no_plan();

select lives_ok($$ select queue._require_writable() $$, 'A read-write transaction passes');
select lives_ok($$ select queue._transition_time() $$, 'And may date a transition');

set transaction read only;
select throws_ok(
  $$ select queue._require_writable() $$, 'RL503', 'this connection can only read',
  'A read-only one is told RL503'
);
select throws_ok(
  $$ select queue._transition_time() $$, 'RL503', null, 'So it is before a transition is dated'
);

select * from finish();
rollback;
