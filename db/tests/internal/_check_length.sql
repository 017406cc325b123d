begin;
select no_plan();

select lives_ok(
  format('select queue._check_length(%L, %L, 3)', 'key', value),
  format('%s has 1 to 3 characters', coalesce(value, 'null, meaning none,'))
)
from unnest('{a,abc,üüü,😀😀😀,null}'::text[]) as value;
select throws_ok(
  format('select queue._check_length(%L, %L, 3)', 'key', value),
  'RL400',
  format('key has %s characters', length(value)),
  format('%s characters are not 1 to 3', length(value))
)
from unnest(array['', 'abcd', repeat('k', 10000000)]) as value;

select * from finish();
rollback;
