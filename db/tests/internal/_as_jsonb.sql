begin;
select no_plan();

select is(queue._as_jsonb(given::json), expected::jsonb, rule)
from (
  values
    (
      '{"b": 1, "a": [true, null, 1.50]}', '{"a": [true, null, 1.50], "b": 1}',
      'JSON is kept as jsonb'
    ),
    ('null', 'null', 'The JSON null is a value'),
    ('"\u0000\ud800"', '"��"', 'What jsonb cannot hold is cleaned first'),
    ('1e1000000', '"1e1000000"', 'A number that jsonb cannot hold makes the whole a string'),
    (
      '{"a": 1e-1000000}', '"{\"a\": 1e-1000000}"',
      'So does one with too many digits after the point'
    ),
    (
      '1e400', '"1e400"',
      'A number beyond a double makes the whole a string, since no client could read it'
    ),
    ('["\u0000", 1e400]', '"[\"\\ufffd\", 1e400]"', 'The string is cleaned too')
) as asked (given, expected, rule);
select is(
  jsonb_typeof(queue._as_jsonb((repeat('[', depth) || repeat(']', depth))::json)),
  kind,
  format('Nested %s deep it is kept as %s', depth, kind)
)
from (values (100, 'array'), (102, 'string'), (3000, 'string')) as nested (depth, kind);
select is(queue._as_jsonb(null), null, 'Null stays null');

select * from finish();
rollback;
