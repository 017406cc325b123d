begin;
select no_plan();

create function pg_temp.mark() returns setof text language sql as $$
  select held.mode from pg_locks as held
  where held.locktype = 'advisory'
    and held.pid = pg_backend_pid()
    and held.classid = queue._wake_space()::oid;
$$;

select queue._wake('q', now() + interval '15 s 1 microsecond', now());
select is_empty(
  $$ select * from pg_temp.mark() $$,
  'A job due beyond the longest poll needs no word: polling finds it in time'
);
select queue._wake('q', now() + interval '15 s', now());
select results_eq(
  $$ select * from pg_temp.mark() $$,
  $$ values ('ShareLock') $$,
  'With nobody idle, who makes a job claimable holds the wake lock, shared, until it commits'
);
select ok(
  (
    select held.objid = queue._wake_bucket('q')::oid and held.objsubid = 2 from pg_locks as held
    where held.locktype = 'advisory' and held.pid = pg_backend_pid()
  ),
  'It is the lock of the queue''s bucket'
);
select throws_ok(
  $$ select pg_advisory_unlock_all(), 1 / (select count(*)::integer - 1 from pg_temp.mark()) $$,
  '22012', null, 'No unlock within the transaction lets go of it'
);

select lives_ok(
  $$ select queue.enqueue('later', queue => 'r', delay => '1 h') $$,
  'enqueue wakes nobody for what is due later'
);
select is((select count(*)::integer from pg_temp.mark()), 1, 'So it takes no lock');
select queue.enqueue('now', queue => 'r');
select is(
  (select count(*)::integer from pg_temp.mark()),
  (select count(distinct queue._wake_bucket(name))::integer from unnest('{q,r}'::text[]) as name),
  'For what is due it does'
);
select queue.enqueue_many(
  '[{"kind": "a", "queue": "s"}, {"kind": "a", "queue": "t"}, {"kind": "a", "queue": "s"},
    {"kind": "a", "queue": "u", "delay": "1 h"}]'
);
select is(
  (select count(*)::integer from pg_temp.mark()),
  (
    select count(distinct queue._wake_bucket(name))::integer
    from unnest('{q,r,s,t}'::text[]) as name
  ),
  'A batch does for each of its queues that has something due'
);

select * from finish();
rollback;
