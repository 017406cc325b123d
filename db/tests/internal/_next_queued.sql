begin;
select no_plan();

select is(queue._next_queued('q', now()), null, 'Null when nothing is queued');
insert into queue.jobs (created_at, available_at, max_attempts, kind, queue, priority)
values
  (now(), now() + interval '2 h', 1, 'a', 'q', 9), (now(), now() + interval '1 h', 1, 'b', 'q', 0),
  (now(), now() + interval '3 h', 1, 'c', 'q', 5),
  (now(), now() - interval '9 h', 1, 'd', 'other', 5);
select is(
  queue._next_queued('q', now()), now() + interval '1 h',
  'The earliest of a queue, whatever its priority'
);
update queue.jobs set status = 'cancelled', finished_at = now() where kind = 'b';
select is(queue._next_queued('q', now()), now() + interval '2 h', 'Only what is queued counts');

-- Floors as a claim leaves them: nothing of other is queued below now.
create function pg_temp.micros(later interval) returns bigint language sql as $$
  select (extract(epoch from now() + later) * 1000000)::bigint;
$$;
create function pg_temp.set_floors(at interval, recheck interval) returns void language sql as $$
  select set_config(
    'rowlock.floors',
    jsonb_build_object(
      'at', pg_temp.micros(at), 'recheck', pg_temp.micros(recheck),
      'queues',
      jsonb_build_object(
        'other', jsonb_build_object('floors', array_fill(pg_temp.micros('0'), '{10}')::text)
      )
    )::text,
    false
  );
$$;
select pg_temp.set_floors('-1 s', '1 min');
select is(
  queue._next_queued('other', now()), null, 'Floors are used while a claim''s recheck is not due'
);
select pg_temp.set_floors('-2 min', '-1 min');
select is(
  queue._next_queued('other', now()), now() - interval '9 h',
  'A session that only polls does not rely on old ones'
);
select pg_temp.set_floors('1 min', '2 min');
select is(
  queue._next_queued('other', now()), now() - interval '9 h',
  'Nor on any when the clock stepped back'
);
select set_config('rowlock.floors', '', false);

select * from finish();
rollback;
