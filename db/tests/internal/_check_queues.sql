begin;
select no_plan();

select lives_ok(
  $$ select queue._check_queues(array(select 'q' || n from generate_series(1, 32) as n)) $$,
  '32 queues are taken'
);
select throws_ok(
  $$ select queue._check_queues(array(select 'q' || n from generate_series(1, 33) as n)) $$,
  'RL400', 'queues names 33 queues', '33 are not'
);
select throws_ok(
  $$ select queue._check_queues('{}') $$, 'RL400', 'queues names 0 queues', 'None is not enough'
);
select throws_ok(
  $$ select queue._check_queues(null) $$, 'RL400', 'queues names 0 queues', 'Null is none'
);
select throws_ok(
  $$ select queue._check_queues('{a,null}') $$, 'RL400', 'queue null is not a name',
  'Each is a name'
);
select throws_ok(
  $$ select queue._check_queues('{{a,b},{c,D}}') $$,
  'RL400', 'queue ''D'' is not a name', 'However many dimensions'
);

select * from finish();
rollback;
