begin;
select no_plan();

select lives_ok(
  $$ select queue._check_document('headers', to_jsonb(repeat('x', 16382)), 16384) $$,
  'Exactly the most is taken'
);
select throws_ok(
  $$ select queue._check_document('headers', to_jsonb(repeat('x', 16383)), 16384) $$,
  'RL413', 'headers has 16385 bytes', 'One byte more is RL413'
);
select throws_ok(
  $$ select queue._check_document('headers', to_jsonb(repeat('é', 8192)), 16384) $$,
  'RL413', null, 'Bytes count, not characters'
);
select lives_ok(
  $$ select queue._check_document('headers', null, 16384) $$, 'Null is no document and passes'
);
select throws_ok(
  $$ select queue._check_document('payload', '1e309', 16384) $$,
  'RL400', 'payload holds a number beyond the range of a double',
  'What no client could read is RL400'
);
select throws_ok(
  $$
    select queue._check_document('payload', (repeat('[', 102) || repeat(']', 102))::jsonb, 16384)
  $$,
  'RL400', 'payload is nested deeper than 100 levels', 'The message says why'
);

select * from finish();
rollback;
