begin;
select no_plan();

select lives_ok(
  format('select queue._check_name(%L, %L)', 'queue', name), format('%s is a name', left(name, 20))
)
from unnest(array['a', '0', 'a.b_c:d-e', repeat('z', 63)]) as name;
select throws_ok(
  format('select queue._check_name(%L, %L)', 'queue', name), 'RL400', null,
  format('%s is no name', coalesce(to_json(left(name, 20))::text, 'null'))
)
from unnest(
  array[
    null, '', 'A', 'a b', '_a', '-a', '.a', ':a', 'a/b', 'é', E'a\n', E'\na', 'a''b', 'a%', 'ａ',
    'a٣',
    repeat('z', 64), repeat('z', 1000000)
  ]
) as name;
select throws_like(
  $$ select queue._check_name('kind', repeat('Y', 1000)) $$,
  'kind ''YYY%',
  'The message names the field and the start of the value'
);

select * from finish();
rollback;
