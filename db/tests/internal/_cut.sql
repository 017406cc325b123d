begin;
select no_plan();

select is(queue._cut(given, bytes), expected, rule)
from (
  values
    ('short', 5, 'short', 'What fits stays whole'),
    ('longer', 5, 'lo...', 'What does not is cut and ends in three dots, which count'),
    ('üüü', 5, 'ü...', 'Bytes are counted, not characters'),
    ('üüüü', 7, 'üü...', 'No character is cut in two'),
    ('a😀😀', 8, 'a😀...', 'Nor one of four bytes'),
    ('😀😀', 6, '...', 'Where no character fits the dots are left'),
    ('', 5, '', 'The empty text stays'),
    (null, 5, null, 'Null stays null')
) as asked (given, bytes, expected, rule);
select ok(
  (
    select bool_and(octet_length(queue._cut(text, bytes)) <= bytes)
    from generate_series(3, 60) as bytes,
      unnest(
        array[
          repeat('a', 100), repeat('é', 100), repeat('😀', 100), repeat('aé😀', 30),
          repeat('a', 50) || repeat('😀', 50)
        ]
      ) as text
  ),
  'No cut is longer than asked'
);
select ok(
  (
    select bool_and(octet_length(queue._cut(text, bytes)) > bytes - 4)
    from generate_series(10, 60) as bytes,
      unnest(
        array[
          repeat('a', 100), repeat('é', 100), repeat('😀', 100), repeat('a', 50) || repeat('😀', 50)
        ]
      ) as text
  ),
  'None is shorter than it must be'
);
select is(
  octet_length(queue._cut(repeat('é', 5000000), 16384)),
  16383,
  'A text of 10 MB is cut as well'
);

select * from finish();
rollback;
