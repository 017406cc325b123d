-- Floors rise between transactions; those before the plan write nothing.
begin;
select set_config('rowlock.floors', '', false);
commit;

-- The first look: a tick, and no floor yet.
begin;
select set_config('test.first_answer', queue._refresh_floors('{a}')::text, false);
select set_config('test.first', current_setting('rowlock.floors'), false);
commit;

-- The second: the first tick has become safe.
begin;
select set_config('test.second_answer', queue._refresh_floors('{a}')::text, false);
select set_config('test.second', current_setting('rowlock.floors'), false);
commit;

-- The third, at once.
begin;
select queue._refresh_floors('{a}');
select set_config('test.third', current_setting('rowlock.floors'), false);
commit;

-- The fourth, when 250 ms have passed, which is made so here; another queue is named.
begin;
select set_config('rowlock.floors', jsonb_set(current_setting('rowlock.floors')::jsonb, '{next}', '0')::text, false);
select queue._refresh_floors('{b}');
select set_config('test.fourth', current_setting('rowlock.floors'), false);
commit;

begin;
select no_plan();

select is(current_setting('test.first_answer'), '{}', 'A new session has no floors');
select ok(
  (current_setting('test.first')::jsonb) ?& '{tick,at,next,recheck}' and not current_setting('test.first')::jsonb ? 'safe',
  'It begins with a tick, whose clock is not yet safe'
);
select is(
  current_setting('test.second')::jsonb -> 'safe', current_setting('test.first')::jsonb #> '{tick,at}',
  'When every writer before the tick has ended its clock is safe'
);
select isnt(
  current_setting('test.second')::jsonb -> 'tick', current_setting('test.first')::jsonb -> 'tick',
  'And the next tick begins'
);
select is(
  current_setting('test.third'), current_setting('test.second'), 'Within 250 ms nothing is done again'
);
select is(
  current_setting('test.fourth')::jsonb -> 'safe', current_setting('test.second')::jsonb #> '{tick,at}',
  'After that the next tick becomes safe'
);
select results_eq(
  $$ select jsonb_object_keys(current_setting('test.fourth')::jsonb -> 'queues') order by 1 $$,
  $$ values ('a'), ('b') $$,
  'Floors of queues that are not asked for now are kept'
);
select is(
  (current_setting('test.second_answer')::jsonb #>> '{a,floors}')::bigint[],
  array_fill((current_setting('test.first')::jsonb #>> '{tick,at}')::bigint, '{10}'),
  'The floors of an empty queue rise to it'
);
select ok(
  (current_setting('test.second')::jsonb #>> '{tick,at}')::bigint
    >= (current_setting('test.first')::jsonb #>> '{tick,at}')::bigint,
  'Ticks go forward'
);

-- A session with a transaction id: its own jobs may be dated before a tick.
select pg_current_xact_id() is not null;
select set_config('rowlock.floors', jsonb_set(current_setting('test.second')::jsonb, '{next}', '0')::text, false);
select is(
  queue._refresh_floors('{a}'),
  current_setting('test.second_answer')::jsonb,
  'A transaction that has written uses the floors it has'
);
select is(
  current_setting('rowlock.floors')::jsonb #>> '{tick,xid}',
  current_setting('test.second')::jsonb #>> '{tick,xid}',
  'And does not tick'
);
select set_config(
  'rowlock.floors', jsonb_set(current_setting('test.second')::jsonb, '{at}', '4102444800000000')::text, false
);
select is(
  queue._refresh_floors('{a}'), null,
  'On a clock that stepped back the floors are forgotten'
);
select set_config('rowlock.floors', '', false);

select * from finish();
rollback;
