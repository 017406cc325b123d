begin;
select no_plan();

select lives_ok(
  format('select queue._check_number(%L, %s, 0, 9)', 'priority', value),
  format('%s is within 0 and 9', value)
)
from unnest('{0,5,9}'::bigint[]) as value;
select throws_ok(
  format('select queue._check_number(%L, %s, 0, 9)', 'priority', coalesce(value::text, 'null')),
  'RL400', null,
  format('%s is not within 0 and 9', coalesce(value::text, 'null'))
)
from unnest('{-1,10,9223372036854775807,-9223372036854775808,null}'::bigint[]) as value;
select throws_ok(
  $$ select queue._check_number('priority', 10, 0, 9) $$,
  'RL400', 'priority 10 is out of range',
  'The message names field and value'
);

select * from finish();
rollback;
