begin;
select no_plan();

select is(queue._unreadable(document), null, rule)
from (
  values
    ('{"a": [1, "x", null]}'::jsonb, 'Any client reads a usual document'),
    (to_jsonb(repeat('9', 1000)), 'Digits in a string are no number'),
    (to_jsonb(repeat('[', 1000)), 'Brackets in a string nest nothing'),
    ((repeat('[', 100) || repeat(']', 100))::jsonb, 'A hundred levels can be read'),
    ('[1.7e308, -1.7e308]', 'So can large doubles'),
    ('[1e-400]', 'And small ones'),
    (('0.' || repeat('3', 5000))::jsonb, 'And a number with many digits after the point')
) as fine (document, rule);
select is(queue._unreadable(document), 'is nested deeper than 100 levels', rule)
from (
  values
    ((repeat('[', 102) || repeat(']', 102))::jsonb, 'Arrays nest too deep beyond a hundred levels'),
    ((repeat('{"a":', 102) || '1' || repeat('}', 102))::jsonb, 'So do objects'),
    (
      (repeat('[', 4000) || '1e400' || repeat(']', 4000))::jsonb,
      'Any depth is found without trouble'
    )
) as deep (document, rule);
select is(queue._unreadable(document), 'holds a number beyond the range of a double', rule)
from (
  values
    ('1e309'::jsonb, 'A number beyond a double cannot be read'),
    ('-1e309', 'Nor can a negative one'),
    ('{"a": ["x", {"b": [1e5000]}]}', 'Nor one deep inside')
) as large (document, rule);
select is(queue._unreadable(null), null, 'Null can be read');

select * from finish();
rollback;
