begin;
select no_plan();

select is(
  queue._cut_detail('{"frames": [1, 2]}'), '{"frames": [1, 2]}', 'What fits is kept as it is'
);
select is(
  octet_length(queue._cut_detail(to_json(repeat('x', 65534)))::text),
  65536,
  'Exactly 64 kB fit'
);
select results_eq(
  format(
    $$
      select
        jsonb_typeof(detail), detail ->> 'cut' like %2$L,
        octet_length(detail::text) between 32000 and 65536
      from queue._cut_detail(%1$s) as detail
    $$,
    given, starts
  ),
  $$ values ('object', true, true) $$,
  rule
)
from (
  values
    (
      $$to_json(repeat('x', 65535))$$, '"xxx%...',
      'One byte more is cut: the start of the text is kept'
    ),
    (
      $$to_json(repeat('"\', 100000))$$, '"\\"\\\\%...',
      'All quotes and backslashes are cut to 64 kB too'
    ),
    ($$to_json(repeat(E'\x01', 100000))$$, '"\\u0001%...', 'So are control characters'),
    ($$to_json(repeat('😀', 100000))$$, '"😀%...', 'And long characters')
) as asked (given, starts, rule);
select is(queue._cut_detail(null), null, 'Null stays null');

select * from finish();
rollback;
