begin;
select no_plan();

select throws_ok(format('call queue.tick_loop(%s)', seconds), 'RL400', null, rule)
from (
  values ('0', 'seconds is at least 1'), ('3601', 'seconds is at most an hour'),
    ('null', 'seconds is a number')
) as wrong (seconds, rule);

select throws_ok(
  'call queue.tick_loop(1)', '2D000', null, 'Within a transaction it cannot commit, and says so'
);

select results_eq(
  $$ select prosecdef, proconfig from pg_proc where oid = 'queue.tick_loop'::regproc $$,
  $$ values (false, null::text[]) $$,
  'It has neither SECURITY DEFINER nor SET, inside which COMMIT is refused'
);

set local role queue_producer;
select throws_ok('call queue.tick_loop(1)', '42501', null, 'A producer does not tick');
set local role queue_operator;
select throws_ok('call queue.tick_loop(1)', '2D000', null, 'An operator may');
reset role;

select * from finish();
rollback;
