begin;
select no_plan();

select lives_ok(format('select queue._check_claims(%s)', args), rule)
from (
  values
    ($$'{}', '{}'$$, 'No claims are fine'),
    ($$'{1,2}', '{3,4}'$$, 'So is one fence for each job'),
    ($$array_fill(1::bigint, '{1000}'), array_fill(1, '{1000}')$$, 'And a thousand of them')
) as fine (args, rule);
select throws_ok(format('select queue._check_claims(%s)', args), 'RL400', null, rule)
from (
  values
    ($$null, null$$, 'Null is no array'),
    ($$null, '{}'$$, 'Neither as jobs'),
    ($$'{}', null$$, 'Nor as fences'),
    ($$'{1}', '{}'$$, 'A job without fence is no claim'),
    ($$'{}', '{1}'$$, 'Nor a fence without job'),
    ($$'{null}', '{1}'$$, 'Null is no job'),
    ($$'{1}', '{null}'$$, 'Nor a fence'),
    ($$'{{1,2}}', '{1,2}'$$, 'Arrays have one dimension'),
    ($$'{1,2}', '{{1},{2}}'$$, 'Both of them'),
    ($$array_fill(1::bigint, '{1001}'), array_fill(1, '{1001}')$$, 'A thousand is the most')
) as wrong (args, rule);

select * from finish();
rollback;
