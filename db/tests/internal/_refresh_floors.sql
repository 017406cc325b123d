-- Floors rise between transactions, so each look has one of its own, before the plan; none writes
-- anything. What others do on the server decides whether a tick is safe at once, so either will do;
-- whether writers before an earlier tick have ended is told by its transaction id, which is set
-- here to one long ended (3) or far ahead.
begin;
create function pg_temp.put(changes jsonb) returns void language sql as $$
  select set_config(
    'rowlock.floors',
    jsonb_strip_nulls(
      coalesce(
        nullif(current_setting('rowlock.floors', true), '')::jsonb, '{}'
      ) || (changes - 'xid')
      || case
        when changes ? 'xid' then jsonb_build_object(
          'tick',
          current_setting('rowlock.floors')::jsonb -> 'tick'
            || jsonb_build_object('xid', changes ->> 'xid')
        )
        else '{}'
      end
    )::text,
    false
  );
$$;
create function pg_temp.keep(name text) returns void language sql as $$
  select set_config('test.' || name, current_setting('rowlock.floors'), false);
$$;
select set_config('rowlock.floors', '', false);
commit;

begin;
select queue._refresh_floors('{a}');
select pg_temp.keep('first');
commit;

begin;
select pg_temp.put('{"xid": "9000000000000000000", "safe": null, "queues": {}, "next": 0}');
select queue._refresh_floors('{a}');
select pg_temp.keep('behind_a_writer');
commit;

begin;
select pg_temp.put('{"xid": "3", "next": 0}');
select set_config('test.answer', queue._refresh_floors('{a}')::text, false);
select pg_temp.keep('second');
commit;

begin;
select pg_temp.put('{"xid": "3"}');
select pg_temp.keep('second_again');
select queue._refresh_floors('{a}');
select pg_temp.keep('at_once');
commit;

-- 250 ms later.
begin;
select pg_temp.put('{"xid": "3", "next": 0}');
select queue._refresh_floors('{b}');
select pg_temp.keep('third');
commit;

-- A minute later.
begin;
select pg_temp.put('{"xid": "3", "next": 0, "recheck": 0}');
select queue._refresh_floors('{b}');
select pg_temp.keep('fourth');
commit;

-- More queues than a session keeps, 30 a claim.
begin;
select queue._refresh_floors(array(select 'early-' || n from generate_series(1, 30) as n));
commit;
begin;
select queue._refresh_floors(array(select 'late-' || n from generate_series(1, 30) as n));
commit;
begin;
select queue._refresh_floors(array(select 'later-' || n from generate_series(1, 30) as n));
select pg_temp.keep('many');
commit;

begin;
select no_plan();

create function pg_temp.of(name text) returns jsonb language sql as $$
  select current_setting('test.' || of.name)::jsonb;
$$;

-- The clock that is safe: of the tick named, or of the one that the look itself made.
create function pg_temp.is_safe(name text, tick text) returns boolean language sql as $$
  select pg_temp.of(name) -> 'safe' in (
    pg_temp.of(tick) #> '{tick,at}', pg_temp.of(name) #> '{tick,at}'
  );
$$;

select ok(pg_temp.of('first') ?& '{tick,at,next,recheck}', 'A new session begins with a tick');
select is(
  coalesce(pg_temp.of('first') -> 'safe', pg_temp.of('first') #> '{tick,at}'),
  pg_temp.of('first') #> '{tick,at}',
  'It is safe at once, or not yet'
);
select is(
  pg_temp.of('first') ? 'safe', pg_temp.of('first') -> 'queues' ? 'a',
  'A session has floors when a tick is safe'
);
select is(
  pg_temp.of('behind_a_writer') - 'at' - 'next',
  jsonb_set(
    pg_temp.of('first') || '{"queues": {}}', '{tick,xid}', '"9000000000000000000"'
  ) - 'safe' - 'at' - 'next',
  'It is not while a writer from before the tick may be at work'
);
select ok(
  pg_temp.is_safe('second', 'first'), 'When every such writer has ended the tick''s clock is safe'
);
select ok(
  (pg_temp.of('second') #>> '{tick,at}')::bigint > (pg_temp.of('first') #>> '{tick,at}')::bigint,
  'And the next tick begins, later'
);
select is(
  (pg_temp.of('answer') #>> '{a,floors}')::bigint[],
  array_fill((pg_temp.of('second') ->> 'safe')::bigint, '{10}'),
  'The floors of an empty queue rise to the safe clock'
);
select is(pg_temp.of('at_once'), pg_temp.of('second_again'), 'Within 250 ms nothing is done again');
select ok(pg_temp.is_safe('third', 'second'), 'After that the next tick becomes safe');
select results_eq(
  $$ select jsonb_object_keys(pg_temp.of('third') -> 'queues') order by 1 $$,
  $$ values ('a'), ('b') $$,
  'Floors of queues that are not asked for now are kept'
);
select results_eq(
  $$ select jsonb_object_keys(pg_temp.of('fourth') -> 'queues') $$,
  $$ values ('b') $$,
  'Once a minute all are sought from the start again: others begin anew when they are asked for'
);
select results_eq(
  $$
    select regexp_replace(name, '-.*', ''), count(*)::integer
    from jsonb_object_keys(pg_temp.of('many') -> 'queues') as name
    group by 1 order by 1
  $$,
  $$ values ('early', 4), ('late', 30), ('later', 30) $$,
  'A session keeps 64 queues, and forgets those longest unused'
);

-- This transaction has a transaction id by now: its own jobs may be dated before a tick.
select pg_temp.put(pg_temp.of('second') || '{"xid": "3", "next": 0}');
select is(
  queue._refresh_floors('{a}'), pg_temp.of('answer'),
  'A transaction that has written uses the floors it has'
);
select is(
  current_setting('rowlock.floors')::jsonb #>> '{tick,xid}', '3', 'And does not tick'
);
select pg_temp.put('{"at": 4102444800000000}');
select is(
  queue._refresh_floors('{a}'), null, 'On a clock that stepped back the floors are forgotten'
);

select * from finish();
rollback;
