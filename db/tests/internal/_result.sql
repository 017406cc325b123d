begin;
select no_plan();

select is(queue._result(null), null, 'No result is none');
select is(queue._result('null'), 'null', 'The JSON null is one');
select is(queue._result('{"a": "\u0000"}'), '{"a": "�"}', 'A result is cleaned');
select is(
  octet_length(queue._result(to_json(repeat('x', 1048574)))::text), 1048576,
  'Exactly 1 MiB is taken'
);
select throws_ok(
  $$ select queue._result(to_json(repeat('x', 1048575))) $$,
  'RL413', 'result has 1048577 bytes', 'One byte more is RL413'
);
select throws_ok(
  $$ select queue._result((select json_agg(n) from generate_series(1, 500000) as n)) $$,
  'RL413', null, 'So is a long array'
);

select * from finish();
rollback;
