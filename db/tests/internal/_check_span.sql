begin;
select no_plan();

select lives_ok(
  format('select queue._check_span(%L, %L, %L, %L)', 'lease', value, '1 s', '24 h'),
  format('%s is within a second and a day', coalesce(value::text, 'null, which means the default,'))
)
from unnest('{1 s,1 day,24:00:00,1 min,null}'::interval[]) as value;
select throws_ok(
  format('select queue._check_span(%L, %L, %L, %L)', 'lease', value, '1 s', '24 h'), 'RL400', null,
  format('%s is not within a second and a day', value)
)
from unnest(
  '{0,-1 s,00:00:00.999999,24:00:00.000001,1 month,-178000000 years,178000000 years}'::interval[]
) as value;
select throws_ok(
  $$ select queue._check_span('lease', '2 days', '1 s', '24 h') $$,
  'RL400', 'lease 2 days is out of range',
  'The message names field and value'
);

select * from finish();
rollback;
