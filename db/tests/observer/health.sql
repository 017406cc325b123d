begin;
select no_plan();

create function pg_temp.status(name text)
returns text language sql as $$ select status from queue.health() where check_name = name $$;
create function pg_temp.detail(name text)
returns text language sql as $$ select detail from queue.health() where check_name = name $$;

select results_eq(
  $$ select check_name from queue.health() $$,
  $$
    values ('steps'), ('leases'), ('old_snapshots'), ('prepared_transactions'), ('dead_rows'),
      ('ready_index'), ('event_partitions'), ('default_partition'), ('notify_queue'), ('cluster')
  $$,
  'The checks'
);
select is_empty(
  $$ select from queue.health() where detail is null or coalesce(hint, '') = '' $$,
  'Each says what it found, and what to do'
);
update queue.steps set due_at = clock_timestamp(), failures = 0;
select results_eq(
  $$
    select distinct status
    from queue.health()
    where check_name not in ('old_snapshots', 'prepared_transactions')
  $$,
  $$ values ('ok') $$,
  'A fresh queue is well'
);

-- steps
update queue.steps set due_at = clock_timestamp() - interval '44 s' where step = 'reap';
select is(pg_temp.status('steps'), 'ok', 'A step that is a little late is no matter');
update queue.steps set due_at = clock_timestamp() - interval '46 s' where step = 'reap';
select is(
  pg_temp.status('steps'), 'warn',
  'Nobody ticks: a step late by three intervals and half a minute is told'
);
update queue.steps
set due_at = clock_timestamp(), finished_at = clock_timestamp() - interval '7 min';
select alike(pg_temp.detail('steps'), '%reap ran 00:07:00 ago%', 'with when it ran');
update queue.steps set finished_at = clock_timestamp() + interval '2 min' where step = 'reap';
select is(pg_temp.status('steps'), 'warn', 'A clock that has stepped back is told');
update queue.steps set finished_at = clock_timestamp();

-- leases
select queue_tests.run_one('late');
update queue.jobs set lease_expires_at = clock_timestamp() - interval '59 s' where kind = 'late';
select is(
  pg_temp.status('leases'), 'ok', 'A claim that awaits the reaper for a moment is no matter'
);
update queue.jobs set lease_expires_at = clock_timestamp() - interval '61 s' where kind = 'late';
select is(pg_temp.status('leases'), 'fail', 'for a minute it is: nobody reaps');
select is(
  pg_temp.detail('leases'), '1 claims await the reaper, the oldest for 00:01:01',
  'and it says how many'
);
select queue.reap();

-- event partitions
do $$
declare
  v_name text;
begin
  for v_name in select name
  from queue._event_days()
  where ends_at > clock_timestamp() + interval '6 days' loop
    execute format('drop table queue.%I', v_name);
  end loop;
end $$;
select is(pg_temp.status('event_partitions'), 'warn', 'Fewer than seven days ahead are told');
do $$
declare
  v_name text;
begin
  for v_name in select name
  from queue._event_days()
  where ends_at > clock_timestamp() + interval '1 day' loop
    execute format('drop table queue.%I', v_name);
  end loop;
end $$;
select is(pg_temp.status('event_partitions'), 'fail', 'fewer than one alarms');
do $$
declare
  v_name text;
begin
  for v_name in select name from queue._event_days() loop
    execute format('drop table queue.%I', v_name);
  end loop;
end $$;
select is(pg_temp.status('event_partitions'), 'fail', 'and so do none');
select is(
  pg_temp.status('default_partition'), 'ok', 'An empty default partition is as it should be'
);
select queue_tests.enqueue_one('stray');
select is(pg_temp.status('default_partition'), 'warn', 'An event in it is told');
select isnt((select queue.rotate_events()), null, 'Days are made');
select is(pg_temp.status('event_partitions'), 'ok', 'and all is well again');

-- cluster
update queue.settings set system_identifier = 1;
select is(pg_temp.status('cluster'), 'fail', 'A restored dump that nobody has noticed alarms');
select queue._adopt_cluster();
select is(pg_temp.status('cluster'), 'ok', 'until it is noticed');

-- The index, before anything has counted it.
update pg_class set reltuples = -1 where oid = 'queue.jobs_ready'::regclass;
select results_eq(
  $$
    select status, detail like '% for uncounted entries'
    from queue.health()
    where check_name = 'ready_index'
  $$,
  $$ values ('ok', true) $$,
  'An index that was never counted is not called bloated'
);

set local role queue_worker;
select throws_ok($$ select queue.health() $$, '42501', null, 'A worker may not look');
set local role queue_viewer;
select lives_ok($$ select queue.health() $$, 'A viewer may');
reset role;
set local transaction read only;
select lives_ok($$ select queue.health() $$, 'It needs no right to write');

select * from finish();
rollback;
