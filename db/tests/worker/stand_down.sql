-- LISTEN counts from its commit on, so it has a transaction of its own.
begin;
select no_plan();

select is(queue.stand_down(), 0, 'A session that stands by for nothing lets go of nothing');

listen rowlock;
commit;
begin;

select pg_advisory_lock(7, 7);
select queue.stand_by('{default,a,b}');
select results_eq(
  $$ select queue.stand_down() $$,
  $$
    select count(distinct queue._wake_bucket(name))::integer
    from unnest('{default,a,b}'::text[]) as name
  $$,
  'It answers how many locks it let go of'
);
select is_empty(
  $$ select * from queue._wake_holders() where pid = pg_backend_pid() $$,
  'None is held any more'
);
select ok(
  pg_advisory_unlock(7, 7),
  'An advisory lock of somebody else''s is left alone'
);
select is(queue.stand_down(), 0, 'Asking again does nothing');

select queue.stand_by();
select queue.stand_by();
select is(queue.stand_down(), 1, 'Having stood by twice takes one standing down');
select is_empty(
  $$ select * from queue._wake_holders() where pid = pg_backend_pid() $$,
  'And leaves no lock'
);

select * from finish();
rollback;
unlisten rowlock;
