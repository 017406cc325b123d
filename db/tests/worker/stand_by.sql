-- LISTEN counts from its commit on, so it has a transaction of its own.
begin;
select no_plan();

select throws_ok(
  $$ select queue.stand_by() $$, 'RL400', null,
  'A session that does not listen cannot be woken: RL400'
);
listen rowlock;
select throws_ok(
  $$ select queue.stand_by() $$, 'RL400', null,
  'Nor can it before its LISTEN is committed'
);

commit;
begin;

select is(queue.stand_by(), 'covered', 'A session that listens takes the wake locks: covered');
select results_eq(
  $$ select bucket, pid from queue._wake_holders() $$,
  $$ select queue._wake_bucket('default'), pg_backend_pid() $$,
  'It holds the lock of its queue exclusively'
);
select is(queue.stand_by(), 'covered', 'Asking again answers the same');
select results_eq(
  $$ select count(*)::integer from queue._wake_holders() $$,
  $$ values (1) $$,
  'And takes no lock twice'
);
select is(queue.stand_by('{default,a,b,c,a}'), 'covered', 'More queues are added');
select results_eq(
  $$ select distinct bucket from queue._wake_holders() order by 1 $$,
  $$
    select distinct queue._wake_bucket(name)
    from unnest('{default,a,b,c}'::text[]) as name
    order by 1
  $$,
  'Each queue''s lock is held'
);
select ok(
  (
    select bool_and(held.mode = 'ExclusiveLock' and held.objsubid = 2 and held.granted)
    from pg_locks as held where held.locktype = 'advisory' and held.pid = pg_backend_pid()
  ),
  'The locks are in the two-part key space, exclusive'
);

select throws_ok($$ select queue.stand_by('{}') $$, 'RL400', null, 'At least one queue is named');
select throws_ok($$ select queue.stand_by('{A}') $$, 'RL400', null, 'A queue is a name');

select * from finish();
rollback;
select queue.stand_down();
unlisten rowlock;
