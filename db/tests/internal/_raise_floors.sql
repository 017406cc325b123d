begin;
select no_plan();

create function pg_temp.micros(instant timestamptz) returns bigint language sql as $$
  select (extract(epoch from instant) * 1000000)::bigint;
$$;
create function pg_temp.raised(
  safe timestamptz, floors bigint[] default array_fill(0::bigint, '{10}')
)
returns bigint[]
language sql
as $$
  select queue._raise_floors('q', floors, safe);
$$;

select is(
  pg_temp.raised(now()),
  array_fill(pg_temp.micros(now()), '{10}'),
  'With nothing queued each priority''s floor rises to the safe instant'
);

insert into queue.jobs (created_at, available_at, max_attempts, kind, queue, priority)
values
  (now(), now() - interval '3 h', 1, 'a', 'q', 5), (now(), now() - interval '2 h', 1, 'b', 'q', 5),
  (now(), now() - interval '1 h', 1, 'c', 'q', 0), (now(), now() + interval '1 h', 1, 'd', 'q', 9),
  (now(), now() - interval '9 h', 1, 'e', 'other', 9);
select is(
  pg_temp.raised(now()),
  array[
    pg_temp.micros(now() - interval '1 h'), pg_temp.micros(now()), pg_temp.micros(now()),
    pg_temp.micros(now()),
    pg_temp.micros(now()), pg_temp.micros(now() - interval '3 h'), pg_temp.micros(now()),
    pg_temp.micros(now()),
    pg_temp.micros(now()), pg_temp.micros(now())
  ],
  'Else to its first queued job, where that is due before; others do not matter'
);
select is(
  (pg_temp.raised(now() - interval '4 h'))[6],
  pg_temp.micros(now() - interval '4 h'),
  'A floor never rises above the safe instant'
);
select is(
  (pg_temp.raised(now(), array_fill(pg_temp.micros(now() - interval '2 h'), '{10}')))[6],
  pg_temp.micros(now() - interval '2 h'),
  'What is sought is sought from the last floor on'
);

update queue.jobs set status = 'cancelled', finished_at = now() where queue = 'q';
select is(
  pg_temp.raised(now()),
  array_fill(pg_temp.micros(now()), '{10}'),
  'Jobs that are not queued hold no floor down'
);

select * from finish();
rollback;
