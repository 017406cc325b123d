begin;
select no_plan();

create function pg_temp.micros(later interval) returns bigint language sql as $$
  select (extract(epoch from now() + later) * 1000000)::bigint;
$$;
-- What a claim left: floors of two queues, as high as an instant known to be safe, with the recheck
-- due then or later.
create function pg_temp.put(recheck interval) returns void language sql as $$
  select set_config(
    'rowlock.floors',
    jsonb_build_object(
      'at', pg_temp.micros('-2 min'), 'recheck', pg_temp.micros(recheck), 'safe',
      pg_temp.micros('-1 min'),
      'tick', jsonb_build_object('xid', '3', 'at', pg_temp.micros('-1 min')),
      'queues', (
        select jsonb_object_agg(
          name,
          jsonb_build_object('at', 0, 'floors', array_fill(pg_temp.micros('-1 min'), '{10}')::text)
        )
        from unnest('{q,other}'::text[]) as name
      )
    )::text,
    false
  );
$$;
create function pg_temp.state() returns jsonb language sql as $$
  select nullif(current_setting('rowlock.floors', true), '')::jsonb;
$$;
create function pg_temp.floor(priority integer) returns bigint language sql as $$
  select ((pg_temp.state() #>> '{queues,q,floors}')::bigint[])[floor.priority + 1];
$$;

select set_config('rowlock.floors', '', false);
select queue._recheck_floors('{q}');
select is(pg_temp.state(), null, 'A session that never claimed has nothing to recheck');

insert into queue.jobs (created_at, available_at, max_attempts, kind, queue, priority)
values
  (now(), now() - interval '9 h', 1, 'below', 'q', 5),
  (now(), now() + interval '1 h', 1, 'later', 'q', 4);

select pg_temp.put('1 min');
create temp table kept as select pg_temp.state() as state;
select queue._recheck_floors('{q}');
select is(
  pg_temp.state(), (select kept.state from kept), 'Before the minute is over nothing is done'
);

select pg_temp.put('-1 s');
select queue._recheck_floors('{q}');
select is(
  pg_temp.floor(5), pg_temp.micros('-9 h'),
  'A job below its floor is found: the floor is lowered to it'
);
select is(
  pg_temp.floor(4), pg_temp.micros('-1 min'), 'Where none is, the floor is the safe instant again'
);
select is(
  pg_temp.state() -> 'queues' ? 'other', false,
  'Floors of queues that were not looked at are forgotten'
);
select ok(
  (pg_temp.state() ->> 'recheck')::bigint >= pg_temp.micros('1 min'),
  'The next recheck is a minute away'
);
select results_eq(
  $$ select pg_temp.state() -> 'safe', pg_temp.state() -> 'tick' $$,
  $$ select kept.state -> 'safe', kept.state -> 'tick' from kept $$,
  'No tick is made, and none is held to be safe'
);

select pg_temp.put('-1 s');
select set_config('rowlock.floors', (pg_temp.state() - 'safe' - 'tick')::text, false);
select queue._recheck_floors('{q}');
select is(
  pg_temp.floor(5), pg_temp.micros('-1 min'),
  'Without an instant known to be safe floors stay as they are'
);

select set_config('rowlock.floors', '', false);
select * from finish();
rollback;
