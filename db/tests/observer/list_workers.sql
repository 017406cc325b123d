begin;
select no_plan();

-- Within a transaction the view of sessions stands still: each look at it is made a new one.

select is_empty(
  $$ select from queue.list_workers() where worker like 'w-%' $$,
  'Without sessions and claims nobody works'
);

select queue_tests.enqueue_one('k', 'q') from generate_series(1, 4);
select queue.claim('w-gone', '{q}', 2);
update queue.jobs set lease_expires_at = clock_timestamp() - interval '1 min'
where id = (select min(id) from queue.jobs where worker = 'w-gone');
select results_eq(
  $$
    select
      worker, sessions, started_at, running, oldest_lease_left between '-61 s' and '-1 min', state
    from queue.list_workers() where worker like 'w-%'
  $$,
  $$ values ('w-gone', 0, null::timestamptz, 2, true, 'gone') $$,
  'A worker without a session is gone; its oldest lease has run out since a minute'
);

select pg_stat_clear_snapshot();
set local application_name = 'rowlock:w-live:keeper';
select results_eq(
  $$
    select
      worker, sessions,
      started_at = (select backend_start from pg_stat_activity where pid = pg_backend_pid()),
      running, oldest_lease_left, state
    from queue.list_workers() where worker = 'w-live'
  $$,
  $$ values ('w-live', 1, true, 0, null::interval, 'live') $$,
  'A worker with a session is live, idle or not'
);
select queue.claim('w-live', '{q}', 1);
select results_eq(
  $$
    select sessions, running, oldest_lease_left between '50 s' and '1 min', state
    from queue.list_workers() where worker = 'w-live'
  $$,
  $$ values (1, 1, true, 'live') $$,
  'What it has in hand is counted'
);

select queue.claim('w-' || repeat('x', 100), '{q}', 1);
select pg_stat_clear_snapshot();
set local application_name
  = 'rowlock:w-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx:keeper';
select results_eq(
  $$
    select length(worker), sessions, running, state
    from queue.list_workers()
    where worker like 'w-x%'
  $$,
  $$ values (102, 1, 1, 'live') $$,
  'A name that a session cannot carry whole is known by its beginning'
);
select pg_stat_clear_snapshot();
set local application_name = 'rowlock:migrate';
select is_empty(
  $$ select from queue.list_workers() where worker = 'migrate' $$,
  'A session that is no worker''s is none'
);
select pg_stat_clear_snapshot();
set local application_name = 'psql';
select results_eq(
  $$ select worker, state from queue.list_workers() where worker = 'w-live' $$,
  $$ values ('w-live', 'gone') $$,
  'A worker whose sessions ended is gone'
);

set local role queue_producer;
select throws_ok($$ select queue.list_workers() $$, '42501', null, 'A producer may not look');
set local role queue_viewer;
select lives_ok($$ select queue.list_workers() $$, 'A viewer may');
reset role;

select * from finish();
rollback;
